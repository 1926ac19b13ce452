"""Load of files into a topic: the inverse of an export. Keys, headers, timestamps, nulls and order are kept.

One task writes one partition of the files, in the order of the offsets; with kept partitions it is the only writer of
its partition. So the number of records that a partition has received says which rows are stored, and a repeated task
continues after them (`resumeFrom`, see `kcli.spark.sink`): a load that is repeated stores each record once.

Offsets are not kept: a record gets the next offset of its partition. They equal the old ones if the topic was empty and
the files have no gaps (compaction, transaction markers, deleted records).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError, KcliError, NotFound, Refused
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.files.export import RFC_4180_CSV
from kcli.spark.sink_options import HEADERS_TYPE, SINK_COLUMNS, check_columns
from kcli.text import format_alternatives, format_duration, format_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

KEEP, BY_KEY = "keep", "by-key"
PARTITIONS = (KEEP, BY_KEY)
VALUES = ("raw", "string")
TEXT_FORMATS = ("json", "csv")
"""Formats without bytes: keys and values are text, or base64 after `export --value raw`."""

# An empty field is null and "" is an empty text, only if the text of nulls is another one.
_CSV_NULLS = {"multiLine": "true", "nullValue": "\ufdd0null", "emptyValue": ""}
_TYPES = {"topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp", "headers": HEADERS_TYPE}


class Load(NamedTuple):
    """Files to load, and their topic. `from_topic` is one of several topics in the files; `target` names the topic to
    write to, in `target.topics`, with the client's properties.
    """

    path: str
    target: KafkaSource
    format: str = "parquet"
    value: str = "raw"
    partitions: str = KEEP
    from_topic: str | None = None
    append: bool = False
    resume: bool = False

    @property
    def topic(self) -> str:
        """The topic to write to."""
        return next(iter(self.target.topics))


class FilePartition(NamedTuple):
    """Records of one partition in the files; `offsets` of them have an offset. `oldest_ms` is the least timestamp."""

    topic: str | None
    partition: int | None
    records: int
    offsets: int
    first_offset: int | None
    last_offset: int | None
    oldest_ms: int | None = None


class LogBounds(NamedTuple):
    """Log start and log end of a partition before the load."""

    start: int
    end: int


class PartitionPlan(NamedTuple):
    """Records to write to a partition from offset `start` on, of which `stored` are already there."""

    partition: int
    records: int
    start: int
    stored: int = 0


def plan_load(
    load: Load, files: Sequence[FilePartition], bounds: Mapping[int, LogBounds]
) -> tuple[list[PartitionPlan], list[KcliError]]:
    """Return the plan, and the reasons that forbid it. Pure.

    With `by-key` the plan has a row for each partition of the files: the keys decide where its records go, so that its
    `start` is -1.
    """
    errors = [*_file_errors(load, files), *_target_errors(load, files, bounds)]
    rows = []
    for file in sorted(files, key=lambda file: -1 if file.partition is None else file.partition):
        partition = -1 if file.partition is None else file.partition
        bound = bounds.get(partition)
        if load.partitions == BY_KEY or bound is None:
            rows.append(PartitionPlan(partition, file.records, -1))
        elif load.resume:
            rows.append(PartitionPlan(partition, file.records, 0, bound.end))
            if bound.end > file.records:
                text = f"{load.topic}-{partition} has {bound.end:,} records, but the files have {file.records:,}"
                errors.append(Refused(f"{text}; --resume continues a load of the same files only"))
        else:
            rows.append(PartitionPlan(partition, file.records, bound.end))
    return rows, errors


def _file_errors(load: Load, files: Sequence[FilePartition]) -> list[KcliError]:
    if not files:
        wanted = "" if load.from_topic is None else f" of topic {load.from_topic}"
        return [NotFound(f"{load.path} has no records{wanted}")]
    topics = sorted({file.topic for file in files if file.topic is not None})
    if len(topics) > 1:
        return [ConfigError(f"{load.path} has records of {', '.join(topics)}; choose one with --from-topic")]
    if any(file.partition is None for file in files):
        return [ConfigError(f"{load.path} has records without a partition, so that their order is unknown")]
    errors: list[KcliError] = []
    for file in files:
        place = f"partition {file.partition} of {load.path}"
        if file.offsets < file.records or file.first_offset is None or file.last_offset is None:
            errors.append(ConfigError(f"{place} has records without an offset, so that their order is unknown"))
        elif file.records > file.last_offset - file.first_offset + 1:
            errors.append(Refused(f"{place} has {file.records:,} records but fewer offsets: some were exported twice"))
    return errors


def _target_errors(load: Load, files: Sequence[FilePartition], bounds: Mapping[int, LogBounds]) -> list[KcliError]:
    highest = max((file.partition for file in files if file.partition is not None), default=-1)
    if load.partitions == KEEP and highest >= len(bounds):
        text = f"topic {load.topic} has {len(bounds)} partitions, but the files have partition {highest}"
        return [Refused(f"{text}; use a topic with {highest + 1} partitions, or --partitions by-key")]
    if load.resume:
        cut = [number for number, bound in sorted(bounds.items()) if bound.start]
        if cut:
            text = f"{load.topic}-{cut[0]} starts at offset {bounds[cut[0]].start}, because records were deleted"
            return [Refused(f"{text}: it is unknown which are stored; load into an empty topic without --resume")]
        return []
    records = sum(bound.end - bound.start for bound in bounds.values())
    if records and not load.append:
        cure = "use an empty topic, --append, or --resume for a load that was interrupted"
        return [Refused(f"topic {load.topic} has {records:,} records already; {cure}")]
    return []


def bases(plan: Sequence[PartitionPlan], topic: str) -> str:
    """Return the option `resumeFrom` for a plan with kept partitions."""
    return json.dumps({topic: {str(part.partition): part.start for part in plan}})


def read_files(spark: SparkSession, load: Load) -> DataFrame:
    """Return the rows of the files in the columns of the sink, with `offset`. ConfigError for columns without the
    bytes of the records.
    """
    if load.format in TEXT_FORMATS:
        frame = _text_rows(spark, load)
    else:
        frame = spark.read.format(load.format).load(load.path)
    _check_value(dict(frame.dtypes))
    known = [name for name in (*SINK_COLUMNS, "offset") if name in frame.columns]
    frame = frame.select(*(_as_column(frame, name) for name in known))
    check_columns([column for column in frame.dtypes if column[0] in SINK_COLUMNS], load.topic)
    missing = [name for name in ("partition", "offset") if name not in known]
    if missing:
        raise ConfigError(
            f"the files have no column {missing[0]}, so that the order is unknown; export with all columns"
        )
    return frame if load.from_topic is None else frame.where(frame["topic"] == load.from_topic)


def _check_value(types: Mapping[str, str]) -> None:
    kind = types.get("value", "binary")
    if kind.startswith("struct<") or "value_error" in types:
        what = f"values of type {kind}" if kind.startswith("struct<") else "files with decoded values"
        raise ConfigError(f"{what} do not have the bytes of the records; export with --value raw")


def _as_column(frame: DataFrame, name: str) -> Column:
    """Return a column; those that come from names of folders have the type that Spark has inferred."""
    kind = _TYPES.get(name)
    is_right = kind is None or dict(frame.dtypes)[name] == kind or name == "headers"
    return frame[name] if is_right else frame[name].cast(kind or "").alias(name)


def _text_rows(spark: SparkSession, load: Load) -> DataFrame:
    """Return the rows of JSON or CSV, with keys and values in bytes."""
    if load.format == "json":
        kind = "binary" if load.value == "raw" else "string"
        names = spark.read.format("json").load(load.path).columns
        types = {"key": kind, "value": kind, **_TYPES}
        schema = ", ".join(f"`{name}` {types.get(name, 'string')}" for name in names)
        return spark.read.format("json").schema(schema).load(load.path)
    frame = spark.read.format("csv").options(**RFC_4180_CSV, **_CSV_NULLS).load(load.path)
    return frame.select(*(_from_text(load, name).alias(name) for name in frame.columns))


def _from_text(load: Load, name: str) -> Column:
    column = f.col(f"`{name}`")
    if name in ("key", "value"):
        return f.unbase64(column) if load.value == "raw" else column
    if name == "headers":
        decode = f.unbase64 if load.value == "raw" else lambda text: text.cast("binary")
        headers = f.from_json(column, "array<struct<key:string,value:string>>")
        return f.transform(
            headers, lambda header: f.struct(header["key"].alias("key"), decode(header["value"]).alias("value"))
        )
    return column.cast(_TYPES.get(name, "string"))


def survey_files(frame: DataFrame) -> list[FilePartition]:
    """Return the partitions in the files."""
    topic = f.col("topic") if "topic" in frame.columns else f.lit(None).cast("string").alias("topic")
    offset = f.col("offset")
    time = f.col("timestamp") if "timestamp" in frame.columns else f.lit(None).cast("timestamp")
    counted = frame.groupBy(topic, "partition").agg(
        f.count(f.lit(1)), f.count(offset), f.min(offset), f.max(offset), f.unix_millis(f.min(time))
    )
    return [FilePartition(*row) for row in counted.collect()]


SETTINGS = ("cleanup.policy", "retention.ms", "message.timestamp.type")
"""The settings of a topic that change loaded records, for `topic_notes`."""


def topic_notes(
    topic: str, settings: Mapping[str, str | None], files: Sequence[FilePartition], now_ms: int
) -> list[str]:
    """Return sentences about records that the topic would change or delete after the load. Pure."""
    notes = []
    if settings.get("message.timestamp.type") == "LogAppendTime":
        notes.append(
            f"topic {topic} replaces timestamps by the time of the load (message.timestamp.type=LogAppendTime)"
        )
        return notes
    retention_ms = int(settings.get("retention.ms") or -1)
    oldest_ms = min(
        (file.oldest_ms for file in files if file.oldest_ms is not None and file.oldest_ms >= 0), default=None
    )
    deletes = "delete" in (settings.get("cleanup.policy") or "delete").split(",")
    if deletes and retention_ms >= 0 and oldest_ms is not None and oldest_ms < now_ms - retention_ms:
        notes.append(
            f"topic {topic} deletes records after {format_duration(retention_ms)}, and the oldest of the files is of "
            f"{format_time(oldest_ms)}; to keep it, set retention.ms=-1"
        )
    return notes


def target_bounds(spark: SparkSession, target: KafkaSource) -> dict[int, LogBounds]:
    """Return the log bounds of each partition of the topic. NotFound for a topic that does not exist."""
    from kcli.spark.pipelines.source import load

    columns = ["partition", "earliest", "latest", "error"]
    bounds = {}
    for row in load(spark, target._replace(start={}), "offsets", columns).collect():
        if row.error is not None:
            raise KcliError(f"{next(iter(target.topics))}-{row.partition}: {row.error}")
        bounds[row.partition] = LogBounds(row.earliest, row.latest)
    return bounds


def write_load(spark: SparkSession, frame: DataFrame, load: Load, plan: Sequence[PartitionPlan]) -> None:
    """Write the rows. Raises Spark's exceptions: see `kcli.spark.deploy.spark_errors`."""
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise ConfigError("spark.speculation=true would store records twice; set it to false")
    options = {name: value for name, value in load.target.options().items() if name.startswith("kafka.")}
    if load.partitions == KEEP:
        options["resumeFrom"] = bases(plan, load.topic)
    tasks = 1 + max((part.partition for part in plan), default=0)
    frame = frame.repartitionById(tasks, frame["partition"]).sortWithinPartitions("partition", "offset")
    dropped = ["topic", "offset", *(["partition"] if load.partitions == BY_KEY else [])]
    frame.drop(*dropped).write.format("kcli").options(**options, topic=load.topic).mode("append").save()


def check_load(value: str, partitions: str) -> None:
    """Raise ConfigError for a value that is not valid."""
    if value not in VALUES:
        raise ConfigError(f"--value: {value!r} is not valid; use {format_alternatives(VALUES)}")
    if partitions not in PARTITIONS:
        raise ConfigError(f"--partitions: {partitions!r} is not valid; use {format_alternatives(PARTITIONS)}")


def outcome(
    load: Load, plan: Sequence[PartitionPlan], after: Mapping[int, LogBounds]
) -> list[tuple[PartitionPlan, int, KcliError | None]]:
    """Return the end offset of each partition of the plan, and an error where it is not the expected one. Pure."""
    rows: list[tuple[PartitionPlan, int, KcliError | None]] = []
    for part in plan:
        end = after[part.partition].end if part.partition in after else -1
        error = None
        if load.partitions == KEEP and end != part.start + part.records:
            text = f"{load.topic}-{part.partition} ends at offset {end:,} instead of {part.start + part.records:,}"
            error = KcliError(f"{text}: another producer has written to it, or a task was repeated")
        rows.append((part, end, error))
    return rows
