"""Fetched sections decoded into columns: all batches of a response jointly, damage reported as data.

From top to bottom: open the sections and select batches, decode those that can be read where they are, decompress the
others into one buffer and decode them there, and divide the records among the sections.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer
from kcli.protocol.records.columns import APPEND_TIME, RecordColumns
from kcli.protocol.records.decompression import OutOfBudget, Output, decompress
from kcli.protocol.records.legacy import Messages, read_messages, unwrap, wrapped_set
from kcli.protocol.records.record_boundaries import Boundaries, divide_batch, find_boundaries
from kcli.protocol.records.record_fields import Fields, explain_record, read_fields
from kcli.protocol.records.sections import DecodedSection, OpenedSection, OpenedSections, RecordSection
from kcli.protocol.records.varints import Ints, Octets
from kcli.settings import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DecodedSection", "RecordSection", "decode_sections"]

#: Bound of the decompressed batches of one call; a single one may be larger.
MAX_DECOMPRESSED_BYTES_PER_CALL = 48 << 20
# Columns take some 60 bytes per record and headers 100 per batch, so one call decodes a bounded part of a response.
MAX_RECORDS_PER_CALL = 1 << 19
MAX_BATCHES_PER_CALL = 1 << 16
_USUAL_EXPANSION = 6
# A little more than a call for the reader of a range decompresses: buffers of one size are reused by the allocator.
_MOST_EXPECTED_BYTES = 12 << 20


class _Decoded(NamedTuple):
    """Records of many batches; those of the batch in row `rows[i]` are `edges[i]` to `edges[i + 1]`.

    `failures` are the problems of damaged batches by row. The records of these batches must not be used.
    """

    columns: RecordColumns
    rows: Ints
    edges: Ints
    failures: dict[int, str]


def decode_sections(
    sections: Sequence[RecordSection],
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[DecodedSection]:
    """Decode the sections of one fetch response together. Malformed data never raises: see `DecodedSection.error`.

    A batch that decompresses to more than `max_decompressed_bytes` is the RecordTooLarge of its section. Batches that
    have more than `MAX_DECOMPRESSED_BYTES_PER_CALL` together are left in `DecodedSection.remaining`. So are records
    beyond `MAX_RECORDS_PER_CALL`, also within a batch, and batches beyond `MAX_BATCHES_PER_CALL`.
    """
    if not sections:
        return []
    opened = OpenedSections(sections, MAX_BATCHES_PER_CALL)
    opened.check_headers()
    if check_crcs:
        opened.check_checksums()
    opened.select()
    opened.bound_records(MAX_RECORDS_PER_CALL)
    large = np.flatnonzero(opened.is_selected & (opened.batches.counts > MAX_RECORDS_PER_CALL))
    if len(large):
        section = opened.section_of(int(large[0]))
        divided = _divide_batch(opened, section, int(large[0]), max_decompressed_bytes)
        if divided is not None:
            parts = [divided if part is section else part.section for part in opened.sections]
            return decode_sections(parts, check_crcs=check_crcs, max_decompressed_bytes=max_decompressed_bytes)
    in_place, to_move = _divide(opened)
    columns: dict[OpenedSection, RecordColumns] = {}
    for pool in {section.pool: None for section in in_place}:
        members = [section for section in in_place if section.pool == pool]
        _distribute(opened, members, _decode_in_place(opened, members), columns)
    if to_move:
        _distribute(opened, to_move, _decode_in_copy(opened, to_move, max_decompressed_bytes, check_crcs), columns)
    return [opened.result(section, columns.get(section)) for section in opened.sections]


def _divide_batch(opened: OpenedSections, section: OpenedSection, row: int, max_bytes: int) -> RecordSection | None:
    """Return the section from the batch in `row` on, which has too many records for one call, as several batches.

    The batches have the header of the first but for the number of records, the last offset and the codec: they are not
    compressed. None, and a failed section, if the records cannot be found.
    """
    start, end = int(opened.batches.starts[row]), int(opened.batches.ends[row])
    data = memoryview(section.buffer)[start:end]
    output = Output(max_bytes)
    try:
        codec = int(opened.batches.attributes[row]) & batch.CODEC_MASK
        payload = data[batch.HEADER_BYTES :]
        if codec:
            decompress(codec, payload, output)
            payload = output.view()
        divided = divide_batch(data, payload, MAX_RECORDS_PER_CALL)
    except CorruptRecords as problem:
        opened.fail(row, problem.message)
        return None
    except OutOfBudget:
        opened.fail_too_large(row, max_bytes)
        return None
    divided += memoryview(section.section.data)[end - section.buffer_start :]
    return opened.section_from(section, row, memoryview(divided))


def _divide(opened: OpenedSections) -> tuple[list[OpenedSection], list[OpenedSection]]:
    """Return the sections that can be decoded in place, and those with compressed batches or mixed formats."""
    batches, selected = opened.batches, opened.is_selected
    compressed = selected & ((batches.attributes & batch.CODEC_MASK) != 0)
    is_old, is_v2 = selected & (batches.magic < 2), selected & (batches.magic == 2)
    if not (compressed.any() or is_old.any()):
        return opened.sections, []
    in_place: list[OpenedSection] = []
    to_move: list[OpenedSection] = []
    for section in opened.sections:
        rows = section.rows
        moves = compressed[rows].any() or (is_old[rows].any() and is_v2[rows].any())
        (to_move if moves else in_place).append(section)
    return in_place, to_move


def _decode_in_place(opened: OpenedSections, sections: Sequence[OpenedSection]) -> _Decoded:
    """Decode uncompressed batches where they are; all `sections` are of one pool."""
    batches, buffer = opened.batches, sections[0].buffer
    rows = opened.selected_rows(sections)
    v2_rows = rows[batches.magic[rows] == 2]
    data = np.frombuffer(buffer, np.uint8)
    decoded = _decode_payloads(
        opened, buffer, data, v2_rows, batches.starts[v2_rows] + batch.HEADER_BYTES, batches.ends[v2_rows]
    )
    if len(v2_rows) == len(rows):
        return decoded
    old_rows = rows[batches.magic[rows] < 2]
    messages = Messages.plain(
        old_rows, batches.starts[old_rows], batches.ends[old_rows], batches.base_offsets[old_rows]
    )
    return _join_decoded(decoded, _decode_messages(buffer, data, messages))


def _decode_in_copy(
    opened: OpenedSections, sections: Sequence[OpenedSection], max_bytes: int, check_crcs: bool
) -> _Decoded:
    """Move the selected batches into one buffer, decompressed or copied, and decode them there.

    A batch that cannot be moved stops its section.
    """
    batches = opened.batches
    sizes = (batches.ends - batches.starts)[opened.is_selected]
    output = Output(max_bytes, min(_USUAL_EXPANSION * int(sizes.sum()), _MOST_EXPECTED_BYTES))
    bound = min(max_bytes, MAX_DECOMPRESSED_BYTES_PER_CALL)
    columns = (batches.starts, batches.ends, batches.magic, batches.attributes, batches.counts, batches.base_offsets)
    headers = [column.tolist() for column in columns]
    rows, starts, ends = array("q"), array("q"), array("q")
    messages: list[Messages] = []
    for section in sections:
        view = memoryview(section.buffer)
        for row in opened.selected_rows([section]).tolist():
            used_before = output.used
            output.limit = bound if used_before else max_bytes
            start, end, magic, attributes, count, base_offset = (column[row] for column in headers)
            codec = attributes & batch.CODEC_MASK
            try:
                if magic == 2:
                    decompress(codec, view[start + batch.HEADER_BYTES : end], output)
                    if count * batch.SMALLEST_RECORD_BYTES > output.used - used_before:
                        raise CorruptRecords(f"its {count} records do not fit in {output.used - used_before} bytes")
                    rows.append(row)
                    starts.append(used_before)
                    ends.append(output.used)
                elif codec:
                    decompress(codec, wrapped_set(view, start, end), output, magic=magic)
                    # No variable for this view: it must not outlive the next growth of the output.
                    messages.append(unwrap(output.view(), output.data, used_before, view[start:end], row, check_crcs))
                else:
                    output.write(view[start:end])
                    messages.append(
                        Messages.plain(*(np.array([value]) for value in (row, used_before, output.used, base_offset)))
                    )
                continue
            except CorruptRecords as problem:
                opened.fail(row, problem.message)
            except OutOfBudget:
                if used_before:
                    opened.interrupt(row)
                else:
                    opened.fail_too_large(row, max_bytes)
            output.used = used_before
            break
    output.trim()
    data = output.data[: output.used]
    buffer = memoryview(data)  # type: ignore[arg-type]
    decoded = _decode_payloads(opened, buffer, data, np.array(rows), np.array(starts), np.array(ends))
    if not messages:
        return decoded
    return _join_decoded(decoded, _decode_messages(buffer, data, Messages.join(messages)))


def _decode_payloads(
    opened: OpenedSections, buffer: Buffer, data: Octets, rows: Ints, starts: Ints, ends: Ints
) -> _Decoded:
    """Decode v2 batches whose uncompressed payloads are `buffer[starts[i]:ends[i]]`, ascending."""
    batches = opened.batches
    bounds = find_boundaries(buffer, data, starts, ends, batches.counts[rows])
    fields = read_fields(buffer, data, bounds.body_starts, bounds.body_ends)
    edges = _edges(bounds.counts)
    failures = {int(rows[index]): problem for index, problem in bounds.failures.items()}
    spans = (batches.next_offsets - batches.base_offsets)[rows]
    invalid = np.sort(np.concatenate((fields.invalid, _out_of_order(fields.offset_deltas, edges, spans))))
    owners, firsts, _ = _groups(np.searchsorted(edges, invalid, side="right") - 1)
    for owner, record in zip(owners.tolist(), invalid[firsts].tolist(), strict=True):
        problem = explain_record(buffer, int(bounds.body_starts[record]), int(bounds.body_ends[record]))
        failures[int(rows[owner])] = f"in record {record - int(edges[owner])}, {problem}"
    return _Decoded(_record_columns(opened, buffer, rows, bounds, fields), rows, edges, failures)


def _record_columns(
    opened: OpenedSections, buffer: Buffer, rows: Ints, bounds: Boundaries, fields: Fields
) -> RecordColumns:
    batches, counts = opened.batches, bounds.counts
    offsets = np.repeat(batches.base_offsets[rows], counts)
    offsets += fields.offset_deltas
    timestamps = np.repeat(batches.base_timestamps[rows], counts)
    timestamps += fields.timestamp_deltas
    types = np.zeros(len(offsets), np.int8)
    append_time = (batches.attributes[rows] & batch.APPEND_TIME_BIT) != 0
    if append_time.any():
        appended = np.repeat(append_time, counts)
        types[appended] = APPEND_TIME
        timestamps[appended] = np.repeat(batches.max_timestamps[rows], counts)[appended]
    return RecordColumns(
        buffer,
        offsets=offsets,
        timestamps_ms=timestamps,
        key_starts=fields.key_starts,
        key_lengths=fields.key_lengths,
        value_starts=fields.value_starts,
        value_lengths=fields.value_lengths,
        header_starts=fields.header_starts,
        header_counts=fields.header_counts,
        header_ends=bounds.body_ends,
        timestamp_types=types,
    )


def _out_of_order(deltas: Ints, edges: Ints, spans: Ints) -> Ints:
    """Return the records whose offset does not follow the record before, or is outside the batch's range."""
    if not len(deltas):
        return np.empty(0, np.int64)
    mask: NDArray[np.bool_] = np.empty(len(deltas), np.bool_)
    np.less_equal(deltas[1:], deltas[:-1], out=mask[1:])
    filled = edges[1:] > edges[:-1]
    firsts, lasts = edges[:-1][filled], edges[1:][filled] - 1
    mask[firsts] = deltas[firsts] < 0
    mask[lasts] |= deltas[lasts] >= spans[filled]
    return np.flatnonzero(mask)


