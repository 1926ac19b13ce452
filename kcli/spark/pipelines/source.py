"""Source of a pipeline: cluster, topics and range, as options of the format "kcli"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# A shared properties file may have these properties. The source refuses them (section 7 of the guide "Structured
# Streaming + Kafka Integration"), and reads without a group.
NOT_FOR_SPARK = {
    *("auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"),
    *("group.id", "group.instance.id", "key.serializer", "value.serializer"),
}
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_NO_OPTIONS: Mapping[str, str] = {}

#: The partitions of each topic, None: all of them. An empty mapping means all topics.
Topics = Mapping[str, Sequence[int] | None]


class KafkaSource(NamedTuple):
    """Records to read.

    `kafka` are client properties; `start` and `until` are source options; `where` is a SQL expression over the view's
    columns; `more` are further source options, which take precedence.
    """

    kafka: Mapping[str, str]
    topics: Topics
    start: Mapping[str, str] = {"startingOffsets": "earliest"}
    until: Mapping[str, str] = _NO_OPTIONS
    where: str | None = None
    max_offsets_per_trigger: int | None = None
    more: Mapping[str, str] = _NO_OPTIONS

    def __repr__(self) -> str:
        """Omit the properties, which may be secret."""
        return f"<KafkaSource {self.kafka.get('bootstrap.servers')} {', '.join(self.topics)}>"

    def starting_at(self, offsets: Mapping[str, Mapping[str, int]] | None) -> KafkaSource:
        """Return the source with this start instead of its own; None: itself."""
        if offsets is None:
            return self
        import json

        more = {name: value for name, value in self.more.items() if not name.lower().startswith("starting")}
        return self._replace(start={"startingOffsets": json.dumps(offsets)}, more=more)

    def options(
        self, view: str = "records", columns: Iterable[str] | None = None, *, stream: bool = False
    ) -> dict[str, str]:
        """Return the options for `spark.read.format("kcli")`, or with `stream` for `readStream`.

        Options without effect on the view are omitted. ConfigError if `topics` mixes whole topics and partitions, or a
        stream has `until`.
        """
        from kcli.spark.options import RANGED_VIEWS, ignored_options

        if stream and self.until:
            raise ConfigError("--until cannot be used with a stream, which has no end")
        options = {f"kafka.{key}": value for key, value in self.kafka.items() if key not in NOT_FOR_SPARK}
        options |= {"view": view, **selection(self.topics), **self.start, **self.until}
        if columns is not None:
            options["columns"] = ",".join(columns)
        if stream and self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        given = {name.lower() for name in self.more}
        options = {name: value for name, value in options.items() if name.lower() not in given} | dict(self.more)
        idle = {name.lower() for name in ignored_options(view)} if view not in RANGED_VIEWS else set()
        return {name: value for name, value in options.items() if name.lower() not in idle}


def selection(topics: Topics) -> dict[str, str]:
    """Return `subscribe` for whole topics, `assign` for partitions, nothing for no topics."""
    if not topics:
        return {}
    partitions = {topic: numbers for topic, numbers in topics.items() if numbers is not None}
    if not partitions:
        return {"subscribe": ",".join(topics)}
    if len(partitions) < len(topics):
        whole = next(topic for topic in topics if topic not in partitions)
        raise ConfigError(f"topic {whole}: add its partitions, or select whole topics only")
    import json

    return {"assign": json.dumps({topic: list(numbers) for topic, numbers in partitions.items()})}


def is_selected(topic: str, partition: int, topics: Topics) -> bool:
    """Return whether the selection includes a partition."""
    numbers: Sequence[int] | None = topics.get(topic, ())
    return not topics or numbers is None or partition in numbers


def load(
    spark: SparkSession, source: KafkaSource, view: str = "records", columns: Sequence[str] | None = None
) -> DataFrame:
    """Return a frame of the view's rows for which `where` is true. Its offsets are fixed by the first action.

    The frame has the given `columns`; the source also reads those in `where`.
    """
    from kcli.spark.record_schema import ALL
    from kcli.spark.views.registry import VIEWS

    requested = columns
    if source.where is not None:
        source = with_pushdown(spark, source)
    if columns is not None and source.where is not None:
        known = VIEWS[view].columns if view in VIEWS else ALL
        requested = [*columns, *(name for name in columns_in(source.where, known) if name not in columns)]
    frame = spark.read.format("kcli").options(**source.options(view, requested)).load()
    if source.where is not None:
        frame = frame.where(source.where)
    return frame if requested == columns else frame.select(*(columns or ()))


def with_pushdown(spark: SparkSession, source: KafkaSource) -> KafkaSource:
    """Enable pushdown of conditions, unless the session forbids it: each read would fail
    (DATA_SOURCE_PUSHDOWN_DISABLED).
    """
    allowed = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    return source._replace(more={"pushdown": "true", **source.more}) if allowed else source


def columns_in(where: str, known: Iterable[tuple[str, str]]) -> list[str]:
    """Return the known columns whose names are in a condition, even if only in a literal."""
    names = {word.lower() for word in re.findall(r"\w+", where)}
    return [name for name, _ in known if name.lower() in names]


def log_starts(spark: SparkSession, source: KafkaSource) -> dict[tuple[str, int], int | None]:
    """Return the log start of each selected partition, also of empty ones."""
    frame = load(spark, source._replace(where=None), "offsets", ["topic", "partition", "earliest"])
    return {(row.topic, row.partition): row.earliest for row in frame.collect()}


def check_topics_exist(spark: SparkSession, source: KafkaSource, seen: Collection[tuple[str, int]]) -> None:
    """Raise NotFound for named topics that neither exist nor are in `seen`.

    Otherwise a misspelled topic would look like one without data.
    """
    missing = unseen_topics(source.topics, seen)
    if missing:
        asked = source._replace(topics=missing, start={}, until={}, where=None)
        load(spark, asked, "offsets", ["topic"]).collect()


def unseen_topics(topics: Topics, seen: Collection[tuple[str, int]]) -> Topics:
    """Return the named topics, or their named partitions, that are not in `seen`. Pure."""
    known = {topic for topic, _ in seen}
    missing: dict[str, list[int] | None] = {}
    for topic, numbers in topics.items():
        if numbers is None:
            if topic not in known:
                missing[topic] = None
        elif absent := [number for number in numbers if (topic, number) not in seen]:
            missing[topic] = absent
    return missing
