"""The view `commits`: committed offsets with their times, from __consumer_offsets.

The topic is compacted: of old commits only the last one of a group for a partition remains; of segments that the
cleaner has not reached, all. Commits within a transaction follow the isolation level: under read_committed they appear
when the transaction is committed. Other records of the topic (members, generations) are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kcli.errors import CorruptRecords, ProtocolError
from kcli.spark.record_schema import MOST_MS
from kcli.spark.views.table import TP_COLUMNS, View, table_of
from kcli.structs import OFFSETS_TOPIC

if TYPE_CHECKING:
    import pyarrow

    from kcli.protocol.offsets_topic import OffsetCommitKey
    from kcli.protocol.records.columns import RecordColumns
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange

_MOST_KEYS = 200_000


def read(options: SourceOptions, ranges: Sequence[TaskRange]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the commits in ranges of partitions of __consumer_offsets; of all groups, or those in the options.

    A tombstone (an offset that expired or was deleted) is a row whose `offset` is null.
    """
    from kcli.spark.task import read_columns

    keys = _Keys(options.groups)
    with closing(read_columns(options, ranges)) as chunks:
        for range_, columns in chunks:
            yield from table_of(COMMITS, options, _rows(range_, columns, keys))


COMMITS = View(
    "commits",
    (
        ("group", "string"),
        *TP_COLUMNS,
        ("offset", "bigint"),
        ("leader_epoch", "int"),
        ("metadata", "string"),
        ("commit_timestamp", "timestamp"),
        ("expire_timestamp", "timestamp"),
        ("is_tombstone", "boolean"),
        ("log_partition", "int"),
        ("log_offset", "bigint"),
        ("log_timestamp", "timestamp"),
    ),
    ranged=True,
    read=read,
    topics=(OFFSETS_TOPIC,),
)


class _Keys:
    """Decoded keys; the same keys repeat often. None for other records, and for groups not selected."""

    def __init__(self, groups: tuple[str, ...] | None) -> None:
        self._groups = None if groups is None else frozenset(groups)
        self._known: dict[bytes, OffsetCommitKey | None] = {}

    def read(self, data: bytes) -> OffsetCommitKey | None:
        if data not in self._known:
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            self._known[data] = self._read(data)
        return self._known[data]

    def _read(self, data: bytes) -> OffsetCommitKey | None:
        from kcli.protocol.offsets_topic import OffsetCommitKey, decode_key

        key = decode_key(data)
        if not isinstance(key, OffsetCommitKey) or (self._groups is not None and key.group not in self._groups):
            return None
        return key


def _rows(range_: TaskRange, columns: RecordColumns, keys: _Keys) -> Iterator[dict[str, Any]]:
    """Yield a row for each commit. CorruptRecords for a record that is not one of __consumer_offsets."""
    pairs = zip(columns.keys(), columns.values(), columns.offsets.tolist(), columns.timestamps_ms.tolist(), strict=True)
    for data, value, offset, timestamp_ms in pairs:
        try:
            key = None if data is None else keys.read(data)
            committed = {} if key is None or value is None else _value(value)
        except ProtocolError as problem:
            raise CorruptRecords(
                f"view commits reads {OFFSETS_TOPIC} or a copy of it, and no record of it is at offset {offset} of "
                f"{range_.topic}-{range_.partition}: {problem}"
            ) from None
        if key is not None:
            row = {"group": key.group, "topic": key.topic, "partition": key.partition, "is_tombstone": value is None}
            place = {"log_partition": range_.partition, "log_offset": offset, "log_timestamp": _time(timestamp_ms)}
            yield {**row, **place, **committed}


def _value(data: bytes) -> dict[str, Any]:
    from kcli.protocol.offsets_topic import decode_offset_value

    value = decode_offset_value(data)
    return {
        "offset": value.offset,
        "leader_epoch": None if value.leader_epoch < 0 else value.leader_epoch,
        "metadata": value.metadata,
        "commit_timestamp": _time(value.commit_timestamp),
        "expire_timestamp": _time(value.expire_timestamp),
    }


def _time(ms: int) -> int | None:
    """Return microseconds, as in Arrow; None for a missing time."""
    return None if ms < 0 else min(ms, MOST_MS) * 1000
