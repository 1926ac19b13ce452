"""`kcli offsets show`: show committed offsets and their positions in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.cli.environment import Environment
from kcli.cli.group.selection import (
    GroupSelection,
    LagOptions,
    Wide,
    status_of_survey,
    survey_selected,
    without_collections,
)
from kcli.cli.options import Common
from kcli.text import group_text

if TYPE_CHECKING:
    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

COLUMNS = ["group", "topic", "partition", "offset", "leader_epoch", "where", "start", "end", "lag", "metadata"]
OPTIONAL = ["where", "end", "start", "leader_epoch", "metadata"]  # the most important first


def run(
    env: Environment,
    common: Common,
    groups: GroupSelection,
    wide: Wide = False,
) -> int:
    """Show the committed offsets of groups: a row for each partition.

    WHERE is the position in the log: in-log, at-end (no unread records), before-start (the records there are deleted;
    members continue as auto.offset.reset says), or beyond-end (the log was truncated, or the topic was recreated).
    METADATA is the text stored with the commit. Share groups have start offsets. The command changes nothing.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    with without_collections():
        selected, surveys = survey_selected(common, groups, LagOptions(no_time_lag=True))
        optional = () if wide else OPTIONAL
        print_report(env, Report("offsets.show", COLUMNS, _items(selected, surveys), optional=optional), common.output)
    if common.output in (None, "table"):
        for name, survey in surveys.values.items():
            if survey.error is None and not any(row.committed for row in survey.partitions):
                env.report(f"{group_text(name)} ({survey.group.state}) has no committed offsets")
    return status_of_survey(selected, surveys)


def _items(selected: SelectedGroups, surveys: Results[str, GroupSurvey]) -> list[Item]:
    from kcli.cli.group.rows import failed_broker, failed_group
    from kcli.cli.output.report import error_field

    items: list[Item] = []
    for name in selected.groups:
        if name in surveys.errors:
            items.append(failed_group(name, surveys.errors[name]))
            continue
        survey = surveys.values[name]
        items += committed_items(survey)
        if survey.error is not None:
            items.append({"group": name, "error": error_field(survey.error)})
    return [*items, *(failed_broker(node, error) for node, error in selected.failed_brokers.items())]


def committed_items(survey: GroupSurvey) -> Iterator[Item]:
    """Return an item for each committed offset, and for each partition whose offset could not be read."""
    from kcli.cli.output.report import error_field

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
    """Return the position of an offset in the log; None if the bounds are unknown."""
    if start is None or end is None:
        return None
    if offset < start:
        return "before-start"
    if offset == end:
        return "at-end"
    return "beyond-end" if offset > end else "in-log"
