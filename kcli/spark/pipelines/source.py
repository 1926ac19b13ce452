"""Where a pipeline's rows come from: a cluster, topics, a span of them, as the options of format "kcli"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# A file of properties that other programs share may hold these; the source does not take them (section 7 of the guide
# "Structured Streaming + Kafka Integration"), and reads without a group.
NOT_FOR_SPARK = {
    *("auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"),
    *("group.id", "group.instance.id", "key.serializer", "value.serializer"),
}
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_NO_OPTIONS: Mapping[str, str] = {}

#: The partitions of each topic, None: all of them. Where nothing is named, everything is meant.
Topics = Mapping[str, Sequence[int] | None]


class KafkaSource(NamedTuple):
    """What to read.

    `kafka` are client properties; `start` and `until` are source options as `kcli.cli.spark.span` makes them; `where`
    is a SQL expression over the view's columns; `more` are further source options, which win.
    """

    kafka: Mapping[str, str]
    topics: Topics
    start: Mapping[str, str] = {"startingOffsets": "earliest"}
    until: Mapping[str, str] = _NO_OPTIONS
    where: str | None = None
    max_offsets_per_trigger: int | None = None
    more: Mapping[str, str] = _NO_OPTIONS

    def __repr__(self) -> str:
        """Without properties, which may be secret."""
        return f"<KafkaSource {self.kafka.get('bootstrap.servers')} {', '.join(self.topics)}>"

    def options(
        self, view: str = "records", columns: Iterable[str] | None = None, *, stream: bool = False
    ) -> dict[str, str]:
        """What `spark.read.format("kcli").options(...)` takes; with `stream`, `readStream`. Views without ranges get
        nothing that they pass over, as a span. ConfigError: `topics` has some whole and some by partitions; `until` in
        a stream.
        """
        from kcli.spark.options import RANGED_VIEWS, ignored_options

        if stream and self.until:
            raise ConfigError("a stream has no end: --until is for plain batches")
        found = {f"kafka.{key}": value for key, value in self.kafka.items() if key not in NOT_FOR_SPARK}
        found |= {"view": view, **selection(self.topics), **self.start, **self.until}
        if columns is not None:
            found["columns"] = ",".join(columns)
        if stream and self.max_offsets_per_trigger is not None:
            found["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        found |= self.more
        idle = {name.lower() for name in ignored_options(view)} if view not in RANGED_VIEWS else set()
        return {name: value for name, value in found.items() if name.lower() not in idle}


def selection(topics: Topics) -> dict[str, str]:
    """`subscribe` for whole topics, `assign` for partitions, nothing for no topics."""
    if not topics:
        return {}
    partitions = {topic: numbers for topic, numbers in topics.items() if numbers is not None}
    if not partitions:
        return {"subscribe": ",".join(topics)}
    if len(partitions) < len(topics):
        whole = next(topic for topic in topics if topic not in partitions)
        raise ConfigError(f"name the partitions of {whole} too: either all topics are read whole, or none")
    import json

    return {"assign": json.dumps({topic: list(numbers) for topic, numbers in partitions.items()})}


def is_meant(topic: str, partition: int, topics: Topics) -> bool:
    """Whether a partition is among these."""
    numbers: Sequence[int] | None = topics.get(topic, ())
    return not topics or numbers is None or partition in numbers


def load(
    spark: SparkSession, source: KafkaSource, view: str = "records", columns: Sequence[str] | None = None
) -> DataFrame:
    """A frame of the view's rows, those for which `where` holds. Its offsets are fixed when it is first looked at.

    `columns` are what the frame has; the source reads no others but those that `where` speaks of.
    """
    from kcli.spark.record_schema import ALL
    from kcli.spark.views.registry import VIEWS

    wanted = columns
    if source.where is not None:
        source = pushing(spark, source)
    if columns is not None and source.where is not None:
        known = VIEWS[view].columns if view in VIEWS else ALL
        wanted = [*columns, *(name for name in mentioned(source.where, known) if name not in columns)]
    frame = spark.read.format("kcli").options(**source.options(view, wanted)).load()
    if source.where is not None:
        frame = frame.where(source.where)
    return frame if wanted == columns else frame.select(*(columns or ()))


def pushing(spark: SparkSession, source: KafkaSource) -> KafkaSource:
    """The source with Spark telling it conditions, as far as it understands them: not where the session forbids that,
    as each read would fail (DATA_SOURCE_PUSHDOWN_DISABLED).
    """
    allowed = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    return source._replace(more={"pushdown": "true", **source.more}) if allowed else source


def mentioned(where: str, known: Iterable[tuple[str, str]]) -> list[str]:
    """Those of the columns known whose names are in a condition, were it only in a literal."""
    words = {word.lower() for word in re.findall(r"\w+", where)}
    return [name for name, _ in known if name.lower() in words]


def log_starts(spark: SparkSession, source: KafkaSource) -> dict[tuple[str, int], int | None]:
    """All partitions that are selected, with or without records, and the first offset of each."""
    frame = load(spark, source._replace(where=None), "offsets", ["topic", "partition", "earliest"])
    return {(row.topic, row.partition): row.earliest for row in frame.collect()}


def check_named(spark: SparkSession, source: KafkaSource, seen: Collection[tuple[str, int]]) -> None:
    """NotFound, as Spark tells it, for what `source.topics` names that is neither among these partitions nor in the
    cluster.
    """
    left = unseen(source.topics, seen)
    if left:
        asked = source._replace(topics=left, start={}, until={}, where=None)
        load(spark, asked, "offsets", ["topic"]).collect()


def unseen(topics: Topics, seen: Collection[tuple[str, int]]) -> Topics:
    """Topics of which no partition is among these; of those that name partitions, the ones that are not. Pure."""
    known = {topic for topic, _ in seen}
    left: dict[str, list[int] | None] = {}
    for topic, numbers in topics.items():
        if numbers is None:
            if topic not in known:
                left[topic] = None
        elif absent := [number for number in numbers if (topic, number) not in seen]:
            left[topic] = absent
    return left
