"""Offsets as the connector's JSON, `{"orders":{"0":23,"1":-2}}`: one canonical text, readable both ways. Pure.

-2 is the log's start and -1 its end, as in `startingOffsets` of spark-sql-kafka-0-10. Spark compares offsets of a
stream as text, so there is one order only: by topic, then by number (not as text: 2 before 10).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kcli.structs import TopicPartition

EARLIEST, LATEST = -2, -1


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """The canonical text of these offsets: no blanks, by topic, then by partition number."""
    return json.dumps(offsets_dict(offsets), separators=(",", ":"), ensure_ascii=False)


def offsets_dict(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The same as the dict that PySpark's `latestOffset` returns, in canonical order."""
    told: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        told.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return told


def read_offsets(text: str | Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Offsets from the JSON, or from the dict that PySpark made of it; ConfigError for any other shape."""
    told = json.loads(text) if isinstance(text, str) else text
    found = {}
    for topic, partitions in told.items():
        for number, offset in partitions.items():
            found[TopicPartition(topic, int(number))] = offset
    return found
