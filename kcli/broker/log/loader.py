"""Opening a partition's directory: leftovers finished, segments recovered after a crash, the end found in the log.

What was wrong is told in sentences. After a clean stop only the end of the newest segment is read; of older segments
the indexes are checked when they are first used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from kcli.broker.files import Files
from kcli.broker.log.file_records import LogDamage
from kcli.broker.log.leader_epoch_cache import LeaderEpochCache
from kcli.broker.log.producer_state import ProducerStateManager
from kcli.broker.log.recovery import cut_tail, recover
from kcli.broker.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, LogSegment, Report
from kcli.broker.log.segment_swap import base_offset, finish_interrupted, is_segment_file
from kcli.broker.log.segments import segment_number
from kcli.protocol.records.batch import BatchInfo


class Opening(NamedTuple):
    """What is known before a directory is looked at. `is_clean`: the broker that had it last stopped cleanly."""

    files: Files
    directory: str
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    index_interval_bytes: int
    now_wall_ms: int
    report: Report


class Loaded(NamedTuple):
    """A log that can be used: its segments, at least one, and its offsets."""

    segments: list[LogSegment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


def load(opening: Opening, epochs: LeaderEpochCache, producers: ProducerStateManager) -> Loaded:
    """Open a directory. `CorruptRecords`: it has records of formats before v2. `OSError`: the disk does not answer."""
    finish_interrupted(opening.files, opening.directory, opening.report)
    segments = _find_segments(opening)
    if opening.is_clean:
        _check_newest(opening, segments)
    else:
        _recover(opening, segments, epochs)
    if segments and segments[-1].next_offset < opening.log_start_offset:
        opening.report(
            f"all of {opening.directory} was removed: its log ends at {segments[-1].next_offset}, before the offset "
            f"{opening.log_start_offset} where it was known to begin"
        )
        _drop(segments, 0)
        epochs.clear()
    if not segments:
        segments.append(_new_segment(opening, opening.log_start_offset))
    start = max(opening.log_start_offset, segments[0].base_offset)
    end = segments[-1].next_offset
    _load_epochs(opening, segments, epochs, start, end)
    _load_producers(opening, segments, producers, start, end)
    return Loaded(segments, start, end, end if opening.is_clean else min(opening.recovery_point, end))


def _new_segment(opening: Opening, offset: int, size: int = 0) -> LogSegment:
    return LogSegment(
        opening.files,
        opening.directory,
        offset,
        size=size,
        index_interval_bytes=opening.index_interval_bytes,
        created_ms=opening.now_wall_ms,
        report=opening.report,
    )


def _find_segments(opening: Opening) -> list[LogSegment]:
    files, directory = opening.files, opening.directory
    names = {name for name in files.list(directory) if is_segment_file(name)}
    logs = sorted(name for name in names if name.endswith(LOG))
    segments = []
    for name in logs:
        size = files.size(os.path.join(directory, name))
        segments.append(_new_segment(opening, base_offset(name), size))
    stems = {name[: -len(LOG)] for name in logs}
    for orphan in sorted(name for name in names if name.partition(".")[0] not in stems):
        opening.report(f"{os.path.join(directory, orphan)} was removed: its log file is gone, and records with it")
        files.remove(os.path.join(directory, orphan))
    if opening.is_clean:
        for segment in segments:
            stem = f"{segment.base_offset:020d}"
            if segment.size and not {stem + OFFSET_INDEX, stem + TIME_INDEX} <= names:
                segment.index  # noqa: B018  made now
    return segments


def _check_newest(opening: Opening, segments: list[LogSegment]) -> None:
    """After a clean stop the log goes on behind its last whole batch."""
    cut = cut_tail(segments[-1]) if segments else None
    if cut is not None:
        opening.report(f"{segments[-1].path()}: {cut}, although the broker had stopped cleanly")


def _recover(opening: Opening, segments: list[LogSegment], epochs: LeaderEpochCache) -> None:
    """Check what may not have been on the disk when the broker died: from the recovery point's segment on."""

    def note_epoch(info: BatchInfo) -> None:
        if info.leader_epoch > epochs.latest_epoch:
            epochs.assign(info.leader_epoch, info.base_offset)

    first = segment_number(segments, opening.recovery_point) if segments else 0
    for number, segment in enumerate(segments[first:], first):
        cut = recover(segment, note_epoch, recovery_point=opening.recovery_point, report=opening.report)
        if cut is None:
            continue
        opening.report(f"{segment.path()}: {cut}")
        for lost in segments[number + 1 :]:
            opening.report(f"DATA WAS LOST: {lost.path()} with {lost.size} bytes lay behind the damage and was removed")
        _drop(segments, number + 1)
        return


def _drop(segments: list[LogSegment], first: int) -> None:
    for segment in segments[first:]:
        segment.remove()
    del segments[first:]


def _load_epochs(opening: Opening, segments: list[LogSegment], epochs: LeaderEpochCache, start: int, end: int) -> None:
    """Epochs of what is in the log; read from the log when their checkpoint is gone."""
    if epochs.latest_epoch < 0:
        for segment in segments:
            for _, info in _readable(opening, segment, start):
                if info.leader_epoch > epochs.latest_epoch:
                    epochs.assign(info.leader_epoch, info.base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)


def _load_producers(
    opening: Opening, segments: list[LogSegment], producers: ProducerStateManager, start: int, end: int
) -> None:
    """Producers from their snapshot, and from what was written since."""
    offset = producers.load(start, end, opening.now_wall_ms)
    if offset < end:
        for segment in segments[segment_number(segments, offset) :]:
            for position, info in _readable(opening, segment, offset):
                if info.is_control:
                    info = info._replace(records=segment.file.read_at(position, info.size))
                producers.update(info)
    producers.delete_stray_snapshots({segment.base_offset for segment in segments})


def _readable(opening: Opening, segment: LogSegment, offset: int) -> Iterator[tuple[int, BatchInfo]]:
    """The batches of a segment from `offset` on, as far as they can be read; what cannot is told."""
    try:
        yield from segment.batches(offset)
    except LogDamage as damage:
        opening.report(f"{segment.path()} is damaged: {damage}; its records from there on cannot be read")
