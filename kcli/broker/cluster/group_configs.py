"""Settings of single groups (KIP-848, KIP-932, KIP-1071): names, types, defaults from the broker, and checks.

This broker serves classic and consumer groups only: the settings of share and streams groups are accepted and stored,
and have no effect. Source: https://kafka.apache.org/documentation/#groupconfigs for 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcli.broker.cluster.topic_configs import values_of
from kcli.broker.config import BrokerConfig
from kcli.broker.config_defs import Option
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.settings import invalid_value

_DURATION_RESET = "by_duration:"


def _parse_reset(name: str, text: str) -> str:
    if text.lower() in ("earliest", "latest") or text.lower().startswith(_DURATION_RESET):
        return text
    raise invalid_value(name, text, "earliest, latest or by_duration:PnDTnHnMn.nS")


def _option(name: str, kind: str, default: object, synonym: str | None = None, **definition: Any) -> Option:
    synonyms = {synonym: 1} if synonym else {}
    return Option(default, name=name, kind=kind, synonyms=synonyms, **definition)


def _of_broker(name: str, default: int, at_least: int, *, ignored: bool = True) -> Option:
    """Return a setting whose default is the broker's setting with "group." before the name."""
    return _option(name, "Int", default, f"group.{name}", at_least=at_least, ignored=ignored)


GROUP_OPTIONS = {
    option.name: option
    for option in (
        _of_broker("consumer.assignment.interval.ms", 1000, 0, ignored=False),
        _of_broker("consumer.heartbeat.interval.ms", 5000, 1, ignored=False),
        _of_broker("consumer.session.timeout.ms", 45_000, 1, ignored=False),
        _of_broker("share.assignment.interval.ms", 1000, 0),
        _option("share.auto.offset.reset", "String", "latest", parse=_parse_reset, ignored=True),
        _of_broker("share.delivery.count.limit", 5, 2),
        _of_broker("share.heartbeat.interval.ms", 5000, 1),
        _option(
            "share.isolation.level",
            "String",
            "read_uncommitted",
            choices=("read_committed", "read_uncommitted"),
            ignored=True,
        ),
        _of_broker("share.partition.max.record.locks", 2000, 100),
        _of_broker("share.record.lock.duration.ms", 30_000, 1000),
        _option("share.renew.acknowledge.enable", "Boolean", True, ignored=True),
        _of_broker("share.session.timeout.ms", 45_000, 1),
        _of_broker("streams.assignment.interval.ms", 1000, 0),
        _of_broker("streams.heartbeat.interval.ms", 5000, 1),
        _of_broker("streams.initial.rebalance.delay.ms", 3000, 0),
        _of_broker("streams.num.standby.replicas", 0, 0),
        _of_broker("streams.session.timeout.ms", 45_000, 1),
    )
}

# The broker's settings that bound those of groups. The limit of standby replicas has another name, and no minimum.
_BOUNDED = tuple(
    name
    for name, option in GROUP_OPTIONS.items()
    if option.synonyms and name not in ("streams.initial.rebalance.delay.ms", "streams.num.standby.replicas")
)
_STANDBYS, _MAX_STANDBYS = "streams.num.standby.replicas", "group.streams.max.standby.replicas"


def _bounds(name: str, broker: BrokerConfig) -> tuple[int, int]:
    kind, _, rest = name.partition(".")
    return broker.value(f"group.{kind}.min.{rest}"), broker.value(f"group.{kind}.max.{rest}")


def group_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of every setting of a group, as `values_of` does."""
    return values_of(GROUP_OPTIONS, "group", broker, overrides)


def effective(broker: BrokerConfig, overrides: Mapping[str, str], name: str) -> int:
    """Return a number of a group as it is in effect: an override is moved into the broker's present bounds."""
    text = overrides.get(name)
    if text is None:
        value: int = broker.value(f"group.{name}")
        return value
    low, high = _bounds(name, broker)
    number: int = GROUP_OPTIONS[name].parse(text)
    return min(max(number, low), high)


def check_group_configs(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise BrokerError INVALID_CONFIG unless a group can have these overrides."""
    try:
        values = group_values(broker, overrides)
        for name in _BOUNDED:
            _check_bounds(name, values[name], overrides, broker)
        if values[_STANDBYS] > broker.value(_MAX_STANDBYS):
            raise ConfigError(f"{_STANDBYS} {values[_STANDBYS]} is greater than {_MAX_STANDBYS}")
        for kind in ("consumer", "share", "streams"):
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            if values[session] <= values[heartbeat]:
                raise ConfigError(f"{session} {values[session]} must be greater than {heartbeat} {values[heartbeat]}")
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, error.message) from None


def _check_bounds(name: str, value: int, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    if name.endswith("assignment.interval.ms") and name not in overrides:
        return
    low, high = _bounds(name, broker)
    if not low <= value <= high:
        kind, _, rest = name.partition(".")
        raise ConfigError(
            f"{name} {value} must be from group.{kind}.min.{rest} {low} to group.{kind}.max.{rest} {high}"
        )