def _decode_messages(buffer: Buffer, data: Octets, messages: Messages) -> _Decoded:
    """Decode messages of format 0 and 1; those of one batch are next to each other."""
    columns, invalid = read_messages(buffer, data, messages)
    rows, _, counts = _groups(messages.rows)
    problem = "its key and value do not fill the message"
    return _Decoded(columns, rows, _edges(counts), {int(row): problem for row in messages.rows[invalid]})


def _join_decoded(first: _Decoded, second: _Decoded) -> _Decoded:
    """Join records over the same buffer, in the order of their batches."""
    owners = np.concatenate([np.repeat(part.rows, np.diff(part.edges)) for part in (first, second)])
    columns = RecordColumns.join([first.columns, second.columns]).take(np.argsort(owners, kind="stable"))
    order = np.argsort(np.concatenate((first.rows, second.rows)))
    counts = np.concatenate((np.diff(first.edges), np.diff(second.edges)))[order]
    rows = np.concatenate((first.rows, second.rows))[order]
    return _Decoded(columns, rows, _edges(counts), first.failures | second.failures)


def _distribute(
    opened: OpenedSections,
    sections: Sequence[OpenedSection],
    decoded: _Decoded,
    columns: dict[OpenedSection, RecordColumns],
) -> None:
    """Put the records of each section into `columns`, up to its first damaged batch."""
    for row, problem in decoded.failures.items():
        opened.fail(row, problem)
    for section in sections:
        columns[section] = _section_columns(decoded, section)


def _section_columns(decoded: _Decoded, section: OpenedSection) -> RecordColumns:
    """Return the records of a section, from its fetch offset on."""
    first, last = np.searchsorted(decoded.rows, (section.first, section.stop))
    columns = decoded.columns.take(slice(int(decoded.edges[first]), int(decoded.edges[last])))
    offsets, fetch_offset = columns.offsets, section.section.fetch_offset
    if not len(offsets) or (offsets[0] >= fetch_offset and (offsets[1:] > offsets[:-1]).all()):
        return columns
    # Records that repeat offsets of earlier batches are dropped too, as Java's consumer does.
    highest_before = np.maximum.accumulate(np.concatenate(([fetch_offset - 1], offsets[:-1])))
    return columns.take(offsets > highest_before)


def _edges(counts: Sequence[int] | Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _groups(values: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct values of a sorted array, the first index and the count of each.

    `np.unique` does the same, but imports masked arrays, which takes 10 to 25 ms at the start of a command.
    """
    first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    firsts = np.flatnonzero(first)
    return values[firsts], firsts, np.diff(firsts, append=len(values))
