"""What an interrupted deletion or compaction left in a partition's directory: finished or undone, as Kafka does it.

A compaction writes `.cleaned` files, renames them to `.swap` once all are whole, removes the segments that they
replace, and at last takes the suffix away. So `.cleaned` is to be undone and `.swap` to be finished.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kcli.broker.files import TEMPORARY_SUFFIX, Files
from kcli.broker.log.file_records import LogDamage, walk
from kcli.broker.log.segment import LOG, SUFFIXES, LogSegment, Report

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"


def finish_interrupted(files: Files, directory: str, report: Report) -> None:
    """Leave only segments that are in use, their indexes, and files that are none of ours."""
    names = files.list(directory)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    undone_from = min((base_offset(name) for name in cleaned), default=None)
    for name in names:
        is_undone = name.endswith(SWAP) and undone_from is not None and base_offset(name) >= undone_from
        if is_undone or name.endswith((CLEANED, DELETED, TEMPORARY_SUFFIX)):
            files.remove(os.path.join(directory, name))
    if cleaned:
        report(f"an interrupted compaction in {directory} was undone")
    swaps = [name for name in files.list(directory) if name.endswith(SWAP)]
    if swaps:
        _finish_swap(files, directory, swaps)
        report(f"an interrupted compaction in {directory} was finished")


def _finish_swap(files: Files, directory: str, swaps: list[str]) -> None:
    replaced: list[tuple[int, int]] = []
    for name in swaps:
        if name == f"{base_offset(name):020d}{LOG}{SWAP}":
            end = _next_offset(files, os.path.join(directory, name), base_offset(name))
            replaced.append((base_offset(name), end))
    if replaced:
        start, end = min(first for first, _ in replaced), max(behind for _, behind in replaced)
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
        for _, info in walk(file, 0, file.size):
            offset = info.last_offset + 1
    except LogDamage:
        pass  # whoever opens the segment finds it, and says so
    finally:
        file.close()
    return offset


def is_segment_file(name: str) -> bool:
    """Whether it belongs to a segment that is in use: 20 digits and one of the four suffixes."""
    stem, suffix = os.path.splitext(name)
    return suffix in SUFFIXES and len(stem) == 20 and stem.isascii() and stem.isdigit()


def base_offset(name: str) -> int:
    """The offset that a file's name begins with; -1 when it does not begin with one."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else -1


def replace_segments(
    files: Files, segments: Sequence[LogSegment], cleaned: LogSegment, old: Sequence[LogSegment]
) -> list[LogSegment]:
    """`segments` with `cleaned` in the place of `old`; the files say the same when this returns."""
    first = segments.index(old[0])
    behind = first + len(old)
    if list(segments[first:behind]) != list(old) or behind == len(segments):
        raise ValueError("the segments to be replaced must be neighbours, and not the newest")
    cleaned.seal()
    cleaned.sync()
    cleaned.rename(SWAP)
    files.sync_dir(cleaned.directory)
    for segment in old:
        segment.remove()
    cleaned.rename("")
    files.sync_dir(cleaned.directory)
    return [*segments[:first], cleaned, *segments[behind:]]
