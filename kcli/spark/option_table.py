"""The options of the source by name, each with a line for a person: the connector's own, then ours. Pure data.

The first part is spark-sql-kafka-0-10's (Spark's "Structured Streaming + Kafka Integration Guide"), names and meaning.
"""

from __future__ import annotations

import re
from typing import Any

from kcli.errors import ConfigError
from kcli.settings import Setting, closest_name, invalid_value
from kcli.text import UNITS_MS

VIEW_NAMES = ("records", "batches", "gaps", "offsets", "groups", "members", "lag", "commits")

_UNITS_MS = {**UNITS_MS, "us": 0.001, "min": UNITS_MS["m"]}


def _duration_ms(name: str, text: str) -> int:
    """A duration in the syntax of Spark's configuration: `15m`, `90s`, `100ms`; a bare number is milliseconds."""
    match = re.fullmatch(r"([0-9]{1,15})(us|ms|s|m|min|h|d)?", text.lower())
    if match is None:
        raise invalid_value(name, text, "a duration like 15m, 90s or 100ms")
    return int(int(match[1]) * _UNITS_MS[match[2] or "ms"])


def _distinct_names(name: str, text: str) -> tuple[str, ...]:
    """Names between commas; a duplicate is an error."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise ConfigError(f"{name} is empty")
    for part in names:
        if names.count(part) > 1:
            raise ConfigError(f"{name} names {part} twice")
    return tuple(names)


def _option(name: str, kind: str, doc: str, **definition: Any) -> Setting:
    return Setting(None, doc, name=name, kind=kind, ignore_case=True, **definition)


_CONNECTORS = (
    _option(
        "assign",
        "String",
        'Partitions to read: {"topic":[0,1]}. One of assign, subscribe, subscribePattern is required.',
    ),
    _option("subscribe", "String", "Topics to read, between commas."),
    _option("subscribePattern", "String", "Topics to read, as a regular expression of Java for the whole name."),
    _option(
        "startingTimestamp",
        "Long",
        "Start at the first record as young as this: ms since the epoch, or -1h.",
        at_least=0,
    ),
    _option("startingOffsetsByTimestamp", "String", "The same for each partition: JSON of ms since the epoch."),
    _option(
        "startingOffsets", "String", "earliest, latest, JSON by partition (-2 earliest, -1 latest), group:NAME, or -1h."
    ),
    _option(
        "startingOffsetsByTimestampStrategy",
        "String",
        "If no record is as young: error, or latest.",
        choices=("error", "latest"),
    ),
    _option(
        "endingTimestamp",
        "Long",
        "End of a batch: before the first record as young as this; ms since the epoch, or -1h.",
        at_least=0,
    ),
    _option("endingOffsetsByTimestamp", "String", "The same for each partition: JSON of ms since the epoch."),
    _option("endingOffsets", "String", "End of a batch: latest, JSON by partition (-1 latest), or -1h."),
    _option(
        "failOnDataLoss", "Boolean", "Fail when records that were to be read are gone (true); else go on and tell."
    ),
    _option(
        "kafkaConsumer.pollTimeoutMs",
        "Long",
        "A task fails when nothing arrives for so long; ms, default 120000.",
        at_least=1,
    ),
    _option(
        "fetchOffset.numRetries", "Int", "How often offsets are looked up before giving up; default 3.", at_least=1
    ),
    _option("fetchOffset.retryIntervalMs", "Long", "Pause between these; ms, default 1000.", at_least=0),
    _option(
        "maxOffsetsPerTrigger", "Long", "Most offsets in one batch of a stream, shared out by backlog.", at_least=1
    ),
    _option("minOffsetsPerTrigger", "Long", "A stream waits for so many offsets...", at_least=1),
    _option("maxTriggerDelay", "Long", "...but at most so long since the last batch; default 15m.", parse=_duration_ms),
    _option("minPartitions", "Int", "At least about so many tasks: large ranges are split.", at_least=1),
    _option("maxRecordsPerPartition", "Long", "Most offsets in one task: larger ranges are split.", at_least=1),
    _option("groupIdPrefix", "String", "Without effect: reading needs no group here."),
    _option("includeHeaders", "Boolean", "A column headers; default false."),
)

_OURS = (
    _option(
        "view",
        "String",
        "What a row is: records, batches, gaps, offsets, groups, members, lag, commits; default records.",
        choices=VIEW_NAMES,
    ),
    _option("columns", "List", "Only these columns, between commas, in this order.", parse=_distinct_names),
    _option(
        "groups", "List", "The groups that views of groups tell of, between commas; default all.", parse=_distinct_names
    ),
    _option(
        "startingGroupStrategy",
        "String",
        "With group:NAME, if nothing is committed: error (default), earliest or latest.",
        choices=("error", "earliest", "latest"),
    ),
    _option("commitGroup", "String", "A group that shows how far a stream is, for tools that watch lag."),
    _option("commitOnIdleSeconds", "Int", "Commit again when idle for so long; default 3600, 0: never.", at_least=0),
    _option("arrow.batchRows", "Int", "Most rows in one Arrow batch; default 10000.", at_least=1),
    # The offsets of one Arrow column are 32 bits wide, and the record that fills a batch may still be large.
    _option(
        "arrow.batchBytes",
        "Int",
        "About the most bytes in one Arrow batch; default 8388608.",
        at_least=1,
        at_most=1 << 30,
    ),
    _option(
        "offsetPollIntervalMs", "Int", "A stream asks for the logs' ends at most so often; ms, default 500.", at_least=0
    ),
    _option(
        "pushdown",
        "Boolean",
        "Let filters choose partitions and offsets (needs spark.sql.python.filterPushdown.enabled).",
    ),
    _option("rowLimitPerPartition", "Long", "Most rows of each task of a batch.", at_least=1),
    _option("path", "String", "load(PATH): the same as subscribe."),
)

CONNECTORS = {option.name: option for option in _CONNECTORS}
OURS = {option.name: option for option in _OURS}
OPTIONS = {**CONNECTORS, **OURS}
CANONICAL = {name.lower(): name for name in OPTIONS}
"""The names as written, by their lower-case form: Spark does not keep the case of options."""

KAFKA = "kafka."
CONFIG_FILE = "config.file"
"""kafka.config.file: a properties file of the client's, read where the client is made."""

_FOREIGN = {
    "topic": "it is for writing; to read a topic say subscribe",
    "topics": "to read topics say subscribe",
    "bootstrap.servers": "say kafka.bootstrap.servers",
    "group.id": "reading needs no group; to start where one is, say startingOffsets=group:NAME",
}


def unknown_option(name: str) -> str:
    """What to say about an option that nobody knows."""
    why = _FOREIGN.get(name.lower())
    if why is None:
        close = closest_name(name.lower(), CANONICAL)
        why = f"did you mean {CANONICAL[close]}?" if close else "options for Kafka's client begin with kafka."
    return f"there is no option {name}: {why}"
