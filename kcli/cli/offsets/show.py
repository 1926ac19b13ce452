"""`kcli offsets show`: what groups have committed, to the last detail, and where that is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.environment import Environment
from kcli.cli.group.selection import AllGroups, GroupNames, Match
from kcli.cli.options import Common

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.group.selection import Selected
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

COLUMNS = ["group", "topic", "partition", "offset", "leader_epoch", "where", "start", "end", "lag", "metadata"]


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    all_groups: AllGroups = False,
    match: Match = None,
) -> int:
    """The committed offsets of groups: a row for each partition.

    WHERE an offset is: in-log, at-end (nothing is left to read), before-start (the records there are deleted: members
    go where auto.offset.reset says), or beyond-end (of a log that was cut, or of a topic that was made anew). METADATA
    is the committer's note. Of share groups it shows their start offsets. Nothing is joined or changed by it.
    """
    from kcli.cli.group.look import look, without_collections
    from kcli.cli.group.outcome import status_of_survey
    from kcli.cli.group.selection import check_selection
    from kcli.cli.output.report import Report, show

    found = check_selection(group or (), match, every=all_groups)
    with without_collections():
        selected, surveys = look(common, group or (), found, None, time_lag=False)
        show(env, Report("offsets.show", COLUMNS, _items(selected, surveys)), common.output)
    if common.output in (None, "table"):
        _tell_empty(env, surveys)
    return status_of_survey(selected, surveys)


def _items(selected: Selected, surveys: Results[str, GroupSurvey]) -> list[Item]:
    from kcli.cli.group.items import failed_group, unheard_broker
    from kcli.cli.offsets.shown import committed_items
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
    return [*items, *(unheard_broker(node, error) for node, error in selected.unheard.items())]


def _tell_empty(env: Environment, surveys: Results[str, GroupSurvey]) -> None:
    for name, survey in surveys.values.items():
        if survey.error is None and not any(row.committed for row in survey.partitions):
            env.say(f"{name} ({survey.group.state}) has committed nothing")
