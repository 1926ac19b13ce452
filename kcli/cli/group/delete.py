"""`kcli group delete`: delete groups without members, with their committed offsets."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import ChosenGroups, find_selected
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.run_plan import Execute, View, run_plan, skip_missing, undo_command

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.admin.plan import Row
    from kcli.cli.output.report import Item

COLUMNS = ["group", "status", "type", "state", "members", "partitions", "lag"]


def run(
    env: Environment,
    common: Common,
    groups: ChosenGroups,
    if_exists: Annotated[bool, Option("--if-exists", help="Skip groups that do not exist.")] = False,
    execute: Execute = False,
) -> int:
    """Delete groups and their committed offsets.

    Without --execute the command only shows the plan; as json it has the offsets. A group with members is refused
    (status 4), and a group that does not exist is an error (status 3); then nothing is deleted. --if-exists skips
    groups that do not exist. After a lost response the group is looked up again; if it still exists, its row is unknown
    and the status is 5.

    --execute saves the committed offsets first; `kcli offsets undo` restores them. The start offsets of share groups
    are not saved.
    """
    from kcli.admin.groups.removal import plan_group_deletion
    from kcli.admin.offsets.apply import apply_group_deletion
    from kcli.admin.snapshots import SnapshotStore

    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        selected = find_selected(client, groups, deadline_ms)
        for node, error in selected.failed_brokers.items():
            env.report(f"kcli: the groups of {node} are unknown: {error}")
        plan = plan_group_deletion(client, selected.groups, deadline_ms)
        plan = replace(plan, errors=tuple(selected.failed_brokers.values()))
        if if_exists:
            plan = skip_missing(plan)

        names = [row.key for row in plan.changes]
        return run_plan(
            env,
            common,
            plan,
            View("group.delete", COLUMNS, "deleted", item, undo=restore_line),
            lambda seen: apply_group_deletion(client, names, SnapshotStore.default(env.environ, seen), deadline_ms),
            execute=execute,
        )


def restore_line(snapshot_id: str) -> str:
    """Return the line with the command that restores the offsets of a deletion."""
    return f"to restore the deleted offsets: {undo_command(snapshot_id)}"


def item(row: Row[GroupSurvey], status: str) -> Item:
    """Return the row of a group; `offsets` are its committed offsets, from which the group can be restored."""
    from kcli.admin.groups.lag import total_lag

    result: Item = {"group": row.key, "status": status}
    if row.old is not None:
        group, partitions = row.old.group, row.old.partitions
        committed = [(known.tp, known.committed) for known in partitions if known.committed is not None]
        result.update(type=group.type, state=group.state, members=len(group.members), partitions=len(committed))
        result["lag"] = total_lag(partitions).known_lag if partitions else None
        result["offsets"] = [
            {"topic": tp.topic, "partition": tp.partition, "offset": at.offset} for tp, at in committed
        ]
    return result
