"""Crash-safe replacement of segments by a compacted one, and its completion or rollback at the next start.

As in Kafka, a compaction writes `.cleaned` files, renames them to `.swap` when they are complete, removes the segments
that they replace, and finally removes the suffix. After a crash `.cleaned` files are rolled back and `.swap` files are
completed. `.deleted` files are the rest of an interrupted deletion.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kcli.broker.files import TEMPORARY_SUFFIX, Files
from kcli.broker.log.file_records import LogDamage, iter_batches
from kcli.broker.log.segment import LOG, SUFFIXES, LogSegment, Report

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
_LEFT_OVER = (CLEANED, SWAP, DELETED, TEMPORARY_SUFFIX)


def finish_interrupted(files: Files, directory: str, names: Sequence[str], report: Report) -> Sequence[str]:
    """Remove or rename leftover files, so that only current segments, their indexes and foreign files remain.

    `names` are those in the directory; return the names that are there afterwards.
    """
    if not any(name.endswith(_LEFT_OVER) for name in names):
        return names
    cleaned = [name for name in names if name.endswith(CLEANED)]
    rollback_from = min((base_offset(name) for name in cleaned), default=None)
    for name in names:
        is_rolled_back = name.endswith(SWAP) and rollback_from is not None and base_offset(name) >= rollback_from
        if is_rolled_back or name.endswith((CLEANED, DELETED, TEMPORARY_SUFFIX)):
            files.remove(os.path.join(directory, name))
    if cleaned:
        report(f"an interrupted compaction in {directory} was rolled back")
    swaps = [name for name in files.list(directory) if name.endswith(SWAP)]
    if swaps:
        _complete_swap(files, directory, swaps)
        report(f"an interrupted compaction in {directory} was completed")
    return files.list(directory)


def _complete_swap(files: Files, directory: str, swaps: list[str]) -> None:
    ranges: list[tuple[int, int]] = []
    for name in swaps:
        if name == f"{base_offset(name):020d}{LOG}{SWAP}":
            end = _next_offset(files, os.path.join(directory, name), base_offset(name))
            ranges.append((base_offset(name), end))
    if ranges:
        start, end = min(first for first, _ in ranges), max(last for _, last in ranges)
        for name in files.list(directory):
            if is_segment_file(name) and start <= base_offset(name) < end:
                files.remove(os.path.join(directory, name))
    for name in swaps:
        path = os.path.join(directory, name)
        files.rename(path, path[: -len(SWAP)])
    files.sync_dir(directory)


def _next_offset(files: Files, path: str, offset: int) -> int:
    file = files.open(path)
    try:
        for _, info in iter_batches(file, 0, file.size):
            offset = info.last_offset + 1
    except LogDamage:
        pass  # reported when the segment is opened
    finally:
        file.close()
    return offset


def is_segment_file(name: str) -> bool:
    """Return whether the name is that of a current segment's file: 20 digits and one of the four suffixes."""
    stem, dot, suffix = name.partition(".")
    return dot + suffix in SUFFIXES and len(stem) == 20 and stem.isascii() and stem.isdigit()


def base_offset(name: str) -> int:
    """Return the offset at the start of a file name; -1 when there is none."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def replace_segments(
    files: Files, segments: Sequence[LogSegment], cleaned: LogSegment, old: Sequence[LogSegment]
) -> list[LogSegment]:
    """Replace `old` by `cleaned` in the directory, and return `segments` with the same replacement."""
    first = segments.index(old[0])
    end = first + len(old)
    if list(segments[first:end]) != list(old) or end == len(segments):
        raise ValueError("the segments to replace must be adjacent and must not include the newest")
    cleaned.seal()
    cleaned.sync()
    cleaned.rename(SWAP)
    files.sync_dir(cleaned.directory)
    for segment in old:
        segment.remove()
    cleaned.rename("")
    files.sync_dir(cleaned.directory)
    return [*segments[:first], cleaned, *segments[end:]]
