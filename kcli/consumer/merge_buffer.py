"""`MergeBuffer`: records of many partitions, received in the order of offsets, returned in order of time. Pure.

The order is that of a merge of all partitions: next is always the partition whose first remaining record has the
earliest timestamp; of two with the same time, the one that sorts first by topic and number. Within a partition the
order of offsets is kept, also where its timestamps are not ascending. So the key of a record is the latest timestamp of
its partition up to it, then the partition, then the offset: keys ascend within a partition, and a merge is a stable
sort by key, in columns.

A record is ready when no partition can still send one with a lower key. `Bound` is such a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.protocol.records.varints import Ints

RECORDS_PER_BLOCK = 1 << 15
#: Size in memory of the columns of one record, with its key.
COLUMN_BYTES = 96
_BEFORE_ALL = -(1 << 63)
_SPANS = (("key_starts", "key_lengths"), ("value_starts", "value_lengths"))


class Bound(NamedTuple):
    """The key of a record without its offset. Records up to this key are meant, those with the same key included."""

    key: int
    tp: TopicPartition


class _Chunk(NamedTuple):
    """Received records with their keys, their size in memory, and the time of their arrival."""

    columns: RecordColumns
    keys: Ints
    size: int
    since_ms: float

    def cut(self, start: int, end: int) -> _Chunk:
        """Return some of the records; their size is estimated."""
        part, keys = self.columns.take(slice(start, end)), self.keys[start:end]
        return _Chunk(part, keys, self.size * len(keys) // len(self.keys), self.since_ms)


class _Stream:
    """The records of one partition that are not returned yet. `latest` is the latest timestamp received."""

    __slots__ = ("chunks", "latest", "size")

    def __init__(self) -> None:
        self.chunks: deque[_Chunk] = deque()
        self.latest = _BEFORE_ALL
        self.size = 0

    def add(self, columns: RecordColumns, now_ms: float) -> None:
        import numpy as np

        keys = np.maximum(np.maximum.accumulate(columns.timestamps_ms), self.latest)
        self.latest = int(keys[-1])
        low, high = _region(columns)
        chunk = _Chunk(columns, keys, high - low + COLUMN_BYTES * len(keys), now_ms)
        self.chunks.append(chunk)
        self.size += chunk.size

    def ready(self, limit: int, *, inclusive: bool) -> Iterator[_Chunk]:
        """Yield the records with keys below the limit, or at it if `inclusive`; they stay in the stream."""
        for chunk in self.chunks:
            count = int(chunk.keys.searchsorted(limit, side="right" if inclusive else "left"))
            if count:
                yield chunk.cut(0, count)
            if count < len(chunk.keys):
                return

    def drop(self, count: int) -> None:
        """Remove the first `count` records."""
        while count:
            chunk = self.chunks.popleft()
            self.size -= chunk.size
            if count < len(chunk.keys):
                self.chunks.appendleft(rest := chunk.cut(count, len(chunk.keys)))
                self.size += rest.size
                return
            count -= len(chunk.keys)


class MergeBuffer:
    """`add` received records; `take` returns those up to a bound in order of time.

    `bound_of` returns the bound that open partitions allow. `expired_bound` returns that of the records which have
    waited long enough. After a bound that some partition did not allow, later records of it may be out of order.
    """

    def __init__(self) -> None:
        self._streams: dict[TopicPartition, _Stream] = {}
        self._taken: Bound | None = None

    def __len__(self) -> int:
        return sum(len(chunk.keys) for stream in self._streams.values() for chunk in stream.chunks)

    def __repr__(self) -> str:
        return f"<MergeBuffer {len(self)} records of {len(self._streams)} partitions>"

    def add(self, tp: TopicPartition, columns: RecordColumns, now_ms: float) -> None:
        """Add the next records of a partition."""
        if len(columns):
            self._streams.setdefault(tp, _Stream()).add(_unpinned(columns), now_ms)

    def size(self, tp: TopicPartition) -> int:
        """Return the memory that the records of a partition take, in bytes."""
        stream = self._streams.get(tp)
        return 0 if stream is None else stream.size

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that have records in the buffer."""
        return {tp for tp, stream in self._streams.items() if stream.chunks}

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that has records in the buffer."""
        return {tp: int(stream.chunks[0].columns.offsets[0]) for tp, stream in self._streams.items() if stream.chunks}

    # --- bounds

    def bound_of(self, partitions: Iterable[TopicPartition]) -> Bound | None:
        """Return the bound up to which these partitions have sent all their records; None: no bound."""
        return min((Bound(self._latest(tp), tp) for tp in partitions), default=None)

    def _latest(self, tp: TopicPartition) -> int:
        stream = self._streams.get(tp)
        return _BEFORE_ALL if stream is None else stream.latest

    def expired_bound(self, before_ms: float) -> Bound | None:
        """Return the bound of the records that arrived at or before `before_ms`; None: there are none.

        Records whose time has passed already, because later ones were taken, count as expired.
        """
        bounds = [
            Bound(int(chunk.keys[-1]), tp)
            for tp, stream in self._streams.items()
            for chunk in stream.chunks
            if chunk.since_ms <= before_ms
        ]
        if self._taken is not None:
            bounds.append(self._taken)
        return max(bounds, default=None)

    def first_arrival_ms(self) -> float:
        """Return the time at which the oldest records arrived; infinity without records."""
        return min(
            (stream.chunks[0].since_ms for stream in self._streams.values() if stream.chunks), default=float("inf")
        )

    # --- delivery

    def take(
        self, bound: Bound | None, max_records: int = RECORDS_PER_BLOCK
    ) -> list[tuple[TopicPartition, RecordColumns]]:
        """Remove and return the records up to the bound (None: all), at most `max_records`, merged.

        There is one element per run of records of one topic. Its columns have `partitions`, and its partition is that
        of its first record.
        """
        import numpy as np

        owners: list[TopicPartition] = []
        parts: list[_Chunk] = []
        for tp in sorted(self._streams):
            for chunk in self._ready(tp, bound):
                owners.append(tp)
                parts.append(chunk)
        if not parts:
            return []
        keys = np.concatenate([part.keys for part in parts])
        counts = np.array([len(part.keys) for part in parts])
        order = keys.argsort(kind="stable")
        if len(order) > max_records:
            order, parts, owners, counts = _first(order[:max_records], parts, owners, counts)
        for tp, count in zip(owners, counts.tolist(), strict=True):
            self._streams[tp].drop(count)
        last = int(np.searchsorted(np.cumsum(counts), order[-1], side="right"))
        taken = Bound(int(parts[last].keys[-1]), owners[last])
        self._taken = taken if self._taken is None else max(taken, self._taken)
        return _merged(owners, [part.columns for part in parts], counts, order)

    def _ready(self, tp: TopicPartition, bound: Bound | None) -> Iterator[_Chunk]:
        if bound is None:
            return iter(self._streams[tp].chunks)
        return self._streams[tp].ready(bound.key, inclusive=tp <= bound.tp)


def _first(
    chosen: NDArray[Any], parts: list[_Chunk], owners: list[TopicPartition], counts: NDArray[Any]
) -> tuple[NDArray[Any], list[_Chunk], list[TopicPartition], NDArray[Any]]:
    """Keep the chosen rows of all parts: a beginning of each part, because it is in order. Return their new order."""
    import numpy as np

    starts = np.cumsum(counts) - counts
    part_of_row = np.repeat(np.arange(len(parts)), counts)[chosen]
    kept = np.bincount(part_of_row, minlength=len(parts))
    new_starts = np.cumsum(kept) - kept
    order = chosen - starts[part_of_row] + new_starts[part_of_row]
    left = [index for index in range(len(parts)) if kept[index]]
    cut = [parts[index].cut(0, int(kept[index])) for index in left]
    return order, cut, [owners[index] for index in left], kept[left]


def _merged(
    owners: list[TopicPartition], parts: list[RecordColumns], counts: NDArray[Any], order: NDArray[Any]
) -> list[tuple[TopicPartition, RecordColumns]]:
    """Copy the parts into one buffer and return their rows in this order, divided into runs of one topic."""
    import numpy as np

    from kcli.protocol.records.columns import RecordColumns

    columns = RecordColumns.join(_in_one_buffer(parts))
    columns.partitions = np.repeat(np.array([tp.partition for tp in owners]), counts)
    columns = columns.take(order)
    assert columns.partitions is not None
    topics = sorted({tp.topic for tp in owners})
    if len(topics) == 1:
        return [(TopicPartition(topics[0], int(columns.partitions[0])), columns)]
    numbers = np.repeat(np.array([topics.index(tp.topic) for tp in owners]), counts)[order]
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    return [
        (TopicPartition(topics[numbers[start]], int(columns.partitions[start])), columns.take(slice(start, end)))
        for start, end in pairwise(edges)
    ]


def _in_one_buffer(parts: list[RecordColumns]) -> list[RecordColumns]:
    """Return the same records over one new buffer."""
    regions = [_region(part) for part in parts]
    buffer = b"".join([memoryview(part.buffer)[low:high] for part, (low, high) in zip(parts, regions, strict=True)])
    moved, at = [], 0
    for part, (low, high) in zip(parts, regions, strict=True):
        moved.append(_moved(part, buffer, at - low))
        at += high - low
    return moved


def _unpinned(columns: RecordColumns) -> RecordColumns:
    """Return the same records, over a buffer of their own if theirs holds much else: it would stay in memory."""
    low, high = _region(columns)
    if 2 * (high - low) >= len(columns.buffer):
        return columns
    return _moved(columns, bytes(memoryview(columns.buffer)[low:high]), -low)


def _moved(columns: RecordColumns, buffer: bytes, by: int) -> RecordColumns:
    from kcli.protocol.records.columns import RecordColumns

    return RecordColumns(
        buffer,
        offsets=columns.offsets,
        timestamps_ms=columns.timestamps_ms,
        key_starts=columns.key_starts + by,
        key_lengths=columns.key_lengths,
        value_starts=columns.value_starts + by,
        value_lengths=columns.value_lengths,
        header_starts=columns.header_starts + by,
        header_counts=columns.header_counts,
        header_ends=columns.header_ends + by,
        timestamp_types=columns.timestamp_types,
    )


def _region(columns: RecordColumns) -> tuple[int, int]:
    """Return the part of the buffer that has the keys, values and headers, as (start, end)."""
    lows, highs = [], []
    for starts_name, lengths_name in _SPANS:
        starts, lengths = getattr(columns, starts_name), getattr(columns, lengths_name)
        filled = lengths > 0
        if filled.any():
            lows.append(int(starts.min(where=filled, initial=_LAST)))
            highs.append(int((starts + lengths).max(where=filled, initial=0)))
    filled = columns.header_counts > 0
    if filled.any():
        lows.append(int(columns.header_starts.min(where=filled, initial=_LAST)))
        highs.append(int(columns.header_ends.max(where=filled, initial=0)))
    return (min(lows), max(highs)) if lows else (0, 0)


_LAST = (1 << 63) - 1
