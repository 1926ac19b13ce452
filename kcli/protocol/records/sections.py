"""The sections of a fetch response, opened: their batches, and how far each section can be decoded.

A section is the record data of one partition. `OpenedSections` is the only place that changes the state of decoding:
it finds the batches, checks their headers and checksums, selects those with records for the reader, and stops a section
at the first damaged batch (`fail`) or at a bound (`interrupt`). `decode` and `batch_columns` turn the selected batches
into columns, report damage to it, and take the results from it.
"""

from __future__ import annotations

import heapq
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords, KcliError, ProtocolError
from kcli.protocol.primitives import read_varint, read_varlong
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer, walk_batches
from kcli.protocol.records.batch_table import BatchTable
from kcli.protocol.records.checksum import checksums, crc32c
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.compression import too_large
from kcli.protocol.records.decompression import OutOfBudget, Output, decompress
from kcli.protocol.records.varints import Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LAST_BASE_OFFSET = (1 << 63) - 1 - (1 << 32)
_BEYOND_INT32 = 1 << 31
_CRC_FROM_MAGIC = batch.CRC_FROM - batch.MAGIC_AT
_CONTROL_RECORD_BYTES = 4096
_ABORT_MARKER = 0


class RecordSection(NamedTuple):
    """The records of one partition in a fetch response, fetched from `fetch_offset` on.

    `aborted` is the response's list of (producer id, first offset); None reads uncommitted records too.
    """

    topic: str
    partition: int
    data: Buffer
    fetch_offset: int
    aborted: Sequence[tuple[int, int]] | None = None


class DecodedSection(NamedTuple):
    """The records of a section.

    `next_offset`: the position after the last whole batch (control, empty and aborted ones included), or the fetch
    offset without one. `last_epoch`: leader epoch of that batch, -1 unknown. `error`: CorruptRecords if a batch is
    damaged, RecordTooLarge if it is too large when decompressed; the records before it are in `columns`, and
    `next_offset` stops at it. `truncated`: the section ended in a partial batch. `remaining`: the batches left for
    another call by a bound; they begin at `next_offset`.
    """

    columns: RecordColumns
    next_offset: int
    last_epoch: int = -1
    error: KcliError | None = None
    truncated: bool = False
    remaining: RecordSection | None = None


class OpenedSection:
    """One section: rows `first` to `end` of the batch table, of which those before `stop` can be decoded.

    Batch positions count in `buffer`. Sections with the same `pool` share a buffer and can be decoded together.
    Read-only outside this module: `OpenedSections` changes it.
    """

    __slots__ = (
        "buffer", "buffer_start", "end", "first", "pool", "problem", "section", "size_limit", "stop", "truncated",
        "unread_from",
    )  # fmt: skip

    def __init__(self, section: RecordSection, buffer: Buffer, buffer_start: int, pool: int, first: int) -> None:
        self.section = section
        self.buffer = buffer
        self.buffer_start = buffer_start
        self.pool = pool
        self.first = self.end = self.stop = first
        self.truncated = False
        #: Reason why the batch at row `stop` (or the bytes after the last row) is damaged.
        self.problem: str | None = None
        #: Limit of bytes that the batch at row `stop` exceeds when it is decompressed, None if it is not too large.
        self.size_limit: int | None = None
        #: Position in `buffer` of batches beyond the maximum of a call, -1 if there are none.
        self.unread_from = -1

    @property
    def rows(self) -> slice:
        """The rows of the batches that can be decoded."""
        return slice(self.first, self.stop)


