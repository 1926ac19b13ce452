"""Committed offsets as items of a report, each with where it is in its log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.cli.output.report import error_field

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item


def committed_items(survey: GroupSurvey) -> Iterator[Item]:
    """A group's commits, and the partitions of which they could not be read; without what is only owned."""
    for row in survey.partitions:
        at = row.committed
        if at is None and row.error is None:
            continue
        item: Item = {
            "group": survey.group.group,
            "topic": row.tp.topic,
            "partition": row.tp.partition,
            "offset": None if at is None else at.offset,
            "leader_epoch": None if at is None or at.leader_epoch < 0 else at.leader_epoch,
            "where": None if at is None else where(at.offset, row.start, row.end),
            "start": row.start,
            "end": row.end,
            "lag": row.lag,
            "metadata": None if at is None else at.metadata,
        }
        yield item if row.error is None else {**item, "error": error_field(row.error)}


def where(offset: int, start: int | None, end: int | None) -> str | None:
    """An offset's place in the log, in one word; None where that is not known."""
    if start is None or end is None:
        return None
    if offset < start:
        return "before-start"
    if offset == end:
        return "at-end"
    return "beyond-end" if offset > end else "in-log"
