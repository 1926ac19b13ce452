"""Options of the data source by name, with type, bounds and help: those of the connector, then those of kcli. Pure.

Names and meaning of the first part are those of spark-sql-kafka-0-10 (Spark's "Structured Streaming + Kafka Integration
Guide").
"""

from __future__ import annotations

import re
from typing import Any

from kcli.errors import ConfigError
from kcli.settings import Setting, invalid_value
from kcli.text import TIME_SHAPES, UNITS_MS, closest_name, parse_absolute_time

VIEW_NAMES = ("records", "batches", "gaps", "offsets", "groups", "members", "lag", "commits")

_UNITS_MS = {**UNITS_MS, "us": 0.001, "min": UNITS_MS["m"]}


def _duration_ms(name: str, text: str) -> int:
    """Parse a duration of Spark's configuration: `15m`, `90s`, `100ms`; a bare number is milliseconds."""
    match = re.fullmatch(r"([0-9]{1,15})(us|ms|s|m|min|h|d)?", text.lower())
    if match is None:
        raise invalid_value(name, text, "a duration like 15m, 90s or 100ms")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])


def _time_ms(name: str, text: str) -> int:
    """Parse a time that is not relative, by the grammar of `kcli.text`."""
    try:
        return parse_absolute_time(text)
    except ConfigError as error:
        raise (invalid_value(name, text, TIME_SHAPES) if "=" in text else ConfigError(f"{name}: {error}")) from None


