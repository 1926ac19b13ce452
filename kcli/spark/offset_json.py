"""Offsets in the connector's JSON, `{"orders":{"0":23,"1":-2}}`: parser and canonical form. Pure.

-2 is the log start and -1 the log end, as in `startingOffsets` of spark-sql-kafka-0-10. Spark compares the offsets of a
stream as text, so there is one order only: by topic, then by partition number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from kcli.text import parse_absolute_time

EARLIEST_OFFSET, LATEST_OFFSET = -2, -1

_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1
_OFFSETS = '{"orders":{"0":23,"1":-1},"payments":{"0":-2}}'
_TIMES = '{"orders":{"0":1700000000000,"1":1700000000000}}'
_PARTITIONS = '{"orders":[0,1],"payments":[0]}'


def offsets_dict(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as the dict that PySpark's `latestOffset` returns, in canonical order: by topic, then by
    number.
    """
    parsed: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        parsed.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return parsed


def read_offsets(text: str | Mapping[str, Any], option: str = "the offset") -> dict[TopicPartition, int]:
    """Parse offsets from JSON, or from the dict that PySpark made of it. ConfigError, naming `option`, if malformed."""
    return _numbers(text, option, _OFFSETS, _offset)


def read_times(text: str | Mapping[str, Any], option: str) -> dict[TopicPartition, int]:
    """Parse times by partition in the same format (numbers or text, see `kcli.text`) to ms since the epoch."""
    return _numbers(text, option, _TIMES, _time)


def read_partitions(text: str, option: str) -> frozenset[TopicPartition]:
    """Parse the partitions of `assign`: `{"orders":[0,1]}`."""
    parsed = _object(_parse(text, option, _PARTITIONS), option, _PARTITIONS)
    partitions = []
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list):
            raise _malformed(option, _PARTITIONS, f"topic {topic} has no list of partitions")
        partitions += [TopicPartition(topic, _partition(number, option, _PARTITIONS)) for number in numbers]
    return frozenset(partitions)


def _offset(value: Any, tp: TopicPartition) -> int:
    if not _is_integer(value) or not EARLIEST_OFFSET <= value <= _LARGEST_OFFSET:
        raise ConfigError(f"{_excerpt(value)} for {tp} is not valid")
    return int(value)


def _time(value: Any, tp: TopicPartition) -> int:
    if not isinstance(value, str) and not _is_integer(value):
        raise ConfigError(f"{_excerpt(value)} for {tp} is not valid")
    try:
        return parse_absolute_time(str(value))
    except ConfigError as error:
        raise ConfigError(f"{tp}: {error}") from None


def _numbers(
    text: str | Mapping[str, Any], option: str, example: str, read: Callable[[Any, TopicPartition], int]
) -> dict[TopicPartition, int]:
    parsed = _object(_parse(text, option, example) if isinstance(text, str) else text, option, example)
    numbers = {}
    for topic, partitions in parsed.items():
        for key, number in _object(partitions, option, example).items():
            tp = TopicPartition(topic, _partition(key, option, example))
            if tp in numbers:  # "0" and "00"
                raise _malformed(option, example, f"{tp} is given twice")
            try:
                numbers[tp] = read(number, tp)
            except ConfigError as error:
                raise _malformed(option, example, str(error)) from None
    return numbers


def _parse(text: str, option: str, example: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            twice = next(key for key in parsed if [pair[0] for pair in pairs].count(key) > 1)
            raise _malformed(option, example, f'"{twice}" is given twice')
        return parsed

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        at = f"{text[:60]!r} is not valid JSON: {error.msg} at column {error.colno}"
        raise _malformed(option, example, at) from None
    except (ValueError, RecursionError):
        raise _malformed(option, example, f"{text[:60]!r} is not valid JSON") from None


def _object(value: Any, option: str, example: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _malformed(option, example, f"{_excerpt(value)} is not an object")
    return value


def _partition(value: Any, option: str, example: str) -> int:
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,10}", value) else value
    if not _is_integer(number) or not 0 <= number <= _LARGEST_PARTITION:
        raise _malformed(option, example, f"{_excerpt(value)} is not a partition number")
    return int(number)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _excerpt(value: Any) -> str:
    return json.dumps(value)[:60]


def _malformed(option: str, example: str, reason: str) -> ConfigError:
    return ConfigError(f"{option} must have the form {example}, but {reason}")
