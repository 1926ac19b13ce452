"""Task functions of the profile: count the records of a task, and join the counts of a partition.

The module imports nothing of kcli, because it is pickled by value for workers that may not have it. A part is a dict of
JSON types. Pure.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

MOST_FIELDS = 1000
DEEPEST = 16
_PLAIN_NAME = re.compile(r"[\w-]+")
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}

Part = dict[str, Any]


def profile_batches(batches: Iterable[Any], sample: float | None) -> Iterator[Part]:
    """Yield a part for each partition in a task's record batches, whose records are in offset order.

    With `sample`, about this share of the values is parsed as JSON: those that `is_chosen` selects.
    """
    parts: dict[tuple[str, int], Part] = {}
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = {name: batch.column(place) for place, name in enumerate(batch.schema.names)}
        topics, numbers = columns["topic"].to_pylist(), _ints(columns["partition"])
        edges = [0, *(i for i in range(1, len(topics)) if (topics[i], numbers[i]) != (topics[i - 1], numbers[i - 1]))]
        for start, end in zip(edges, [*edges[1:], len(topics)], strict=True):
            place = (topics[start], int(numbers[start]))
            rows = {name: column.slice(start, end - start) for name, column in columns.items()}
            part = parts.setdefault(place, new_part(*place, int(_ints(rows["offset"])[0])))
            _add(part, rows, sample)
    yield from parts.values()


def new_part(topic: str, partition: int, first_offset: int) -> Part:
    """Return a part without records."""
    sizes: Part = {side: {"count": 0, "total": 0, "min": None, "max": None, "sizes": {}} for side in ("key", "value")}
    return {
        "topic": topic,
        "partition": partition,
        "first_offset": first_offset,
        "records": 0,
        "null_keys": 0,
        "null_values": 0,
        "tombstones": 0,
        "empty_values": 0,
        "timeless": 0,
        **sizes,
        "first_ms": None,
        "last_ms": None,
        "oldest_ms": None,
        "newest_ms": None,
        "out_of_order": 0,
        "most_back_ms": 0,
        "looked_at": 0,
        "types": {},
        "fields": {},
        "more_fields": False,
    }


def _add(part: Part, columns: Mapping[str, Any], sample: float | None) -> None:
    keys, values = _ints(columns["key_size"]), _ints(columns["value_size"])
    part["records"] += len(keys)
    part["null_keys"] += int((keys < 0).sum())
    part["null_values"] += int((values < 0).sum())
    part["tombstones"] += int(((values < 0) & (keys >= 0)).sum())
    part["empty_values"] += int((values == 0).sum())
    _add_sizes(part["key"], keys[keys >= 0])
    _add_sizes(part["value"], values[values >= 0])
    times = _ints(columns["timestamp"].cast("int64")) // 1000
    part["timeless"] += int((times < 0).sum())
    _add_times(part, times[times >= 0])
    if sample is not None:
        offsets = _ints(columns["offset"])
        chosen = is_chosen(part["topic"], part["partition"], offsets, sample)
        for row in np.nonzero(chosen & (values >= 0))[0].tolist():
            place = [int(times[row]), part["partition"], int(offsets[row])]
            _parse_value(part, columns["value"][row].as_py(), place)


def is_chosen(topic: str, partition: int, offsets: Any, sample: float) -> Any:
    """Return which offsets belong to a sample of this share. The choice is deterministic and independent of patterns.

    SplitMix64, from Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    """
    seed = zlib.crc32(f"{topic}:{partition}".encode())
    with np.errstate(over="ignore"):
        mixed = (offsets.astype(np.uint64) + np.uint64(seed << 31)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) / 2**53 < sample


def _ints(column: Any) -> Any:
    """Return numpy's int64; null is -1."""
    return column.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)


def _add_sizes(sizes: Part, lengths: Any) -> None:
    if not len(lengths):
        return
    low, high = int(lengths.min()), int(lengths.max())
    sizes["min"] = low if sizes["min"] is None else min(low, sizes["min"])
    sizes["max"] = high if sizes["max"] is None else max(high, sizes["max"])
    sizes["count"] += len(lengths)
    sizes["total"] += int(lengths.sum())
    # Sizes below 256 are exact; of larger ones the highest eight bits are kept, so they are less than 1 % too small.
    lost_bits = np.maximum(np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64) - 7, 0)
    for size, count in zip(*np.unique((lengths >> lost_bits) << lost_bits, return_counts=True), strict=True):
        sizes["sizes"][str(size)] = sizes["sizes"].get(str(size), 0) + int(count)


def _add_times(part: Part, times: Any) -> None:
    if len(times):
        before = np.concatenate((times[:1], times[:-1]))
        newest = np.maximum.accumulate(times)
        _join_times(
            part,
            {
                "first_ms": int(times[0]),
                "last_ms": int(times[-1]),
                "oldest_ms": int(times.min()),
                "newest_ms": int(newest[-1]),
                "out_of_order": int((times < before).sum()),
                "most_back_ms": int((newest - times).max()),
            },
        )


