"""The options of the source by name, each with a line for a person: the connector's own, then ours. Pure data.

The first part is spark-sql-kafka-0-10's (Spark's "Structured Streaming + Kafka Integration Guide"), names and meaning.
"""

from __future__ import annotations

from difflib import get_close_matches

CONNECTORS = {
    "assign": 'Partitions to read: {"topic":[0,1]}. One of assign, subscribe, subscribePattern is required.',
    "subscribe": "Topics to read, between commas.",
    "subscribePattern": "Topics to read, as a regular expression of Java for the whole name.",
    "startingTimestamp": "Start at the first record as young as this: ms since the epoch, or -1h.",
    "startingOffsetsByTimestamp": "The same for each partition: JSON of ms since the epoch.",
    "startingOffsets": "earliest, latest, JSON by partition (-2 earliest, -1 latest), group:NAME, or -1h.",
    "startingOffsetsByTimestampStrategy": "If no record is as young: error, or latest.",
    "endingTimestamp": "End of a batch: before the first record as young as this; ms since the epoch, or -1h.",
    "endingOffsetsByTimestamp": "The same for each partition: JSON of ms since the epoch.",
    "endingOffsets": "End of a batch: latest, JSON by partition (-1 latest), or -1h.",
    "failOnDataLoss": "Fail when records that were to be read are gone (true); else go on and tell.",
    "kafkaConsumer.pollTimeoutMs": "A task fails when nothing arrives for so long; ms, default 120000.",
    "fetchOffset.numRetries": "How often offsets are looked up before giving up; default 3.",
    "fetchOffset.retryIntervalMs": "Pause between these; ms, default 1000.",
    "maxOffsetsPerTrigger": "Most offsets in one batch of a stream, shared out by backlog.",
    "minOffsetsPerTrigger": "A stream waits for so many offsets...",
    "maxTriggerDelay": "...but at most so long since the last batch; default 15m.",
    "minPartitions": "At least about so many tasks: large ranges are split.",
    "maxRecordsPerPartition": "Most offsets in one task: larger ranges are split.",
    "groupIdPrefix": "Without effect: reading needs no group here.",
    "includeHeaders": "A column headers; default false.",
}

OURS = {
    "view": "What a row is: records, batches, gaps, offsets, groups, members, lag, commits; default records.",
    "columns": "Only these columns, between commas, in this order.",
    "groups": "The groups that views of groups tell of, between commas; default all.",
    "startingGroupStrategy": "With group:NAME, if nothing is committed: error (default), earliest or latest.",
    "commitGroup": "A group that shows how far a stream is, for tools that watch lag.",
    "commitOnIdleSeconds": "Commit again when idle for so long; default 3600, 0: never.",
    "arrow.batchRows": "Most rows in one Arrow batch; default 10000.",
    "arrow.batchBytes": "About the most bytes in one Arrow batch; default 8388608.",
    "offsetPollIntervalMs": "A stream asks for the logs' ends at most so often; ms, default 500.",
    "pushdown": "Let filters choose partitions and offsets (needs spark.sql.python.filterPushdown.enabled).",
    "rowLimitPerPartition": "Most rows of each task of a batch.",
    "path": "load(PATH): the same as subscribe.",
}

CANONICAL = {name.lower(): name for name in (*CONNECTORS, *OURS)}
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
        near = get_close_matches(name.lower(), sorted(CANONICAL), n=1, cutoff=0.6)
        why = f"did you mean {CANONICAL[near[0]]}?" if near else "options for Kafka's client begin with kafka."
    return f"there is no option {name}: {why}"
