"""A segment that a compaction wrote takes the place of others, in steps that `leftovers` can finish after a crash."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.broker.files import Files
from kcli.broker.log.leftovers import SWAP
from kcli.broker.log.segment import LogSegment


def clear(segment: LogSegment) -> LogSegment:
    """`segment` without what an earlier try may have left of its files."""
    segment.remove()
    return segment


def swap(
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
