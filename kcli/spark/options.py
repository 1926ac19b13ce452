"""Options of one `load()`: parsed and checked by the connector's rules and those of kcli. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.librdkafka import canonical
from kcli.errors import ConfigError
from kcli.log_place import LOG_END, LOG_START
from kcli.spark.client_options import check_kafka
from kcli.spark.offset_json import read_partitions
from kcli.spark.option_table import CANONICAL, KAFKA, OPTIONS, REGISTRY, unknown_option
from kcli.spark.record_schema import Columns, record_columns
from kcli.spark.selection import Assign, Pattern, Selection, Subscribe, compile_pattern
from kcli.spark.start_end import End, Start, check_order, read_end, read_start
from kcli.structs import OFFSETS_TOPIC

if TYPE_CHECKING:
    from kcli.spark.decoding.sides import DecodeOptions, Decoding

RANGED_VIEWS = ("records", "batches", "gaps", "commits")
"""Views that are read by offset ranges, and so can be streamed; the others are snapshots."""

_DEFAULT_TOPICS: dict[str, Selection] = {"commits": Subscribe((OFFSETS_TOPIC,))}


class SourceOptions(NamedTuple):
    """Options of one `load()`. Plain data that pickles.

    `kafka` are the client's properties without prefix, as given: `client_config` resolves references. `selection` is
    None only for views that need no topics. `decodings` are those of `decode`, after they were planned. `notes` are
    sentences about options without effect. `repr` hides secrets.
    """

    kafka: Mapping[str, str]
    selection: Selection | None = None
    view: str = "records"
    columns: tuple[str, ...] | None = None
    starting: Start = Start(LOG_START)
    ending: End = End(LOG_END)
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    poll_timeout_ms: int = 120_000
    fetch_offset_attempts: int = 3
    fetch_offset_retry_interval_ms: int = 1_000
    include_headers: bool = False
    groups: tuple[str, ...] | None = None
    commit_group: str | None = None
    commit_on_idle_s: int = 3_600
    batch_rows: int = 10_000
    batch_bytes: int = 8 << 20
    offset_poll_interval_ms: int = 500
    pushdown: bool = False
    row_limit_per_partition: int | None = None
    decode: tuple[DecodeOptions, ...] = ()
    decodings: tuple[Decoding, ...] = ()
    stream: bool = False
    notes: tuple[str, ...] = ()

    def record_columns(self) -> Columns:
        """Return the columns of the view `records`; the types of decoded sides are known after they were planned."""
        decoded: dict[str, Columns] = {side.side: side.columns for side in self.decodings}
        return record_columns(include_headers=self.include_headers, names=self.columns, decoded=decoded)

    def __repr__(self) -> str:
        from kcli.client.config import is_secret_property

        kafka = {name: "***" if is_secret_property(name) else value for name, value in self.kafka.items()}
        changed = [
            f"{name}={value!r}"
            for name, value in self._asdict().items()
            if name != "kafka" and value != self._field_defaults.get(name)
        ]
        return f"SourceOptions({', '.join([f'kafka={kafka!r}', *changed])})"


def parse_options(options: Mapping[str, str], *, stream: bool | None = False) -> SourceOptions:
    """Parse the options of one `load()`; their names are not case-sensitive.

    ConfigError: one sentence, with the nearest name for an unknown option. `stream` None (only the schema is needed):
    neither the rules of a batch nor those of a stream are applied.
    """
    texts = {name.lower(): str(value) for name, value in options.items()}
    _check_names(options)
    texts |= {f"{KAFKA}{name}": texts.pop(name) for name in list(texts) if name.startswith(REGISTRY)}
    kafka = canonical({name[len(KAFKA) :]: value for name, value in texts.items() if name.startswith(KAFKA)})
    check_kafka(kafka)
    view = OPTIONS["view"].parse(texts.get("view", "records"))
    if stream and view not in RANGED_VIEWS:
        raise ConfigError(f"view={view} cannot be streamed: it is a snapshot of the cluster")
    start, end = read_start(texts, stream=stream), read_end(texts, stream=stream)
    check_order(start, end)
    parsed = SourceOptions(
        kafka=kafka,
        selection=_selection(texts, view),
        view=view,
        columns=OPTIONS["columns"].parse(texts["columns"]) if "columns" in texts else None,
        starting=start,
        ending=end,
        groups=OPTIONS["groups"].parse(texts["groups"]) if "groups" in texts else None,
        commit_group=_commit_group(texts),
        decode=_decode_options(texts) if view == "records" else (),
        stream=bool(stream),
        notes=tuple(_notes(texts, view, bool(stream))),
    )
    parsed = parsed._replace(**_plain_fields(texts))
    if stream:
        parsed = parsed._replace(**{field: SourceOptions._field_defaults[field] for field in _ONLY_BATCH.values()})
    if (parsed.min_offsets_per_trigger or 0) > (parsed.max_offsets_per_trigger or float("inf")):
        raise ConfigError(
            f"minOffsetsPerTrigger={parsed.min_offsets_per_trigger} is above "
            f"maxOffsetsPerTrigger={parsed.max_offsets_per_trigger}"
        )
    return parsed


def _decode_options(texts: Mapping[str, str]) -> tuple[DecodeOptions, ...]:
    given = {
        name: OPTIONS[CANONICAL[name]].parse(text)
        for name, text in texts.items()
        if name.startswith(("key.", "value."))
    }
    if not given:
        return ()
    from kcli.spark.decoding.sides import read_decode_options

    return read_decode_options(given)


def _check_names(options: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for name in options:
        low = name.lower()
        if low.startswith(REGISTRY):
            low = f"{KAFKA}{low}"
        if low == "provider":
            raise ConfigError(_NO_TABLE)
        if low not in CANONICAL and low != "paths" and not low.startswith(KAFKA):
            raise ConfigError(unknown_option(name))
        if low in seen:
            raise ConfigError(f"option {name} is given twice, also as {seen[low]}")
        seen[low] = name


# Spark adds `provider` to the options of CREATE TABLE, and passes none of them to a source in Python when the table is
# read (seen with 4.3.0).
_NO_TABLE = (
    "a table cannot be made of the source: Spark does not pass a table's options to it; "
    "use CREATE TEMPORARY VIEW ... USING kcli OPTIONS (...)"
)


_PLAIN_FIELDS = {
    "minPartitions": "min_partitions",
    "maxRecordsPerPartition": "max_records_per_partition",
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "minOffsetsPerTrigger": "min_offsets_per_trigger",
    "maxTriggerDelay": "max_trigger_delay_ms",
    "kafkaConsumer.pollTimeoutMs": "poll_timeout_ms",
    "fetchOffset.numRetries": "fetch_offset_attempts",
    "fetchOffset.retryIntervalMs": "fetch_offset_retry_interval_ms",
    "commitOnIdleSeconds": "commit_on_idle_s",
    "arrow.batchRows": "batch_rows",
    "arrow.batchBytes": "batch_bytes",
    "offsetPollIntervalMs": "offset_poll_interval_ms",
    "rowLimitPerPartition": "row_limit_per_partition",
    "failOnDataLoss": "fail_on_data_loss",
    "includeHeaders": "include_headers",
    "pushdown": "pushdown",
}
"""Options whose value is a field of `SourceOptions` as it is."""


def _plain_fields(texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        field: OPTIONS[name].parse(texts[name.lower()])
        for name, field in _PLAIN_FIELDS.items()
        if name.lower() in texts
    }


_SELECTORS = ("assign", "subscribe", "subscribePattern")


def _selection(texts: Mapping[str, str], view: str) -> Selection | None:
    selectors = [selector for selector in _SELECTORS if selector.lower() in texts]
    paths = _paths(texts)
    if len(selectors) + bool(paths) > 1:
        given_names = " and ".join([*selectors, "load(...)"] if paths else selectors)
        raise ConfigError(f"only one of {', '.join(_SELECTORS)} can be given, not {given_names}")
    if paths or selectors == ["subscribe"]:
        return Subscribe(tuple(dict.fromkeys(paths or _topics(texts["subscribe"]))))
    if selectors == ["assign"]:
        partitions = read_partitions(texts["assign"], "assign")
        if not partitions:
            raise ConfigError("assign names no partition")
        return Assign(partitions)
    if selectors == ["subscribePattern"]:
        text = texts["subscribepattern"].strip()
        compile_pattern(text)
        return Pattern(text)
    if view in ("records", "batches", "gaps"):
        raise ConfigError(f"no topics selected; use one of {', '.join(_SELECTORS)}")
    return _DEFAULT_TOPICS.get(view)


def _topics(text: str) -> list[str]:
    topics = [topic.strip() for topic in text.split(",") if topic.strip()]
    if not topics:
        raise ConfigError("subscribe names no topic")
    return topics


def _paths(texts: Mapping[str, str]) -> list[str]:
    """Return the topics of `load("a")` and `load(["a", "b"])`: Spark makes the options path and paths of them."""
    if "paths" in texts:
        try:
            paths = json.loads(texts["paths"])
        except ValueError:
            paths = None
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise ConfigError("load(...) takes topic names only")
        return [topic for path in paths for topic in _topics(path)]
    return _topics(texts["path"]) if texts.get("path") else []


def _commit_group(texts: Mapping[str, str]) -> str | None:
    if "commitgroup" not in texts:
        return None
    if not texts["commitgroup"].strip():
        raise ConfigError("commitGroup must not be empty")
    return texts["commitgroup"].strip()


_ONLY_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroup")
_ONLY_BATCH = {"pushdown": "pushdown", "rowLimitPerPartition": "row_limit_per_partition"}
_DECODING = tuple(name for name in OPTIONS if name.startswith(("key.", "value.")))
_ONLY_RECORDS = ("includeHeaders", "arrow.batchBytes", *_DECODING)
_ONLY_RANGED = (
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"),
    *("startingOffsetsByTimestampStrategy", "startingGroupStrategy"),
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"),
    *("failOnDataLoss", "minPartitions", "maxRecordsPerPartition", *_ONLY_BATCH),
)
_ONLY_TOPICS = (*_SELECTORS, "path", "paths", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")


def ignored_options(view: str) -> list[str]:
    """Return the options without effect on this view."""
    names = [] if view == "records" else list(_ONLY_RECORDS)
    if view not in RANGED_VIEWS:
        names += _ONLY_RANGED
    if view in ("groups", "members", "lag"):
        names += _ONLY_TOPICS
    elif view != "commits":
        names.append("groups")
    return names


def _notes(texts: Mapping[str, str], view: str, stream: bool) -> list[str]:
    kind = "stream" if stream else "batch"
    idle = _ONLY_BATCH if stream else _ONLY_STREAM
    notes = [f"{name} is ignored in a {kind}" for name in idle if name.lower() in texts]
    for name in ignored_options(view):
        if name.lower() in texts:
            notes.append(f"{'load(...)' if name in ('path', 'paths') else name} is ignored by view {view}")
    for side in ("key", "value") if view == "records" else ():
        given = [name for name in _DECODING if name.startswith(f"{side}.") and name.lower() in texts]
        if f"{side}.decode" not in given:
            notes += [f"{name} is ignored without {side}.decode" for name in given]
    if "groupidprefix" in texts:
        notes.append("groupIdPrefix is ignored: the source reads without a group")
    if "kafka.group.id" in texts:
        notes.append(
            "kafka.group.id is ignored: the source reads without a group; commitGroup commits a stream's position"
        )
    return notes