class OpenedSections:
    """The batches of all sections of a response. After `select`, `is_selected` marks the rows to decode."""

    def __init__(self, sections: Sequence[RecordSection], max_batches: int) -> None:
        """Find the whole batches, at most `max_batches`. `sections` must not be empty."""
        self.sections: list[OpenedSection] = []
        parts: list[BatchTable] = []
        starts, ends = array("q"), array("q")
        total = section_end = 0
        for section in sections:
            buffer, start = _whole_buffer(section.data)
            # Sections that follow each other in one buffer, as those of a fetch response do, share a pool.
            if self.sections and (buffer is not self.sections[-1].buffer or start < section_end):
                parts.append(BatchTable.read(np.frombuffer(self.sections[-1].buffer, np.uint8), starts, ends))
                starts, ends = array("q"), array("q")
            opened = OpenedSection(section, buffer, start, len(parts), total)
            self.sections.append(opened)
            section_end = start + len(section.data)
            walk = walk_batches(buffer, start, section_end, max_batches - total)
            starts += walk.starts
            ends += walk.ends
            total += len(walk.starts)
            opened.end = opened.stop = total
            opened.truncated, opened.problem = walk.truncated, walk.problem
            if walk.stopped_at < section_end and not walk.truncated and walk.problem is None:
                opened.unread_from = walk.stopped_at
        parts.append(BatchTable.read(np.frombuffer(self.sections[-1].buffer, np.uint8), starts, ends))
        self.batches = BatchTable.join(parts)
        self.is_selected: NDArray[np.bool_] = np.zeros(total, np.bool_)

    def __repr__(self) -> str:
        return f"<OpenedSections {len(self.sections)} sections, {len(self.is_selected)} batches>"

    def fail(self, row: int, problem: str) -> None:
        """Stop a section at the damaged batch in `row`; the error of its result reports the problem."""
        self._stop(self.section_of(row), row, problem)

    def fail_too_large(self, row: int, limit: int) -> None:
        """Stop a section at the batch in `row`, which decompresses to more than `limit` bytes."""
        section = self.section_of(row)
        self._stop(section, row, None)
        section.size_limit = limit

    def interrupt(self, row: int) -> None:
        """Stop a section at `row` and leave the batches from there on for another call."""
        self._stop(self.section_of(row), row, None)

    def section_of(self, row: int) -> OpenedSection:
        """Return the section with the batch in `row`."""
        return self.sections[bisect_right(self.sections, row, key=_first_row) - 1]

    def _stop(self, section: OpenedSection, row: int, problem: str | None) -> None:
        if row < section.stop:
            section.stop, section.problem, section.size_limit = row, problem, None
            self.is_selected[row : section.end] = False

    # --- checks

    def check_headers(self) -> None:
        """Fail the first impossible batch header of each section."""
        batches = self.batches
        codec = batches.attributes & batch.CODEC_MASK
        sizes = batches.ends - batches.starts - batch.HEADER_BYTES
        max_counts = np.where(codec == 0, sizes // batch.SMALLEST_RECORD_BYTES, _BEYOND_INT32)
        span = batches.next_offsets - batches.base_offsets
        is_v2 = batches.magic >= 2
        counts = batches.counts
        checks: tuple[tuple[NDArray[np.bool_], str], ...] = (
            ((batches.magic > 2) | (batches.magic < 0), "the message format is unknown"),
            (
                (batches.base_offsets < 0) | (batches.base_offsets > _LAST_BASE_OFFSET),
                "its base offset is out of range",
            ),
            (span < 1, "its last offset is lower than its base offset"),
            (is_v2 & ((counts < 0) | (counts > max_counts)), "its record count does not fit its size"),
            (is_v2 & (counts > span), "it has more records than offsets"),
            (codec > np.where(is_v2, 4, 3), "its compression codec is unknown"),
        )
        for mask, problem in checks:
            if mask.any():
                for section in self.sections:
                    indices = np.flatnonzero(mask[section.rows])
                    if len(indices):
                        self._stop(section, section.first + int(indices[0]), problem)

    def check_checksums(self) -> None:
        """Fail the first batch of each section with a wrong checksum (CRC-32C, or CRC-32 in old formats)."""
        stored, computed = self.batches.crcs.tolist(), self._checksums()
        for section in self.sections:
            if computed[section.rows] != stored[section.rows]:
                row = next(at for at in range(section.first, section.stop) if computed[at] != stored[at])
                self._stop(section, row, f"its CRC is {computed[row]:#010x} and should be {stored[row]:#010x}")

    def _checksums(self) -> list[int]:
        """Compute the checksum of every batch; those in one buffer together."""
        batches = self.batches
        magic = batches.magic.tolist()
        only_new = magic.count(2) == len(magic)
        starts = (batches.starts + (batch.CRC_FROM if only_new else batch.MAGIC_AT)).tolist()
        ends = batches.ends.tolist()
        computed = [0] * len(starts)
        for _, group in groupby(self.sections, lambda section: id(section.buffer)):
            members = list(group)
            view, low, high = memoryview(members[0].buffer), members[0].first, members[-1].end
            if only_new:
                computed[low:high] = checksums(view, starts[low:high], ends[low:high])
                continue
            for row in range(low, high):
                start, end = starts[row], ends[row]
                is_v2 = magic[row] == 2
                computed[row] = crc32c(view[start + _CRC_FROM_MAGIC : end]) if is_v2 else zlib.crc32(view[start:end])
        return computed

    # --- selection

    def select(self) -> None:
        """Select the batches with records for the reader.

        Control batches, aborted and empty ones are not, nor those wholly before the fetch offset or after a failure.
        """
        batches = self.batches
        self.is_selected = (batches.counts > 0) & ((batches.attributes & batch.CONTROL_BIT) == 0)
        for section in self.sections:
            self.is_selected[section.stop : section.end] = False
            if section.section.aborted:
                self.is_selected[section.first : section.end] &= ~self.aborted_batches(section)
            fetch_offset = section.section.fetch_offset
            if section.first < section.stop and batches.base_offsets[section.first] < fetch_offset:
                self.is_selected[section.rows] &= batches.next_offsets[section.rows] > fetch_offset

    def bound_records(self, max_records: int) -> None:
        """Interrupt the sections where the selected batches exceed `max_records` together, after the first batch."""
        counts = np.where(self.is_selected, self.batches.counts, 0)
        totals = np.cumsum(counts)
        if not len(totals) or totals[-1] <= max_records:
            return
        exceeding_rows = np.flatnonzero((totals > max_records) & (totals > counts))
        for section in self.sections if len(exceeding_rows) else ():
            self._stop(section, max(int(exceeding_rows[0]), section.first), None)

    def selected_rows(self, sections: Iterable[OpenedSection]) -> Ints:
        """Return the rows to decode of some sections."""
        return np.concatenate([np.flatnonzero(self.is_selected[s.rows]) + s.first for s in sections])

    def aborted_batches(self, section: OpenedSection) -> NDArray[np.bool_]:
        """Return a mask of the batches of aborted transactions of a section (KIP-98, as Kafka's consumer decides).

        A damaged transaction marker fails its section.
        """
        mask = np.zeros(section.end - section.first, np.bool_)
        ranges = _AbortedRanges(section.section.aborted or ())
        for row in range(section.first, section.stop):
            try:
                mask[row - section.first] = self._advance(ranges, section, row)
            except CorruptRecords as problem:
                self._stop(section, row, problem.message)
                break
        return mask

    def _advance(self, ranges: _AbortedRanges, section: OpenedSection, row: int) -> bool:
        """Advance `ranges` past a batch; True if the batch was aborted."""
        batches = self.batches
        producer_id = int(batches.producer_ids[row])
        if producer_id < 0:
            return False
        last_offset = int(batches.next_offsets[row]) - 1
        attributes = int(batches.attributes[row])
        if not attributes & batch.CONTROL_BIT:
            return ranges.is_aborted(producer_id, last_offset, bool(attributes & batch.TRANSACTIONAL_BIT))
        if batches.counts[row]:
            ranges.pass_marker(producer_id, last_offset, self._marker_type(section, row))
        return False

    def _marker_type(self, section: OpenedSection, row: int) -> int:
        start, end = int(self.batches.starts[row]), int(self.batches.ends[row])
        payload = memoryview(section.buffer)[start + batch.HEADER_BYTES : end]
        record = Output(_CONTROL_RECORD_BYTES)
        try:
            decompress(int(self.batches.attributes[row]) & batch.CODEC_MASK, payload, record)
        except OutOfBudget:
            raise CorruptRecords("the control record is too large") from None
        return _read_marker_type(record.data[: record.used].tobytes())

    # --- results

    def result(self, section: OpenedSection, columns: RecordColumns | None) -> DecodedSection:
        """Return the decoded section; `columns` are its records, None for none."""
        position, epoch = self._position(section)
        if columns is None:
            columns = RecordColumns.empty()
        columns.within = self.batches, section.first, section.stop
        if section.problem is not None:
            topic, partition = section.section.topic, section.section.partition
            text = f"the batch at offset {position} is corrupt: {section.problem}"
            error = CorruptRecords(text, topic=topic, partition=partition, offset=position)
            return DecodedSection(columns, position, epoch, error)
        if section.size_limit is not None:
            next_offset = int(self.batches.next_offsets[section.stop])
            refusal = too_large(position, next_offset, section.size_limit)
            refusal.evidence |= {"topic": section.section.topic, "partition": section.section.partition}
            return DecodedSection(columns, position, epoch, refusal)
        truncated = section.truncated and section.stop == section.end
        return DecodedSection(columns, position, epoch, None, truncated, self._remaining_section(section, position))

    def _position(self, section: OpenedSection) -> tuple[int, int]:
        """Return the offset after the last good batch, and its leader epoch."""
        fetch_offset = section.section.fetch_offset
        if section.first == section.stop:
            return fetch_offset, -1
        next_offset = int(self.batches.next_offsets[section.rows].max())
        return max(fetch_offset, next_offset), int(self.batches.leader_epochs[section.stop - 1])

    def _remaining_section(self, section: OpenedSection, position: int) -> RecordSection | None:
        """Return the part of an interrupted section that is left for another call."""
        start = section.unread_from if section.stop == section.end else int(self.batches.starts[section.stop])
        if start < 0:
            return None
        data = memoryview(section.section.data)[start - section.buffer_start :]
        remaining = self.section_from(section, section.stop, data)
        return remaining._replace(fetch_offset=position)

    def section_from(self, section: OpenedSection, stop: int, data: Buffer) -> RecordSection:
        """Return a section without its batches before the row `stop`; `data` are the others."""
        aborted = section.section.aborted
        if aborted:
            ranges = _AbortedRanges(aborted)
            for row in range(section.first, stop):
                self._advance(ranges, section, row)
            aborted = ranges.remaining()
        return section.section._replace(data=data, aborted=aborted)


def _first_row(section: OpenedSection) -> int:
    return section.first


def _whole_buffer(data: Buffer) -> tuple[Buffer, int]:
    """Return the bytes object that `data` is a view of, and the view's start in it."""
    if not isinstance(data, memoryview):
        return data, 0
    owner = data.obj
    if len(data) and type(owner) in (bytes, bytearray) and data.contiguous:
        whole: Buffer = owner  # type: ignore[assignment]
        return whole, _address(data) - _address(whole)
    return bytes(data), 0


def _address(data: Buffer) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


class _AbortedRanges:
    """Aborted transactions of one partition, while its batches are passed in order.

    A producer's transaction is aborted from its first offset in the fetch response's list to that producer's next abort
    marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._upcoming)
        self._aborting: set[int] = set()

    def is_aborted(self, producer_id: int, last_offset: int, transactional: bool) -> bool:
        """Pass a data batch; True if its transaction was aborted."""
        self._advance(last_offset)
        return transactional and producer_id in self._aborting

    def pass_marker(self, producer_id: int, last_offset: int, marker: int) -> None:
        """Pass a control batch of the producer."""
        self._advance(last_offset)
        if marker == _ABORT_MARKER:
            self._aborting.discard(producer_id)

    def remaining(self) -> list[tuple[int, int]]:
        """Return the transactions not yet passed as (producer id, first offset), to continue with later."""
        return [(producer_id, 0) for producer_id in self._aborting] + [(id, first) for first, id in self._upcoming]

    def _advance(self, last_offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= last_offset:
            self._aborting.add(heapq.heappop(self._upcoming)[1])


def _read_marker_type(payload: bytes) -> int:
    """Return the type of the first control record; its key is a version and a type, an int16 each."""
    try:
        _, at = read_varint(payload, 0)
        _, at = read_varlong(payload, at + 1)
        _, at = read_varint(payload, at)
        key_length, at = read_varint(payload, at)
    except ProtocolError as problem:
        raise CorruptRecords(problem.message) from None
    if not 4 <= key_length <= len(payload) - at:
        raise CorruptRecords("the control record has no type")
    return int.from_bytes(payload[at + 2 : at + 4], "big", signed=True)
