"""Which batches of a read_committed fetch belong to aborted transactions (KIP-98, as Kafka's own consumer decides)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.varints import read_varint

ABORT_MARKER, COMMIT_MARKER = 0, 1


class AbortedRanges:
    """Walks with the batches of one partition in order and says of each whether its transaction was aborted.

    A transaction of a producer is aborted from its first offset in the fetch response's list to that producer's next
    abort marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._ahead)
        self._aborting: set[int] = set()

    def drops(self, producer_id: int, last_offset: int, transactional: bool) -> bool:
        """Whether a data batch with this producer and last offset is to be dropped."""
        self._advance(last_offset)
        return transactional and producer_id in self._aborting

    def pass_marker(self, producer_id: int, last_offset: int, marker: int) -> None:
        """Go past a control batch of that producer."""
        self._advance(last_offset)
        if marker == ABORT_MARKER:
            self._aborting.discard(producer_id)

    def remaining(self) -> list[tuple[int, int]]:
        """What is still to come, as (producer id, first offset): enough to go on later."""
        return [(producer_id, 0) for producer_id in self._aborting] + [(it[1], it[0]) for it in self._ahead]

    def _advance(self, last_offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= last_offset:
            self._aborting.add(heapq.heappop(self._ahead)[1])


def marker_type(buffer: Buffer, start: int, end: int) -> int:
    """Type of the first control record in the uncompressed payload `buffer[start:end]`: its key is version, type."""
    _, at = read_varint(buffer, start, end)
    _, at = read_varint(buffer, at + 1, end, 10)
    _, at = read_varint(buffer, at, end)
    key_length, at = read_varint(buffer, at, end)
    if not 4 <= key_length <= end - at:
        raise CorruptRecords("the control record has no type")
    return int.from_bytes(bytes(buffer[at + 2 : at + 4]), "big", signed=True)