def _join_times(part: Part, later: Part) -> None:
    """Join the times of later records into `part`. Exact, because first, last and extremes are enough."""
    if later["first_ms"] is None:
        return
    part["out_of_order"] += later["out_of_order"]
    part["most_back_ms"] = max(part["most_back_ms"], later["most_back_ms"])
    if part["first_ms"] is None:
        part |= {name: later[name] for name in ("first_ms", "last_ms", "oldest_ms", "newest_ms")}
        return
    part["out_of_order"] += int(later["first_ms"] < part["last_ms"])
    part["most_back_ms"] = max(part["most_back_ms"], part["newest_ms"] - later["oldest_ms"])
    part["last_ms"] = later["last_ms"]
    part["oldest_ms"] = min(part["oldest_ms"], later["oldest_ms"])
    part["newest_ms"] = max(part["newest_ms"], later["newest_ms"])


def _parse_value(part: Part, value: bytes, place: list[int]) -> None:
    """Count the types of a value; its place is [timestamp in ms, partition, offset]."""
    part["looked_at"] += 1
    try:
        document = json.loads(value.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        part["types"]["not JSON"] = part["types"].get("not JSON", 0) + 1
        return
    kind = type_of(document)
    part["types"][kind] = part["types"].get(kind, 0) + 1
    if kind == "object":
        types_by_path: dict[str, set[str]] = {}
        _collect_types(document, "", types_by_path, DEEPEST)
        for path, types in types_by_path.items():
            _add_field(part, path, types, place)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def type_of(value: Any) -> str:
    """Return the JSON type of a decoded value; whole numbers are `integer`."""
    return "null" if value is None else _TYPES[type(value)]


def _collect_types(value: Any, path: str, types_by_path: dict[str, set[str]], deeper: int) -> None:
    """Collect the types at all paths below: `a.b` is a nested field, `a[]` an array element."""
    if isinstance(value, dict):
        inner = [(_step(path, name), part) for name, part in value.items()]
    else:
        inner = [(f"{path}[]", part) for part in value]
    for name, part in inner:
        types_by_path.setdefault(name, set()).add(type_of(part))
        if isinstance(part, dict | list) and deeper:
            _collect_types(part, name, types_by_path, deeper - 1)


def _step(path: str, name: str) -> str:
    if not _PLAIN_NAME.fullmatch(name):
        # A lone surrogate, which JSON can escape, cannot be encoded as UTF-8.
        name = json.dumps(name, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return f"{path}.{name}" if path else name


def _add_field(part: Part, path: str, types: set[str], place: list[int]) -> None:
    fields = part["fields"]
    if path not in fields and len(fields) >= MOST_FIELDS:
        part["more_fields"] = True
        return
    field = fields.setdefault(path, _new_field())
    field["records"] += 1
    for name in types:
        field["types"][name] = field["types"].get(name, 0) + 1
    at_ms = place[0]
    if at_ms >= 0:
        _join_first_places(field["first_places"], dict.fromkeys(types, place))
        field["first_ms"] = at_ms if field["first_ms"] is None else min(at_ms, field["first_ms"])
        field["last_ms"] = at_ms if field["last_ms"] is None else max(at_ms, field["last_ms"])


def _new_field() -> Part:
    return {"records": 0, "types": {}, "first_places": {}, "first_ms": None, "last_ms": None}


def _join_first_places(total: dict[str, list[int]], more: Mapping[str, list[int]]) -> None:
    """Keep the earliest place of each type; lists compare by time, then partition, then offset."""
    for name, place in more.items():
        if name not in total or place < total[name]:
            total[name] = place


def join_parts(parts: Iterable[Part]) -> list[Part]:
    """Join the parts of each partition, for any split into tasks."""
    joined: dict[tuple[str, int], Part] = {}
    for part in sorted(parts, key=lambda part: (part["topic"], part["partition"], part["first_offset"])):
        total = joined.setdefault(
            (part["topic"], part["partition"]), new_part(part["topic"], part["partition"], part["first_offset"])
        )
        _join_counts(total, part)
        _join_times(total, part)
    return list(joined.values())


def sum_parts(topic: str, parts: Iterable[Part]) -> Part:
    """Sum the partitions of a topic; there is no order between partitions."""
    total = new_part(topic, -1, 0)
    for part in parts:
        _join_counts(total, part)
        total["out_of_order"] += part["out_of_order"]
        total["most_back_ms"] = max(total["most_back_ms"], part["most_back_ms"])
        for name, choose in (("oldest_ms", min), ("newest_ms", max)):
            known = [ms for ms in (total[name], part[name]) if ms is not None]
            total[name] = choose(known) if known else None
    return total


def _join_counts(total: Part, part: Part) -> None:
    for name in ("records", "null_keys", "null_values", "tombstones", "empty_values", "timeless", "looked_at"):
        total[name] += part[name]
    for name in ("key", "value"):
        _join_sizes(total[name], part[name])
    _add_counts(total["types"], part["types"])
    total["more_fields"] |= part["more_fields"]
    for path, field in part["fields"].items():
        joined = total["fields"].setdefault(path, _new_field())
        joined["records"] += field["records"]
        _add_counts(joined["types"], field["types"])
        _join_first_places(joined["first_places"], field["first_places"])
        for name, choose in (("first_ms", min), ("last_ms", max)):
            known = [ms for ms in (joined[name], field[name]) if ms is not None]
            joined[name] = choose(known) if known else None


def _join_sizes(total: Part, part: Part) -> None:
    for name, choose in (("min", min), ("max", max)):
        known = [size for size in (total[name], part[name]) if size is not None]
        total[name] = choose(known) if known else None
    total["count"] += part["count"]
    total["total"] += part["total"]
    _add_counts(total["sizes"], part["sizes"])


def _add_counts(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
