"""Topic settings: names, types, bounds, defaults from the broker's settings, and the `LogConfig` they result in.

Source: https://kafka.apache.org/documentation/#topicconfigs for 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kcli.broker.config import BrokerConfig
from kcli.broker.config_defs import Option
from kcli.broker.log.log_config import LogConfig
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.settings import LONG_MAX, format_value

_REPLICA = re.compile(r"[0-9]+:[0-9]+\Z")
_NO_LIMIT = -1
_HOURS, _MINUTES = 3_600_000, 60_000
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMESTAMPS = ("CreateTime", "LogAppendTime")
_RETENTION = {"log.retention.ms": 1, "log.retention.minutes": _MINUTES, "log.retention.hours": _HOURS}
_ROLL = {"log.roll.ms": 1, "log.roll.hours": _HOURS}
_JITTER = {"log.roll.jitter.ms": 1, "log.roll.jitter.hours": _HOURS}
_FLUSH = {"log.flush.interval.ms": 1, "log.flush.scheduler.interval.ms": 1}


def _option(name: str, kind: str, default: Any, broker: str | dict[str, int] = "", **bounds: Any) -> Option:
    """Declare a topic setting.

    `broker` names the broker setting that gives the default, or several, each with the factor to the topic's unit.
    """
    synonyms = {broker: 1} if isinstance(broker, str) and broker else broker or {}
    return Option(default, name=name, kind=kind, synonyms=synonyms, **bounds)


TOPIC_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        _option("cleanup.policy", "List", ("delete",), "log.cleanup.policy", choices=("compact", "delete")),
        _option(
            "compression.gzip.level",
            "Int",
            -1,
            "compression.gzip.level",
            at_least=-1,
            at_most=9,
            excluded=(0,),
            ignored=True,
        ),
        _option("compression.lz4.level", "Int", 9, "compression.lz4.level", at_least=1, at_most=17, ignored=True),
        _option("compression.type", "String", "producer", "compression.type", choices=_CODECS),
        _option(
            "compression.zstd.level", "Int", 3, "compression.zstd.level", at_least=-131_072, at_most=22, ignored=True
        ),
        _option("delete.retention.ms", "Long", 86_400_000, "log.cleaner.delete.retention.ms", at_least=0),
        _option("file.delete.delay.ms", "Long", 60_000, "log.segment.delete.delay.ms", at_least=0),
        _option("flush.messages", "Long", LONG_MAX, "log.flush.interval.messages", at_least=1),
        _option("flush.ms", "Long", LONG_MAX, _FLUSH, at_least=0),
        _option("follower.replication.throttled.replicas", "List", (), of_nodes=True),
        _option("index.interval.bytes", "Int", 4096, "log.index.interval.bytes", at_least=0),
        _option(
            "internal.segment.bytes", "Int", None, internal=True
        ),  # for tests: smaller segments than segment.bytes can ask for
        _option("leader.replication.throttled.replicas", "List", (), of_nodes=True),
        _option("local.retention.bytes", "Long", -2, "log.local.retention.bytes", at_least=-2, ignored=True),
        _option("local.retention.ms", "Long", -2, "log.local.retention.ms", at_least=-2, ignored=True),
        _option("max.compaction.lag.ms", "Long", LONG_MAX, "log.cleaner.max.compaction.lag.ms", at_least=1),
        _option("max.message.bytes", "Int", 1_048_588, "message.max.bytes", at_least=0),
        _option("message.timestamp.after.max.ms", "Long", 3_600_000, "log.message.timestamp.after.max.ms", at_least=0),
        _option("message.timestamp.before.max.ms", "Long", LONG_MAX, "log.message.timestamp.before.max.ms", at_least=0),
        _option("message.timestamp.type", "String", "CreateTime", "log.message.timestamp.type", choices=_TIMESTAMPS),
        _option("min.cleanable.dirty.ratio", "Double", 0.5, "log.cleaner.min.cleanable.ratio", at_least=0, at_most=1),
        _option("min.compaction.lag.ms", "Long", 0, "log.cleaner.min.compaction.lag.ms", at_least=0),
        _option("min.insync.replicas", "Int", 1, "min.insync.replicas", at_least=1),
        _option("preallocate", "Boolean", False, "log.preallocate", ignored=True),
        _option("remote.log.copy.disable", "Boolean", False, ignored=True),
        _option("remote.log.delete.on.disable", "Boolean", False, ignored=True),
        _option("remote.storage.enable", "Boolean", False, ignored=True),
        _option("retention.bytes", "Long", -1, "log.retention.bytes"),
        _option("retention.ms", "Long", 604_800_000, _RETENTION, at_least=-1),
        _option("segment.bytes", "Int", 1_073_741_824, "log.segment.bytes", at_least=1_048_576),
        _option("segment.index.bytes", "Int", 10_485_760, "log.index.size.max.bytes", at_least=4),
        _option("segment.jitter.ms", "Long", 0, _JITTER, at_least=0),
        _option("segment.ms", "Long", 604_800_000, _ROLL, at_least=1),
        _option("unclean.leader.election.enable", "Boolean", False, "unclean.leader.election.enable", ignored=True),
    )
}


def default_value(option: Option, broker: BrokerConfig) -> Any:
    """Return the value without an override: the first broker setting that is set, else Kafka's default."""
    for name, factor in option.synonyms.items():
        value = broker.value(name)
        if value is not None:
            return max(value * factor, _NO_LIMIT) if factor != 1 else value
    return option.default


def values_of(
    options: Mapping[str, Option], kind: str, broker: BrokerConfig, overrides: Mapping[str, str]
) -> dict[str, Any]:
    """Return the value of every setting of a resource. ConfigError for an override that is unknown or invalid."""
    values = {name: default_value(option, broker) for name, option in options.items()}
    for name, value in overrides.items():
        if name not in options:
            raise ConfigError(f"{name} is not a {kind} setting")
        values[name] = options[name].parse(value)
    return values


def topic_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the value of every setting of a topic, as `values_of` does."""
    return values_of(TOPIC_OPTIONS, "topic", broker, overrides)


def log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return the log configuration of a topic with these overrides. ConfigError as from `topic_values`."""
    values = topic_values(broker, overrides)
    small_segments = values["internal.segment.bytes"]
    if small_segments is not None:
        values["segment.bytes"] = small_segments
    values["cleanup.policy"] = frozenset(values["cleanup.policy"])
    values["retention.ms"] = max(values["retention.ms"], _NO_LIMIT)  # log.retention.ms may be lower
    known = LogConfig._fields
    return LogConfig(**{field: values[field.replace("_", ".")] for field in known})


def check_topic_configs(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise BrokerError INVALID_CONFIG unless a topic can have these overrides."""
    try:
        values = topic_values(broker, overrides)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, error.message) from None
    if values["max.compaction.lag.ms"] < values["min.compaction.lag.ms"]:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"max.compaction.lag.ms {format_value(values['max.compaction.lag.ms'])} is below "
            f"min.compaction.lag.ms {format_value(values['min.compaction.lag.ms'])}",
        )
    _check_throttled(values)
    for name in ("remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"):
        if values[name]:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name} cannot be true: this broker has no tiered storage")


def _check_throttled(values: Mapping[str, Any]) -> None:
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        if values[name] != ("*",) and not all(_REPLICA.match(part) for part in values[name]):
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name} must be * or a list of partition:broker")
