"""`kcli group delete`: groups without members, with all that they have committed, after showing what would go."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import Execute, GroupNames, Match
from kcli.cli.options import Common
from kcli.cli.parser import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.cli.group.removal import PlannedGroup
    from kcli.errors import KcliError

COLUMNS = ["group", "status", "type", "state", "members", "partitions", "lag"]


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    match: Match = None,
    if_exists: Annotated[bool, Option("--if-exists", help="A group that is not there is no error.")] = False,
    execute: Execute = False,
) -> int:
    """Delete groups and the offsets that they have committed.

    Without --execute it only shows what would go; json has the offsets, to commit them again. A group with members is
    refused with status 4, one that is not there is 3; then nothing is deleted. --if-exists skips those not there.
    """
    from kcli.admin.groups.deletion import delete_groups
    from kcli.admin.groups.survey import survey_groups
    from kcli.cli.group.removal import plan_group
    from kcli.cli.group.selection import check_selection, select_groups

    found = check_selection(group or (), match)
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        selected = select_groups(client, group or (), found, deadline_ms)
        surveys = survey_groups(client, selected.groups, deadline_ms)
        plan = [plan_group(name, surveys.values.get(name) or surveys.errors[name]) for name in selected.groups]
        skipped = {p.group for p in plan if if_exists and _is_missing(p)}
        blocked = [p.error for p in plan if p.error and p.group not in skipped] + list(selected.unheard.values())
        wanted = [p.group for p in plan if p.error is None]
        if blocked or not execute:
            _show(env, common, plan, "not-deleted" if blocked else "would-be-deleted", skipped)
            for node, error in selected.unheard.items():
                env.say(f"kcli: groups of {node} are not known: {error}")
            env.say("nothing was deleted" if blocked else "nothing was deleted: that takes --execute")
            return exit_status.status_of_all(blocked)
        failed = delete_groups(client, wanted, deadline_ms).errors if wanted else {}
    _show(env, common, plan, "deleted", skipped, failed)
    return exit_status.status_of_all(failed.values())


def _is_missing(planned: PlannedGroup) -> bool:
    return planned.error is not None and exit_status.status_of(planned.error) == exit_status.NOT_FOUND


def _show(
    env: Environment,
    common: Common,
    plan: list[PlannedGroup],
    status: str,
    skipped: set[str],
    failed: Mapping[str, KcliError] | None = None,
) -> None:
    from kcli.cli.group.removal import with_error
    from kcli.cli.output.report import Report, show

    items = []
    for planned in plan:
        error = planned.error or (failed or {}).get(planned.group)
        if planned.group in skipped:
            items.append(planned.item("missing"))
        else:
            items.append(with_error(planned.item("failed" if error else status), error))
    show(env, Report("group.delete", COLUMNS, items), common.output)
