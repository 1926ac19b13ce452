"""Options and columns of one write: parsed and checked by the connector's rules, before a record is sent. Pure.

Source: "Writing Data to Kafka" in Spark's "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.client.librdkafka import canonical
from kcli.errors import ConfigError
from kcli.spark.client_options import check_kafka
from kcli.spark.option_table import KAFKA
from kcli.spark.record_schema import ALL
from kcli.structs import TopicPartition
from kcli.text import closest_name, is_topic_name

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
SINK_COLUMNS: dict[str, tuple[str, ...]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (HEADERS_TYPE,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The columns that are written, with their types. `timestamp` is not one of the connector's."""

_NULL = "void"
_OPTIONS = {"topic": "topic", "resumefrom": "resumeFrom", "includeheaders": "includeHeaders"}
_OF_SPARK = {"path", "paths", "checkpointlocation", "queryname", "sparksession"}
"""Options that Spark itself adds or reads."""


class SinkOptions(NamedTuple):
    """Options of one write. Plain data that pickles; `repr` hides secrets.

    `kafka` are the client's properties without prefix, as given. `topic` takes precedence over the column. With
    `resume_from` (the end offset of each partition before the first attempt) a task skips the records that an earlier
    attempt has stored: see `kcli.spark.sink`.
    """

    kafka: Mapping[str, str]
    topic: str | None = None
    resume_from: Mapping[TopicPartition, int] | None = None

    def __repr__(self) -> str:
        from kcli.client.config import ProducerConfig

        kafka = {name: "***" if ProducerConfig.is_secret(name) else value for name, value in self.kafka.items()}
        return f"SinkOptions(kafka={kafka!r}, topic={self.topic!r})"


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of one write; their names are not case-sensitive. ConfigError: one sentence."""
    texts = {name.lower(): str(value) for name, value in options.items()}
    for name in options:
        if name.lower() not in {*_OPTIONS, *_OF_SPARK} and not name.lower().startswith(KAFKA):
            raise ConfigError(_unknown(name))
    kafka = canonical({name[len(KAFKA) :]: value for name, value in texts.items() if name.startswith(KAFKA)})
    check_kafka(kafka, writes=True)
    topic = texts.get("topic") or texts.get("path") or None
    if topic is not None and not is_topic_name(topic):
        raise ConfigError(f"topic {topic!r} is not valid; use letters, digits, '.', '_' and '-'")
    return SinkOptions(kafka, topic, _bases(texts.get("resumefrom")))


def _unknown(name: str) -> str:
    if name.lower() in ("topics", "subscribe"):
        return f"{name} is not an option for writing: use topic, or a column topic"
    close = closest_name(name.lower(), _OPTIONS)
    hint = f"did you mean {_OPTIONS[close]}?" if close else "options of the Kafka client begin with kafka."
    return f"{name} is not an option for writing: {hint}"


def _bases(text: str | None) -> dict[TopicPartition, int] | None:
    if text is None:
        return None
    from kcli.spark.offset_json import read_offsets

    return dict(read_offsets(text, "resumeFrom"))


def check_columns(columns: Sequence[tuple[str, str]], topic: str | None) -> list[str]:
    """Return the names of the columns to write, of columns given as (name, SQL type).

    The other columns of a read are ignored. ConfigError for a type that is not written, a column that a record does
    not have, and rows without a topic.
    """
    _check_names(name for name, _ in columns)
    names = []
    for name, kind in columns:
        if name in SINK_COLUMNS:
            _check_type(name, kind)
            names.append(name)
    if "value" not in names:
        raise ConfigError("a column value is required, of type string or binary; rename one with AS value")
    if topic is None and "topic" not in names:
        raise ConfigError("no topic to write to; use the option topic, or a column topic")
    return names


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"column {name} occurs twice; select each column once")
        seen.add(name)
        if name not in SINK_COLUMNS and name not in _ONLY_READ:
            close = closest_name(name.lower(), SINK_COLUMNS)
            hint = f"did you mean {close}?" if close else f"columns are {', '.join(SINK_COLUMNS)}; select those"
            raise ConfigError(f"column {name} cannot be written: {hint}")


_ONLY_READ = {name for name, _ in ALL} - SINK_COLUMNS.keys()


def _check_type(name: str, kind: str) -> None:
    kind = kind.split(" collate ")[0]
    if kind in SINK_COLUMNS[name] or (kind == _NULL and name != "topic"):
        return
    wanted = " or ".join(SINK_COLUMNS[name])
    cures = {
        "key": "use CAST(key AS STRING), or to_json(key)",
        "value": "use CAST(value AS STRING), or to_json(value)",
        "timestamp": "use CAST(timestamp AS TIMESTAMP)",
        "partition": "use CAST(partition AS INT)",
        "topic": "use CAST(topic AS STRING)",
    }
    cure = f"; {cures[name]}" if name in cures else ""
    raise ConfigError(f"column {name} is of type {kind}; it must be {wanted}{cure}")
