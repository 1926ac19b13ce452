"""Profile of a topic's records: nulls, tombstones, sizes, order in time; fields of JSON values and their drift.

Each task counts its records in offset order; the parts are joined here, without a shuffle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.deploy.ship import by_value
from kcli.spark.pipelines.result import Result
from kcli.spark.pipelines.source import load
from kcli.text import format_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.pipelines.profile_tasks import Part
    from kcli.spark.pipelines.source import KafkaSource

COLUMNS = ["topic", "partition", "offset", "timestamp", "key_size", "value_size"]
TOPIC_COLUMNS = [
    *("topic", "records", "null_keys", "tombstones", "key_avg", "key_max"),
    *("value_avg", "value_p50", "value_p99", "value_max", "out_of_order", "most_back_ms"),
]
MORE_COLUMNS = [
    *("null_values", "empty_values", "key_bytes", "key_min", "key_p50", "key_p90", "key_p99"),
    *("value_bytes", "value_min", "value_p90", "timeless", "oldest", "newest"),
]
"""Fields of a topic's row that are not columns of the table; looked_at and json_types if values were parsed."""
FIELD_COLUMNS = ["topic", "field", "types", "share", "nulls", "drift", "first_seen", "last_seen"]
NUMBERS = {"integer", "number"}


class Profile(NamedTuple):
    """Profile of topics.

    `topics` and `fields` have a row each; `sizes` has the number of records by size, for each topic and "key" or
    "value"; `partial` are topics with more fields than are counted.
    """

    topics: Result
    fields: Result
    sizes: Mapping[tuple[str, str], Mapping[int, int]]
    partial: list[str]


def columns(*, fields: bool) -> list[str]:
    """Return the columns to read: values only if they are parsed."""
    return [*COLUMNS, "value"] if fields else COLUMNS


def check_sample(share: float) -> None:
    """Raise ConfigError for a share that is not valid."""
    if not 0 < share <= 1:
        raise ConfigError(f"--sample: {share:g} is not valid; use a share above 0 and at most 1")


def run(spark: SparkSession, source: KafkaSource, *, fields: bool = False, sample: float = 1.0) -> Profile:
    """Read the records once. `fields`: parse a `sample` of the values as JSON."""
    from kcli.spark.pipelines import profile_tasks

    check_sample(sample)
    frame = load(spark, source, "records", columns(fields=fields))
    with by_value(profile_tasks):
        rows = frame.mapInArrow(_task(sample if fields else None), "part string").collect()
    return join_profile((json.loads(row.part) for row in rows), source.topics)


def _task(sample: float | None) -> Any:
    from kcli.spark.pipelines.profile_tasks import profile_batches

    def profiled(batches: Iterator[Any]) -> Iterator[Any]:
        import json

        import pyarrow

        parts = [json.dumps(part) for part in profile_batches(batches, sample)]
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(parts, pyarrow.string())], names=["part"])

    return profiled


def join_profile(parts: Iterable[Part], topics: Iterable[str] = ()) -> Profile:
    """Join the parts of all tasks, by topic; `topics` without records are included. Pure."""
    from kcli.spark.pipelines.profile_tasks import join_parts, sum_parts

    by_topic: dict[str, list[Part]] = {topic: [] for topic in topics}
    for part in join_parts(parts):
        by_topic.setdefault(part["topic"], []).append(part)
    totals = [sum_parts(topic, parts) for topic, parts in sorted(by_topic.items())]
    fields = [row for part in totals for row in _field_rows(part)]
    sizes = {(total["topic"], of): _histogram(total[of]) for total in totals for of in ("key", "value")}
    partial = [part["topic"] for part in totals if part["more_fields"]]
    return Profile(
        Result(TOPIC_COLUMNS, [_row(total) for total in totals]), Result(FIELD_COLUMNS, fields), sizes, partial
    )


def _row(part: Part) -> dict[str, Any]:
    row = {name: part[name] for name in ("topic", "records", "null_keys", "null_values", "tombstones", "empty_values")}
    for of in ("key", "value"):
        counts, sizes = part[of], _histogram(part[of])
        row[f"{of}_bytes"] = counts["total"]
        row[f"{of}_min"], row[f"{of}_max"] = counts["min"], counts["max"]
        row[f"{of}_avg"] = counts["total"] / counts["count"] if counts["count"] else None
        for percent in (50, 90, 99):
            row[f"{of}_p{percent}"] = percentile(sizes, percent)
    row |= {name: part[name] for name in ("out_of_order", "most_back_ms", "timeless")}
    for name in ("oldest", "newest"):
        row[name] = None if part[f"{name}_ms"] is None else format_time(part[f"{name}_ms"])
    if part["looked_at"]:
        row |= {"looked_at": part["looked_at"], "json_types": part["types"]}
    return row


def _histogram(sizes: Part) -> dict[int, int]:
    return dict(sorted((int(size), count) for size, count in sizes["sizes"].items()))


def percentile(sizes: Mapping[int, int], percent: float) -> int | None:
    """Return the smallest size that at least `percent` of the records do not exceed. Pure."""
    remaining = math.ceil(sum(sizes.values()) * percent / 100)
    for size, count in sizes.items():
        remaining -= count
        if remaining <= 0:
            return size
    return None


def _field_rows(part: Part) -> list[dict[str, Any]]:
    objects = part["types"].get("object", 0)
    rows = []
    for path, field in sorted(part["fields"].items()):
        types = dict(sorted(field["types"].items(), key=lambda pair: (-pair[1], pair[0])))
        row = {"topic": part["topic"], "field": path, "types": types, "share": field["records"] / objects}
        row |= {"nulls": types.get("null", 0), "drift": drifts(types), "records": field["records"]}
        for name in ("first", "last"):
            row[f"{name}_seen"] = None if field[f"{name}_ms"] is None else format_time(field[f"{name}_ms"])
        places = sorted(field["first_places"].items(), key=lambda pair: (pair[1], pair[0]))
        row["first_of_types"] = {
            name: {"timestamp": format_time(ms), "partition": partition, "offset": offset}
            for name, (ms, partition, offset) in places
        }
        rows.append(row)
    return rows


def drift_note(row: Mapping[str, Any]) -> str | None:
    """Return a line that says when each incompatible type of a field first appeared; None without drift. Pure."""
    firsts: dict[str, Mapping[str, Any]] = {}
    for name, place in row["first_of_types"].items():
        if name != "null":
            firsts.setdefault("number" if name in NUMBERS else name, place)
    if len(firsts) < 2:
        return None
    first, *others = firsts
    appeared = ", ".join(
        f"{name} since {firsts[name]['timestamp']} ({firsts[name]['partition']}:{firsts[name]['offset']})"
        for name in others
    )
    return f"{row['topic']}: {row['field']} was {first}, {appeared}"


def drifts(types: Iterable[str]) -> bool:
    """Return whether the types of a field are incompatible: integers and numbers are compatible, null with all."""
    return len({"number" if name in NUMBERS else name for name in types if name != "null"}) > 1
