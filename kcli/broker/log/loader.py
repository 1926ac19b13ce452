"""Loading a partition's directory: interrupted compactions, recovery after a crash, epochs and producers.

Kafka's LogLoader. Every problem is reported as a sentence. After a clean shutdown only the end of the newest segment is
read; the indexes of older segments are checked at their first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.broker.files import Files
from kcli.broker.log.file_records import LogDamage
from kcli.broker.log.leader_epoch_cache import LeaderEpochCache
from kcli.broker.log.producer_state import ProducerStateManager, snapshot_offsets
from kcli.broker.log.recovery import loss, recover, truncate_tail
from kcli.broker.log.segment import LOG, OFFSET_INDEX, TIME_INDEX, LogSegment, Report
from kcli.broker.log.segment_swap import base_offset, finish_interrupted, is_segment_file
from kcli.broker.log.segments import segment_number
from kcli.protocol.records.batch import BatchInfo


class LoadRequest(NamedTuple):
    """The directory to load, its files, and its checkpointed offsets. `is_clean`: the last shutdown was clean.
    `is_replica`: other brokers may have the records, too.
    """

    files: Files
    directory: str
    names: Sequence[str]
    recovery_point: int
    log_start_offset: int
    is_clean: bool
    index_interval_bytes: int
    now_wall_ms: int
    report: Report
    is_replica: bool


class LoadedLog(NamedTuple):
    """A loaded log: its segments, at least one, and its offsets."""

    segments: list[LogSegment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


def load(request: LoadRequest, epochs: LeaderEpochCache, producers: ProducerStateManager) -> LoadedLog:
    """Load a directory. `CorruptRecords` for record formats before v2, `OSError` for a failing disk."""
    names = finish_interrupted(request.files, request.directory, request.names, request.report)
    segments = _find_segments(request, names)
    if request.is_clean:
        _check_newest(request, segments)
    else:
        _recover(request, segments, epochs)
    if segments and segments[-1].next_offset < request.log_start_offset:
        request.report(
            f"all segments of {request.directory} were removed: the log ends at offset {segments[-1].next_offset}, "
            f"before its log start offset {request.log_start_offset}"
        )
        _remove_from(segments, 0)
        epochs.clear()
    if not segments:
        segments.append(_new_segment(request, request.log_start_offset))
    start = max(request.log_start_offset, segments[0].base_offset)
    end = segments[-1].next_offset
    _load_epochs(request, segments, epochs, start, end)
    load_producers(segments, producers, snapshot_offsets(names), start, end, request.now_wall_ms, request.report)
    return LoadedLog(segments, start, end, end if request.is_clean else min(request.recovery_point, end))


def _new_segment(request: LoadRequest, offset: int, size: int = 0) -> LogSegment:
    return LogSegment(
        request.files,
        request.directory,
        offset,
        size=size,
        index_interval_bytes=request.index_interval_bytes,
        created_ms=request.now_wall_ms,
        report=request.report,
    )


def _find_segments(request: LoadRequest, files_there: Sequence[str]) -> list[LogSegment]:
    files, directory = request.files, request.directory
    names = {name for name in files_there if is_segment_file(name)}
    if not names:
        return []
    logs = sorted(name for name in names if name.endswith(LOG))
    segments = []
    for name in logs:
        size = files.size(os.path.join(directory, name))
        segments.append(_new_segment(request, base_offset(name), size))
    stems = {name[: -len(LOG)] for name in logs}
    for orphan in sorted(name for name in names if name.partition(".")[0] not in stems):
        request.report(f"{os.path.join(directory, orphan)} was removed: its log file and records are missing")
        files.remove(os.path.join(directory, orphan))
    if request.is_clean:
        for segment in segments:
            stem = f"{segment.base_offset:020d}"
            if segment.size and not {stem + OFFSET_INDEX, stem + TIME_INDEX} <= names:
                segment.index  # noqa: B018  builds the index now
    return segments


def _check_newest(request: LoadRequest, segments: list[LogSegment]) -> None:
    """After a clean shutdown, truncate the newest segment after its last whole batch."""
    truncation = truncate_tail(segments[-1]) if segments else None
    if truncation is not None:
        text = truncation.sentence(is_replica=request.is_replica)
        request.report(f"{segments[-1].path()}: {text}, although the broker had shut down cleanly")


def _recover(request: LoadRequest, segments: list[LogSegment], epochs: LeaderEpochCache) -> None:
    """Check the segments that may not have been flushed before a crash, from the recovery point's segment on."""

    def add_epoch(info: BatchInfo) -> None:
        if info.leader_epoch > epochs.latest_epoch:
            epochs.assign(info.leader_epoch, info.base_offset)

    first = segment_number(segments, request.recovery_point) if segments else 0
    for number, segment in enumerate(segments[first:], first):
        truncation = recover(segment, add_epoch, recovery_point=request.recovery_point, report=request.report)
        if truncation is None:
            continue
        request.report(f"{segment.path()}: {truncation.sentence(is_replica=request.is_replica)}")
        removal = loss(is_replica=request.is_replica)
        for lost in segments[number + 1 :]:
            request.report(f"{removal}: {lost.path()} with {lost.size} bytes followed the damage and was removed")
        _remove_from(segments, number + 1)
        return


def _remove_from(segments: list[LogSegment], first: int) -> None:
    for segment in segments[first:]:
        segment.remove()
    del segments[first:]


def _load_epochs(
    request: LoadRequest, segments: list[LogSegment], epochs: LeaderEpochCache, start: int, end: int
) -> None:
    """Fit the epochs to the log; rebuild them from its batches when the checkpoint is missing."""
    if epochs.latest_epoch < 0:
        for segment in segments:
            for info in _readable(segment, start, request.report):
                if info.leader_epoch > epochs.latest_epoch:
                    epochs.assign(info.leader_epoch, info.base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)


def load_producers(
    segments: list[LogSegment],
    producers: ProducerStateManager,
    snapshots: list[int],
    start: int,
    end: int,
    now_wall_ms: int,
    report: Report,
) -> None:
    """Load producers from the newest snapshot in the log, which is from `start` to `end`, and the batches after it."""
    offset = producers.load(start, end, now_wall_ms, snapshots)
    if offset < end:
        for segment in segments[segment_number(segments, offset) :]:
            for info in _readable(segment, offset, report):
                producers.update(info)
    if len(snapshots) > 1:
        producers.delete_stray_snapshots({segment.base_offset for segment in segments})


def _readable(segment: LogSegment, offset: int, report: Report) -> Iterator[BatchInfo]:
    """Yield the batches of a segment from `offset` on; unreadable ones end the iteration and are reported."""
    try:
        yield from segment.batches_with_markers(offset)
    except LogDamage as damage:
        report(f"{segment.path()} is damaged: {damage}; records from there on cannot be read")