def _distinct_names(name: str, text: str) -> tuple[str, ...]:
    """Parse comma-separated names; a duplicate is an error."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise ConfigError(f"{name} is empty")
    for part in names:
        if names.count(part) > 1:
            raise ConfigError(f"{name}: {part} is given twice")
    return tuple(names)


def _schema_version(name: str, text: str) -> str:
    """Parse the version of a schema: a number from 1, or `latest`."""
    version = text.strip().lower()
    if version != "latest" and not re.fullmatch(r"[1-9][0-9]{0,9}", version):
        raise invalid_value(name, text, "latest, or a number from 1")
    return version


def _option(name: str, kind: str, doc: str, **definition: Any) -> Setting:
    return Setting(None, doc, name=name, kind=kind, ignore_case=True, **definition)


_CONNECTORS = (
    _option(
        "assign",
        "String",
        'Partitions to read: {"topic":[0,1]}. One of assign, subscribe, subscribePattern is required.',
    ),
    _option("subscribe", "String", "Topics to read, comma-separated."),
    _option("subscribePattern", "String", "Topics to read: a Java regular expression that matches the whole name."),
    _option(
        "startingTimestamp",
        "Long",
        "Start at the first record at or after this time: ms since the epoch, 2024-01-31T10:00Z, or relative like -1h.",
        parse=_time_ms,
    ),
    _option("startingOffsetsByTimestamp", "String", "Start time of each partition: JSON of ms since the epoch."),
    _option(
        "startingOffsets",
        "String",
        "Start: earliest, latest, 100, +100, -100, @TIME, -1h, group:NAME, or JSON by partition (-2 earliest, -1 "
        "latest).",
    ),
    _option(
        "startingOffsetsByTimestampStrategy",
        "String",
        "Start without a record at or after the time: error or latest.",
        choices=("error", "latest"),
    ),
    _option(
        "endingTimestamp",
        "Long",
        "End of a batch, before the first record at or after this time, as for startingTimestamp.",
        parse=_time_ms,
    ),
    _option("endingOffsetsByTimestamp", "String", "End time of each partition: JSON of ms since the epoch."),
    _option(
        "endingOffsets",
        "String",
        "End of a batch: latest, 100, +100, -100, @TIME, -1h, or JSON by partition (-1 latest).",
    ),
    _option(
        "failOnDataLoss", "Boolean", "If records no longer exist: fail (true), or log it and continue; default true."
    ),
    _option(
        "kafkaConsumer.pollTimeoutMs",
        "Long",
        "Timeout of a task in which no data arrives; ms, default 120000.",
        at_least=1,
    ),
    _option("fetchOffset.numRetries", "Int", "Attempts of an offset look-up; default 3.", at_least=1),
    _option("fetchOffset.retryIntervalMs", "Long", "Pause between the attempts; ms, default 1000.", at_least=0),
    _option(
        "maxOffsetsPerTrigger", "Long", "Maximum offsets in a batch of a stream, distributed by backlog.", at_least=1
    ),
    _option("minOffsetsPerTrigger", "Long", "Minimum offsets in a batch of a stream, see maxTriggerDelay.", at_least=1),
    _option(
        "maxTriggerDelay", "Long", "Maximum time to wait for minOffsetsPerTrigger; default 15m.", parse=_duration_ms
    ),
    _option(
        "minPartitions",
        "Int",
        "Minimum number of tasks, approximately: large ranges are split; small ones share tasks only above it.",
        at_least=1,
    ),
    _option("maxRecordsPerPartition", "Long", "Maximum offsets in a task: larger ranges are split.", at_least=1),
    _option("groupIdPrefix", "String", "No effect: the source reads without a group."),
    _option("includeHeaders", "Boolean", "Add the column headers; default false."),
)

_OURS = (
    _option(
        "view",
        "String",
        "Rows to read: records, batches, gaps, offsets, groups, members, lag, commits; default records.",
        choices=VIEW_NAMES,
    ),
    _option("columns", "List", "Columns to read, comma-separated, in this order.", parse=_distinct_names),
    _option("groups", "List", "Groups for the views of groups, comma-separated; default all.", parse=_distinct_names),
    _option(
        "startingGroupStrategy",
        "String",
        "Start of group:NAME without a committed offset: error (default), earliest or latest.",
        choices=("error", "earliest", "latest"),
    ),
    _option("commitGroup", "String", "Group to commit the position of a stream to, for lag monitoring."),
    _option(
        "commitOnIdleSeconds",
        "Int",
        "Interval of repeated commits while idle, seconds; default 3600, 0: never.",
        at_least=0,
    ),
    _option("arrow.batchRows", "Int", "Maximum rows in an Arrow batch; default 10000.", at_least=1),
    # The offsets of one Arrow column are 32 bits wide, and the last record of a batch may be large as well.
    _option(
        "arrow.batchBytes",
        "Int",
        "Maximum bytes in an Arrow batch, approximately; default 8388608.",
        at_least=1,
        at_most=1 << 30,
    ),
    _option(
        "offsetPollIntervalMs", "Int", "Minimum interval of log end look-ups of a stream; ms, default 500.", at_least=0
    ),
    _option(
        "pushdown",
        "Boolean",
        "Prune partitions and offsets by filters (needs spark.sql.python.filterPushdown.enabled).",
    ),
    _option("rowLimitPerPartition", "Long", "Maximum rows of each task of a batch.", at_least=1),
    *(
        option
        for side in ("value", "key")
        for option in (
            _option(
                f"{side}.decode",
                "String",
                f"Decode {side}s: avro, protobuf, json-schema (columns of the newest schema), or another name of -s.",
            ),
            _option(f"{side}.subject", "String", f"Subject of the schema of the columns; default TOPIC-{side}."),
            _option(
                f"{side}.schema.version", "String", "Version of that schema; default latest.", parse=_schema_version
            ),
            _option(
                f"{side}.schema.file", "String", "File with the schema of the columns, read on the driver; .avsc, ..."
            ),
            _option(f"{side}.message", "String", "Protobuf message in that file; default its first."),
            _option(
                f"{side}.raw",
                "String",
                f"Bytes in the column {side}_raw: those of errors (default), or all.",
                choices=("errors", "all"),
            ),
        )
    ),
    _option("path", "String", "Topics of load(PATH), like subscribe."),
)

CONNECTORS = {option.name: option for option in _CONNECTORS}
OURS = {option.name: option for option in _OURS}
OPTIONS = {**CONNECTORS, **OURS}
CANONICAL = {name.lower(): name for name in OPTIONS}
"""Canonical names by lower-case name: Spark does not preserve the case of options."""

KAFKA = "kafka."
REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.")
"""Properties of a schema registry are accepted with and without the prefix kafka."""
CONFIG_FILE = "config.file"
"""kafka.config.file: a properties file of the client, read in the process that connects."""

_OTHER_NAMES = {
    "topic": "it is for writing; to read a topic use subscribe",
    "topics": "to read topics use subscribe",
    "bootstrap.servers": "use kafka.bootstrap.servers",
    "group.id": "the source reads without a group; to start at committed offsets use startingOffsets=group:NAME",
}


def unknown_option(name: str) -> str:
    """Return the error text for an unknown option."""
    hint = _OTHER_NAMES.get(name.lower())
    if hint is None:
        close = closest_name(name.lower(), CANONICAL)
        hint = f"did you mean {CANONICAL[close]}?" if close else "options of the Kafka client begin with kafka."
    return f"{name} is not an option: {hint}"
