"""Fetched record sections into columns: all batches of a response jointly, damage reported as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kcli.errors import CorruptRecords
from kcli.protocol.records import batch
from kcli.protocol.records.batch import HEADER_BYTES, walk_batches
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.header_columns import gather_headers
from kcli.protocol.records.joint import Batches, Run, decode_payloads
from kcli.protocol.records.transactions import AbortedRanges, marker_type
from kcli.protocol.records.varints import Buffer

DEFAULT_MAX_DECOMPRESSED_BYTES = 64 << 20
_LAST_BASE_OFFSET = (1 << 63) - 1 - (1 << 32)


class RecordSection(NamedTuple):
    """The records of one partition in a fetch response, and from where they were asked.

    `aborted` is the response's list of (producer id, first offset), or None to read uncommitted.
    """

    topic: str
    partition: int
    data: Buffer
    fetch_offset: int
    aborted: Sequence[tuple[int, int]] | None = None


class DecodedSection(NamedTuple):
    """What a section held.

    `next_offset`: the position behind the last whole batch (control, empty and aborted ones included), or
    the fetch offset if there was none. `last_epoch`: leader epoch of that batch, -1 unknown. `error`: set when a batch
    is damaged; the records before it are in `columns`, and `next_offset` stops at it. `truncated`: a partial last batch
    was there.
    """

    columns: RecordColumns
    next_offset: int
    last_epoch: int = -1
    error: CorruptRecords | None = None
    truncated: bool = False


def decode_sections(
    sections: Sequence[RecordSection],
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[DecodedSection]:
    """Decode the sections of one fetch response together. Bad data never raises: see `DecodedSection.error`."""
    decoded: list[DecodedSection] = [DecodedSection(RecordColumns.empty(), it.fetch_offset) for it in sections]
    pools: dict[int, tuple[Buffer, list[tuple[int, int]]]] = {}
    for index, section in enumerate(sections):
        if len(section.data):
            buffer, start = _whole_buffer(section.data)
            pools.setdefault(id(buffer), (buffer, []))[1].append((index, start))
    for buffer, members in pools.values():
        _decode_pool(buffer, [(index, sections[index], start) for index, start in members], decoded, check_crcs)
    return decoded


def _whole_buffer(data: Buffer) -> tuple[Buffer, int]:
    """The bytes object that `data` is a view of, and where in it the view begins: sections of one frame share it."""
    if not isinstance(data, memoryview):
        return data, 0
    owner = data.obj
    if type(owner) in (bytes, bytearray) and data.contiguous:
        whole: Buffer = owner  # type: ignore[assignment]
        return whole, _address(data) - _address(whole)
    return memoryview(bytes(data)), 0


def _address(data: Buffer) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def _decode_pool(
    buffer: Buffer,
    members: Iterable[tuple[int, RecordSection, int]],
    decoded: list[DecodedSection],
    check_crcs: bool,
) -> None:
    data = np.frombuffer(buffer, np.uint8)
    starts: list[int] = []
    ends: list[int] = []
    runs: list[Run] = []
    truncated: list[bool] = []
    for index, section, start in members:
        walk = walk_batches(buffer, start, start + len(section.data))
        run = Run(index, section.fetch_offset, len(starts), len(starts) + len(walk.starts), section.aborted)
        run.problem = walk.problem
        runs.append(run)
        truncated.append(walk.truncated)
        starts += walk.starts
        ends += walk.ends
    batches = Batches.of(gather_headers(data, np.array(starts, np.int64)), starts, ends)
    _check_headers(batches, runs)
    if check_crcs:
        _check_crcs(buffer, batches, runs)
    wanted = _wanted(buffer, batches, runs)
    results = decode_payloads(buffer, data, batches, wanted, runs)
    for run, columns, cut in zip(runs, results, truncated, strict=True):
        position, epoch = run.position(batches)
        error = None
        if run.problem is not None:
            topic, partition = _name(members, run)
            error = CorruptRecords(f"corrupt records: {run.problem}", topic=topic, partition=partition, offset=position)
        decoded[run.section] = DecodedSection(columns, position, epoch, error, cut and error is None)


def _name(members: Iterable[tuple[int, RecordSection, int]], run: Run) -> tuple[str, int]:
    return next((it.topic, it.partition) for index, it, _ in members if index == run.section)


def _check_headers(batches: Batches, runs: list[Run]) -> None:
    sizes = batches.ends - batches.starts - HEADER_BYTES
    compressed = (batches.attributes & batch.CODEC_MASK) != 0
    room = np.where(compressed, np.iinfo(np.int32).max, sizes // batch.SMALLEST_RECORD_BYTES)
    checks: list[tuple[NDArray[np.bool_], str]] = [
        (batches.magic != 2, "the message format is unknown"),
        ((batches.base_offsets < 0) | (batches.base_offsets > _LAST_BASE_OFFSET), "the base offset is impossible"),
        (batches.last_offset_deltas < 0, "the last offset lies before the first"),
        ((batches.counts < 0) | (batches.counts > room), "the record count does not fit the batch's size"),
        (batches.counts > batches.last_offset_deltas + 1, "there are more records than offsets"),
        ((batches.attributes & batch.CODEC_MASK) > 4, "the compression codec is unknown"),
    ]
    for wrong, problem in checks:
        if wrong.any():
            for run in runs:
                hits = np.flatnonzero(wrong[run.lo : run.limit])
                if len(hits):
                    run.fail(run.lo + int(hits[0]), problem)


def _check_crcs(buffer: Buffer, batches: Batches, runs: list[Run]) -> None:
    view = memoryview(buffer)
    checksum = crc32c
    starts, ends, crcs = batches.starts.tolist(), batches.ends.tolist(), batches.crcs.tolist()
    for run in runs:
        for index in range(run.lo, run.limit):
            found = checksum(view[starts[index] + batch.CRC_FROM : ends[index]])
            if found != crcs[index]:
                run.fail(index, f"the CRC-32C is {found:#010x}, the batch says {crcs[index]:#010x}")
                break


def _wanted(buffer: Buffer, batches: Batches, runs: list[Run]) -> NDArray[np.bool_]:
    """Which batches hold records to be shown: not control, not aborted, not empty, not before the offset asked."""
    control = (batches.attributes & batch.CONTROL_BIT) != 0
    wanted: NDArray[np.bool_] = (batches.counts > 0) & ~control
    for run in runs:
        if run.aborted:
            _drop_aborted(buffer, batches, run, wanted)
        if run.lo < run.hi and batches.base_offsets[run.lo] < run.fetch_offset:
            mine = slice(run.lo, run.hi)
            wanted[mine] &= batches.next_offsets[mine] > run.fetch_offset
    return wanted


def _drop_aborted(buffer: Buffer, batches: Batches, run: Run, wanted: NDArray[np.bool_]) -> None:
    ranges = AbortedRanges(run.aborted or ())
    for index in range(run.lo, run.limit):
        producer_id = int(batches.producer_ids[index])
        if producer_id < 0:
            continue
        last_offset = int(batches.next_offsets[index]) - 1
        attributes = int(batches.attributes[index])
        if not attributes & batch.CONTROL_BIT:
            wanted[index] &= not ranges.drops(producer_id, last_offset, bool(attributes & batch.TRANSACTIONAL_BIT))
        elif batches.counts[index]:
            try:
                marker = marker_type(buffer, int(batches.starts[index]) + HEADER_BYTES, int(batches.ends[index]))
            except CorruptRecords as problem:
                run.fail(index, problem.message)
                return
            ranges.pass_marker(producer_id, last_offset, marker)
