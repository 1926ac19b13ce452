"""The broker's settings that were changed while it ran (KIP-226): for this broker, or for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcli.broker.config import BROKER_OPTIONS, BrokerConfig
from kcli.broker.config_defs import Option, Update
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.settings import format_value

ALL_BROKERS = ""
_IN_SYNC = "min.insync.replicas"


class DynamicConfig:
    """`started_with` are the settings at start; `changed` what was set since, by broker id as text, "" being all."""

    def __init__(self, started_with: BrokerConfig, changed: dict[str, dict[str, str]]) -> None:
        self.started_with = started_with
        self.changed = changed
        self.settings = self._effective(changed)

    def __repr__(self) -> str:
        return f"<DynamicConfig {self.changed}>"

    def seed(self) -> None:
        """What a new cluster has: where leaders are elected by KIP-966, min.insync.replicas is set for all brokers."""
        self.changed[ALL_BROKERS] = {_IN_SYNC: format_value(self.started_with.min_insync_replicas)}
        self.settings = self._effective(self.changed)

    def of_this_broker(self) -> Mapping[str, str]:
        return self.changed.get(str(self.started_with.node_id), {})

    def of_all_brokers(self) -> Mapping[str, str]:
        return self.changed.get(ALL_BROKERS, {})

    def replace(self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False) -> dict[str, str]:
        """Set exactly these; returns what was set before. BrokerError, and no change, if they cannot be set."""
        before = self.changed.get(broker, {})
        self._check_broker(broker)
        _check_changes(configs)
        _check_in_sync(broker, before, configs)
        try:
            settings = self._effective({**self.changed, broker: dict(configs)})
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, error.message) from None
        if not validate_only:
            self.changed[broker] = dict(configs)
            self.settings = settings
        return before

    def restore(self, broker: str, before: dict[str, str]) -> None:
        """Take a `replace` back."""
        self.changed[broker] = before
        self.settings = self._effective(self.changed)

    def _effective(self, changed: Mapping[str, Mapping[str, str]]) -> BrokerConfig:
        """A setting of this broker is worth more than one of all brokers, and that more than what it started with."""
        mine = changed.get(str(self.started_with.node_id), {})
        return self.started_with.with_properties({**changed.get(ALL_BROKERS, {}), **mine})

    def _check_broker(self, broker: str) -> None:
        mine = str(self.started_with.node_id)
        if broker not in (ALL_BROKERS, mine):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"this is broker {mine}, not {broker!r}")


def _check_changes(configs: Mapping[str, str]) -> None:
    for name in configs:
        known = BROKER_OPTIONS.get(name)
        if known is None:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"the broker has no setting {name}")
        if known.update is Update.READ_ONLY:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} cannot be changed while the broker runs")


def _check_in_sync(broker: str, before: Mapping[str, str], configs: Mapping[str, str]) -> None:
    """KIP-966: electing leaders needs one min.insync.replicas for all brokers."""
    if broker != ALL_BROKERS and _IN_SYNC in configs:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{_IN_SYNC} can only be set for all brokers")
    if broker == ALL_BROKERS and _IN_SYNC in before and _IN_SYNC not in configs:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{_IN_SYNC} of all brokers can be changed but not removed")


SET, DELETE, APPEND, SUBTRACT = range(4)


class Change(NamedTuple):
    """One setting: SET it to a value, DELETE what was set, APPEND to its list or SUBTRACT from it."""

    name: str
    operation: int
    value: str | None


def apply_changes(
    before: Mapping[str, str],
    changes: Iterable[Change],
    options: Mapping[str, Option],
    value_of: Callable[[str], str],
) -> dict[str, str]:
    """What is set after `changes` to what was set before; `value_of` tells what a list has that is not set.

    BrokerError for a change that makes no sense; whether the values do is not checked here.
    """
    after = dict(before)
    seen: set[str] = set()
    for change in changes:
        name = change.name
        if name in seen:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name or 'a setting without name'} is changed twice")
        seen.add(name)
        if change.operation == DELETE:
            after.pop(name, None)
        elif change.value is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} cannot be set to null")
        elif change.operation == SET:
            after[name] = change.value
        elif change.operation in (APPEND, SUBTRACT):
            _check_list(name, options)
            after[name] = _changed_list(after.get(name), value_of, change)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"there is no operation {change.operation} on a setting")
    return after


def replace_all(settings: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """What is set when exactly `settings` are. BrokerError for nulls and for a name that comes twice."""
    return apply_changes({}, (Change(name, SET, value) for name, value in settings), {}, str)


def _check_list(name: str, options: Mapping[str, Option]) -> None:
    known = options.get(name)
    if known is None or known.kind != "List":
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name} is no list that could be appended to or subtracted from")


def _changed_list(set_before: str | None, value_of: Callable[[str], str], change: Change) -> str:
    current = _parts(value_of(change.name) if set_before is None else set_before)
    given = _parts(change.value or "")
    if change.operation == APPEND:
        return ",".join(current + [part for part in given if part not in current])
    return ",".join(part for part in current if part not in given)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []
