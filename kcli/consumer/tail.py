"""The last N records of many partitions in order of time: the offset at which each partition has to be read.

The records are those at the end of a merge (see `merge_buffer`) of the last N records of each partition. Where the
timestamps of each partition ascend, these are the last N records of all.

A first pass reads only times and offsets, of the last N offsets of each partition. Offsets without a record
(transaction markers, gaps of compaction, aborted records) may leave fewer than N records; then more offsets are read,
unless the other partitions have N later records. The second pass is a `MergedReader` from the offsets found. So memory
holds the times of N records, but no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.consumer.range_reader import RangeReader
from kcli.consumer.read_range import ReadRange
from kcli.log_place import LOG_END, Place

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.fetch_buffer import Decode
    from kcli.protocol.records.varints import Ints
    from kcli.structs import TopicPartition

_POLL_MS = 1_000.0
_GROWTH = 4
_KEPT_AT_LEAST = 1 << 16
_BEFORE_ALL = -(1 << 63)


class LastRecords:
    """The last `count` records in order of time among those added, by offset. Pure."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._offsets: dict[TopicPartition, list[Ints]] = {}
        self._keys: dict[TopicPartition, list[Ints]] = {}
        self._latest: dict[TopicPartition, int] = {}
        self._added: dict[TopicPartition, int] = {}
        self._kept = 0

    def add(self, tp: TopicPartition, offsets: Ints, timestamps_ms: Ints) -> None:
        """Add the next records of a partition."""
        import numpy as np

        if not len(offsets):
            return
        keys = np.maximum(np.maximum.accumulate(timestamps_ms), self._latest.get(tp, _BEFORE_ALL))
        self._latest[tp] = int(keys[-1])
        self._keys.setdefault(tp, []).append(keys)
        self._offsets.setdefault(tp, []).append(offsets)
        self._added[tp] = self._added.get(tp, 0) + len(offsets)
        self._kept += len(offsets)
        if self._kept > 2 * self._count + _KEPT_AT_LEAST:
            self._drop()

    def forget(self, tp: TopicPartition) -> None:
        """Forget the records of a partition."""
        self._kept -= sum(map(len, self._offsets.pop(tp, [])))
        for of_partition in (self._keys, self._latest, self._added):
            of_partition.pop(tp, None)

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that has some of the last records."""
        self._drop()
        return {tp: int(offsets[0][0]) for tp, offsets in self._offsets.items()}

    def incomplete(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions of which all added records are among the last, and earlier ones could be too."""
        self._drop()
        kept = {tp: sum(map(len, self._offsets.get(tp, []))) for tp in partitions}
        return {tp for tp, count in kept.items() if count == self._added.get(tp, 0) and count < self._count}

    def _drop(self) -> None:
        """Keep only the last records. A later record never brings back one that was dropped."""
        import numpy as np

        partitions = sorted(self._keys)
        if not partitions:
            return
        keys = [np.concatenate(self._keys[tp]) for tp in partitions]
        offsets = [np.concatenate(self._offsets[tp]) for tp in partitions]
        sizes = [len(part) for part in keys]
        order = np.concatenate(keys).argsort(kind="stable")[-self._count :]
        counts = np.bincount(np.repeat(np.arange(len(sizes)), sizes)[order], minlength=len(sizes)).tolist()
        self._keys = {tp: [part[-count:]] for tp, part, count in zip(partitions, keys, counts, strict=True) if count}
        self._offsets = {
            tp: [part[-count:]] for tp, part, count in zip(partitions, offsets, counts, strict=True) if count
        }
        self._kept = sum(counts)


def find_tail(
    client: ConsumerNetworkClient,
    ranges: Mapping[TopicPartition, ReadRange],
    config: ConsumerConfig,
    count: int,
    deadline_ms: float,
    *,
    decode: Decode | None = None,
) -> dict[TopicPartition, ReadRange]:
    """Return the ranges of the last `count` records within these ranges. A range without an end stays without one.

    `deadline_ms` is for resolving the ranges. A range that cannot be resolved is returned as it is. The records of a
    partition that cannot be read to its end are missing.
    """
    asked = {tp: wanted._replace(end=wanted.end or LOG_END) for tp, wanted in ranges.items()}
    probe = RangeReader(client, asked, config, decode=decode)
    resolved = probe.resolve(deadline_ms).values
    probe.close()
    ends = {tp: max(span.start, span.end or 0) for tp, span in resolved.items()}
    starts = {tp: max(span.start, ends[tp] - count) for tp, span in resolved.items()}
    last = LastRecords(count)
    unread = set(resolved)
    while unread:
        tails = {tp: ReadRange(Place.offset(starts[tp]), Place.offset(ends[tp])) for tp in unread}
        _read(client, tails, config, last, decode)
        unread = last.incomplete(tp for tp, span in resolved.items() if starts[tp] > span.start)
        for tp in unread:
            last.forget(tp)
            starts[tp] = max(resolved[tp].start, ends[tp] - _GROWTH * (ends[tp] - starts[tp]))
    first = last.first_offsets()
    found: dict[TopicPartition, ReadRange] = {}
    for tp, wanted in ranges.items():
        if tp not in resolved:
            found[tp] = wanted
        else:
            end = Place.offset(ends[tp])
            found[tp] = ReadRange(Place.offset(first.get(tp, ends[tp])), None if wanted.end is None else end)
    return found


def _read(
    client: ConsumerNetworkClient,
    ranges: Mapping[TopicPartition, ReadRange],
    config: ConsumerConfig,
    last: LastRecords,
    decode: Decode | None,
) -> None:
    reader = RangeReader(client, ranges, config, decode=decode)
    try:
        reader.resolve(client.clock.now_ms() + config.default_api_timeout_ms)
        while not reader.done:
            for tp, columns in reader.poll(_POLL_MS):
                last.add(tp, columns.offsets, columns.timestamps_ms)
    finally:
        reader.close()
