"""The aborted transactions of a log: search over the indexes of its segments, and the rebuilding of an index.

An aborted transaction belongs to the segment with its abort marker. A segment without aborted transactions needs no
file in Kafka, so a missing file may be a lost one. It is read as empty where the producer snapshot after the segment
names no producer with transactions. Elsewhere the segment is searched for markers once, and the result is saved, even
if it is empty.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import attrgetter

from kcli.broker.log.file_records import LogDamage, next_valid_batch
from kcli.broker.log.producer_state import CompletedTransaction, ProducerStateManager
from kcli.broker.log.segment import LogSegment, Report
from kcli.broker.log.segment_index import AbortedTransaction, InvalidIndex
from kcli.broker.log.segments import segment_number
from kcli.protocol.records.batch import HEADER_BYTES, BatchInfo, read_batch_info


class TransactionIndex:
    """The aborted transactions of all segments of a log; each segment's are loaded at their first use."""

    def __init__(self, producers: ProducerStateManager, report: Report, *, has_files: bool) -> None:
        """`has_files`: the directory contains a transaction index."""
        self._producers = producers
        self._report = report
        self._has_files = has_files
        self._rebuilt: ProducerStateManager | None = None  # the producers at the end of the last rebuilt segment

    def __repr__(self) -> str:
        return f"<TransactionIndex {self._producers.tp}{'' if self.is_needed else ' without transactions'}>"

    @property
    def is_needed(self) -> bool:
        """False if no producer of the log has used transactions, as far as its files tell."""
        return self._has_files or self._producers.has_transactions

    def add(self, segments: Sequence[LogSegment], completed: CompletedTransaction) -> None:
        """Add a transaction whose marker was appended to the newest segment, if it is an aborted one."""
        if completed.is_aborted:
            entries = self._of(segments, len(segments) - 1)
            if not entries or entries[-1].last_offset < completed.last_offset:  # not rebuilt with this marker just now
                entries.append(_entry(completed, self._producers))

    def rebuild_recovered(self, segments: Sequence[LogSegment]) -> None:
        """Rebuild the indexes that a recovery removed. Another broker would take a missing one as empty."""
        for number, segment in enumerate(segments):
            if segment.was_recovered and self.is_needed:
                self._rebuild(segments, number)

    def save(self, segment: LogSegment) -> None:
        """Write the index of a complete segment, even an empty one, so that no restart has to search for markers."""
        if self.is_needed:
            segment.save_aborted()

    def truncate(self, segments: Sequence[LogSegment], number: int, offset: int) -> None:
        """Forget the transactions that end at or after `offset`, which is in a segment. Its index file is removed.

        The caller removes the later segments.
        """
        self.forget_rebuilt()
        if self.is_needed:
            segments[number].aborted = [
                transaction for transaction in self._of(segments, number) if transaction.last_offset < offset
            ]
            segments[number].remove_aborted()

    def forget_rebuilt(self) -> None:
        """Forget what was read to rebuild an index, before records are removed from the end of the log."""
        self._rebuilt = None

    def between(self, segments: Sequence[LogSegment], offset: int, upto: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records below `upto` and a marker at or after `offset`.

        As in Kafka, the search ends at the first entry whose last stable offset is at least `upto`, because all later
        transactions start after that.
        """
        found: list[AbortedTransaction] = []
        first = segment_number(segments, offset)
        for number in range(first, len(segments)):
            if number > first and self._stable_at_start(segments[number]) >= upto:
                break
            entries = self._of(segments, number)
            for at in range(bisect_left(entries, offset, key=attrgetter("last_offset")), len(entries)):
                entry = entries[at]
                if entry.first_offset < upto:
                    found.append(entry)
                if entry.last_stable_offset >= upto:
                    return found
        return found

    def _stable_at_start(self, segment: LogSegment) -> int:
        """Return the first offset of the oldest transaction that was open at the start of a segment; -1 if unknown."""
        if segment.stable_at_start is None:
            rows = self._producers.read_snapshot(segment.base_offset)
            starts = [row.transaction_offset for row in rows or () if row.transaction_offset >= 0]
            segment.stable_at_start = -1 if rows is None else min(starts, default=segment.base_offset)
        return segment.stable_at_start

    def _of(self, segments: Sequence[LogSegment], number: int) -> list[AbortedTransaction]:
        segment = segments[number]
        if segment.aborted is None:
            try:
                segment.aborted = segment.read_aborted()
            except InvalidIndex as problem:
                self._rebuild(segments, number)
                self._report(f"the transaction index of {segment.path()} was rebuilt: {problem}")
            except FileNotFoundError:
                segment.aborted = []
                if self._may_have_transactions(segments, number):
                    self._rebuild(segments, number)
                if segment.aborted:
                    self._report(f"the transaction index of {segment.path()} was rebuilt: it was missing")
        assert segment.aborted is not None
        return segment.aborted

    def _may_have_transactions(self, segments: Sequence[LogSegment], number: int) -> bool:
        if number + 1 == len(segments):
            return self._producers.has_transactions
        rows = self._producers.read_snapshot(segments[number + 1].base_offset)
        return rows is None or any(row.used_transactions for row in rows)

    def _rebuild(self, segments: Sequence[LogSegment], number: int) -> None:
        """Read the segment's batches, after those before it that the producer snapshots do not cover."""
        wanted = segments[number]
        state, earlier = self._producers.at_or_before(wanted.base_offset), self._rebuilt
        if earlier is not None and state.end_offset < earlier.end_offset <= wanted.base_offset:
            state = earlier  # without snapshots each segment would be read once for every later one
        entries: list[AbortedTransaction] = []
        for segment in segments[segment_number(segments, state.end_offset) : number + 1]:
            for info in _readable_batches(segment, state.end_offset):
                completed = state.update(info)
                if completed is not None and completed.is_aborted and segment is wanted:
                    entries.append(_entry(completed, state))
        self._rebuilt = state
        wanted.aborted, wanted.was_recovered = entries, False
        with suppress(OSError):  # the next start rebuilds it again
            wanted.save_aborted()


def _readable_batches(segment: LogSegment, offset: int) -> Iterator[BatchInfo]:
    """Yield the batches from the one with `offset` on, and continue after damage, as readers do."""
    while True:
        try:
            yield from segment.batches_with_markers(offset)
            return
        except LogDamage as damage:
            position = next_valid_batch(segment.file, damage.position, segment.size, offset)
            if position is None:
                return
            offset = read_batch_info(segment.file.read_at(position, HEADER_BYTES)).base_offset


def _entry(completed: CompletedTransaction, state: ProducerStateManager) -> AbortedTransaction:
    first_open = state.first_open_offset
    stable = completed.last_offset + 1 if first_open is None else first_open
    return AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
