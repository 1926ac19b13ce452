"""Offsets as the connector's JSON, `{"orders":{"0":23,"1":-2}}`: one canonical text, readable both ways. Pure.

-2 is the log's start and -1 its end, as in `startingOffsets` of spark-sql-kafka-0-10. Spark compares the offsets of a
stream as text, so there is one order only: by topic, then by number (as numbers: 2 before 10).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kcli.errors import ConfigError
from kcli.structs import TopicPartition

EARLIEST_OFFSET, LATEST_OFFSET = -2, -1

_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1
_OFFSETS = '{"orders":{"0":23,"1":-1},"payments":{"0":-2}}'
_TIMES = '{"orders":{"0":1700000000000,"1":1700000000000}}'
_PARTITIONS = '{"orders":[0,1],"payments":[0]}'


def offsets_dict(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """What PySpark's `latestOffset` returns and writes as JSON, in canonical order: by topic, then by number."""
    told: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        told.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return told


def read_offsets(text: str | Mapping[str, Any], what: str = "the offset") -> dict[TopicPartition, int]:
    """Offsets from the JSON, or from the dict that PySpark made of it. ConfigError for another shape; it names `what`
    was to be read."""
    return _numbers(text, what, _OFFSETS, lowest=EARLIEST_OFFSET)


def read_times(text: str | Mapping[str, Any], what: str) -> dict[TopicPartition, int]:
    """Times by partition, ms since the epoch, in the same shape."""
    return _numbers(text, what, _TIMES, lowest=0)


def read_partitions(text: str, what: str) -> frozenset[TopicPartition]:
    """The partitions of `assign`: `{"orders":[0,1]}`."""
    told = _object(_parse(text, what, _PARTITIONS), what, _PARTITIONS)
    found = []
    for topic, numbers in told.items():
        if not isinstance(numbers, list):
            raise _bad(what, _PARTITIONS, f"topic {topic} has no list of partitions")
        found += [TopicPartition(topic, _partition(number, what, _PARTITIONS)) for number in numbers]
    return frozenset(found)


def _numbers(text: str | Mapping[str, Any], what: str, example: str, lowest: int) -> dict[TopicPartition, int]:
    told = _object(_parse(text, what, example) if isinstance(text, str) else text, what, example)
    found = {}
    for topic, partitions in told.items():
        for key, number in _object(partitions, what, example).items():
            tp = TopicPartition(topic, _partition(key, what, example))
            if not _is_whole(number) or not lowest <= number <= _LARGEST_OFFSET:
                raise _bad(what, example, f"{_shown(number)} for {tp} is not possible")
            if tp in found:  # "0" and "00"
                raise _bad(what, example, f"{tp} is there twice")
            found[tp] = number
    return found


def _parse(text: str, what: str, example: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        told = dict(pairs)
        if len(told) < len(pairs):
            twice = next(key for key in told if [pair[0] for pair in pairs].count(key) > 1)
            raise _bad(what, example, f'"{twice}" is there twice')
        return told

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise _bad(what, example, f"{text[:60]!r} is no JSON") from None


def _object(value: Any, what: str, example: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _bad(what, example, f"{_shown(value)} is no object")
    return value


def _partition(value: Any, what: str, example: str) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value) else value
    if not _is_whole(number) or not 0 <= number <= _LARGEST_PARTITION:
        raise _bad(what, example, f"{_shown(value)} is no partition number")
    return int(number)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return json.dumps(value)[:60]


def _bad(what: str, example: str, why: str) -> ConfigError:
    return ConfigError(f"{what} must look like {example}, but {why}")
