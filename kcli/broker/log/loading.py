"""Opening a partition's directory: leftovers finished, segments recovered after a crash, the end found in the log.

What was wrong is told in sentences. After a clean stop only the end of the newest segment is read; of older segments
the indexes are checked when they are first used.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kcli.broker.files import Files
from kcli.broker.log.batch_info import BatchInfo
from kcli.broker.log.batches import LogDamage
from kcli.broker.log.leader_epochs import LeaderEpochCache
from kcli.broker.log.leftovers import base_offset, finish_interrupted, is_segment_file
from kcli.broker.log.producer_state import ProducerStateManager
from kcli.broker.log.recovery import recover
from kcli.broker.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, LogSegment, Report


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
        _check_newest(opening, segments, epochs)
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
    _load_epochs(segments, epochs, start, end)
    _load_producers(segments, producers, start, end, opening.now_wall_ms)
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
                _try_index(opening, segment)
    return segments


def _try_index(opening: Opening, segment: LogSegment) -> None:
    """Have its index made now. Damage in an old segment is told, but nothing is cut for it."""
    try:
        segment.index  # noqa: B018
    except LogDamage as damage:
        opening.report(f"{segment.path()} is damaged: {damage}; its records from there on cannot be read")


def _check_newest(opening: Opening, segments: list[LogSegment], epochs: LeaderEpochCache) -> None:
    if segments:
        try:
            segments[-1].index  # noqa: B018
        except LogDamage:
            opening.report(f"{segments[-1].path()} is damaged although the broker stopped cleanly")
            _recover_from(opening, segments, len(segments) - 1, epochs)


def _recover(opening: Opening, segments: list[LogSegment], epochs: LeaderEpochCache) -> None:
    """Check what may not have been on the disk when the broker died: from the recovery point's segment on."""
    first = sum(segment.base_offset <= opening.recovery_point for segment in segments) - 1
    _recover_from(opening, segments, max(first, 0), epochs)


def _recover_from(opening: Opening, segments: list[LogSegment], first: int, epochs: LeaderEpochCache) -> None:
    def note_epoch(info: BatchInfo) -> None:
        if info.leader_epoch > epochs.latest_epoch:
            epochs.assign(info.leader_epoch, info.base_offset)

    for number, segment in enumerate(segments[first:], first):
        cut = recover(segment, note_epoch)
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


def _load_epochs(segments: list[LogSegment], epochs: LeaderEpochCache, start: int, end: int) -> None:
    """Epochs of what is in the log; read from the log when their checkpoint is gone."""
    if epochs.latest_epoch < 0:
        for segment in segments:
            try:
                for _, info in segment.batches():
                    if info.leader_epoch > epochs.latest_epoch:
                        epochs.assign(info.leader_epoch, info.base_offset)
            except LogDamage:
                continue
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)


def _load_producers(
    segments: list[LogSegment], producers: ProducerStateManager, start: int, end: int, now_wall_ms: int
) -> None:
    offset = producers.load(start, end, now_wall_ms)
    if offset < end:
        for number, segment in enumerate(segments):
            if number + 1 < len(segments) and segments[number + 1].base_offset <= offset:
                continue
            try:
                for position, info in segment.batches(offset):
                    if info.is_control:
                        info = info._replace(records=segment.file.read_at(position, info.size))
                    producers.update(info)
            except LogDamage:
                continue
    producers.end_offset = end
