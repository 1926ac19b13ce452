"""`kcli offsets undo`: restore committed offsets that a command changed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.run_plan import Execute
from kcli.cli.snapshots import Last, ListAll, SnapshotId, check_choice, last_snapshot, print_snapshots
from kcli.text import format_count, format_duration, format_time, group_text

if TYPE_CHECKING:
    from kcli.admin.offsets.snapshots import Snapshot
    from kcli.cli.output.report import Item

_FEW = 3  # groups in a row of the list, and in the description of a snapshot


def run(
    env: Environment,
    common: Common,
    snapshot: SnapshotId = None,
    last: Last = False,
    list_all: ListAll = False,
    execute: Execute = False,
) -> int:
    """Restore the offsets, leader epochs and metadata that groups had committed before an --execute.

    Without --execute the command only shows the plan. An offset that was not committed before is deleted again; a
    partition whose topic was deleted or recreated is skipped, and WHY says so. Refusals and statuses are those of `kcli
    offsets reset`. A change that was interrupted can be undone too.

    Every --execute of an offsets command, and of `kcli group delete`, saves the offsets that it changes under
    $XDG_STATE_HOME/kcli/snapshots, by default ~/.local/state/kcli/snapshots. An undo does so too, and can be undone by
    its id. A line on stderr names the change that is undone, its groups and its age: --last is the last change that was
    made on this machine.
    """
    from kcli.admin.offsets.snapshots import SnapshotStore
    from kcli.admin.offsets.undo import plan_undo
    from kcli.admin.state_files import default_folder
    from kcli.cli.group.selection import without_collections
    from kcli.cli.offsets.offset_view import run_offset_plan

    check_choice(snapshot, last=last, list_all=list_all, execute=execute)
    store = SnapshotStore(default_folder(env.environ))
    if list_all:
        return print_snapshots(
            env,
            common,
            "offsets.undo.list",
            store,
            ("groups", "partitions"),
            lambda snapshot: (snapshot.groups, len(snapshot.changes)),
            table_row=_few_groups,
        )
    saved = store.load(snapshot) if snapshot else None
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        saved = saved or last_snapshot(client, store, deadline_ms)
        env.report(f"undoing {saved.id}: {description(saved, env.clock.wall_ms())}")
        plan = plan_undo(client, saved, deadline_ms)
        return run_offset_plan(env, common, client, plan, deadline_ms, execute=execute)


def description(snapshot: Snapshot, now_ms: float) -> str:
    """Return `the reset of billing (3 partitions), 2d04h ago`: the change that an undo takes back, and its age."""
    groups = snapshot.groups
    names = ", ".join(map(group_text, groups)) if len(groups) <= _FEW else f"{len(groups)} groups"
    size = format_count(len(snapshot.changes), "partition")
    age_ms = now_ms - snapshot.made_ms
    when = f"{format_duration(age_ms)} ago" if age_ms >= 0 else f"at {format_time(snapshot.made_ms)}"
    return f"the {snapshot.noun} of {names} ({size}), {when}"


def _few_groups(item: Item) -> Item:
    """Return the row of a table, with the first groups of many."""
    groups = item.get("groups") or []
    return {**item, "groups": [*groups[:_FEW], *(["..."] if len(groups) > _FEW else [])]}
