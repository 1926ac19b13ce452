"""`kcli group delete`: delete groups without members, with their committed offsets."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import ChosenGroups, find_selected
from kcli.cli.mutation import Execute, Mutation, PlanRow
from kcli.cli.options import Common
from kcli.cli.parser import Option

if TYPE_CHECKING:
    from kcli.admin.groups.removal import PlannedGroup
    from kcli.cli.output.report import Item

DELETION = Mutation(
    "group.delete", ["group", "status", "type", "state", "members", "partitions", "lag"], done="deleted"
)


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
    from kcli.admin.offsets.snapshots import SnapshotStore
    from kcli.admin.state_files import default_folder
    from kcli.cli.mutation import with_undo_hint

    deadline_ms = common.deadline_ms()
    store = SnapshotStore(default_folder(env.environ))
    with closing(common.connect()) as client:
        selected = find_selected(client, groups, deadline_ms)
        for node, error in selected.failed_brokers.items():
            env.report(f"kcli: the groups of {node} are unknown: {error}")
        plan = plan_group_deletion(client, selected.groups, deadline_ms)
        with with_undo_hint(env, store) as on_snapshot:
            return DELETION.run(
                env,
                common,
                [PlanRow(p.group, lambda status, p=p: item(p, status), p.error) for p in plan],  # type: ignore[misc]
                lambda names: apply_group_deletion(client, names, store, deadline_ms, on_snapshot=on_snapshot).errors,
                execute=execute,
                skip_missing=if_exists,
                other_errors=selected.failed_brokers.values(),
            )


def item(planned: PlannedGroup, status: str) -> Item:
    """Return the row of a group; `offsets` are its committed offsets, from which the group can be restored."""
    from kcli.admin.groups.lag import total_lag

    result: Item = {"group": planned.group, "status": status}
    if planned.survey is not None:
        group, rows = planned.survey.group, planned.survey.partitions
        committed = [(row.tp, row.committed) for row in rows if row.committed is not None]
        result.update(type=group.type, state=group.state, members=len(group.members), partitions=len(committed))
        result["lag"] = total_lag(rows).known_lag if rows else None
        result["offsets"] = [
            {"topic": tp.topic, "partition": tp.partition, "offset": at.offset} for tp, at in committed
        ]
    return result
