"""`kcli offsets undo`: restore committed offsets that a command changed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError
from kcli.text import format_count, format_duration, format_time, group_text

if TYPE_CHECKING:
    from kcli.admin.offsets.snapshots import Snapshot, SnapshotStore
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results

COLUMNS = ["id", "time", "kind", "groups", "partitions", "bootstrap", "cluster_id"]
_FEW = 3  # groups in a row of the list, and in the description of a snapshot


def run(
    env: Environment,
    common: Common,
    snapshot: Annotated[str | None, Argument(metavar="[ID]", help="Snapshot to restore.")] = None,
    last: Annotated[bool, Option("--last", help="Undo the last change on this cluster that was not an undo.")] = False,
    list_all: Annotated[bool, Option("--list", help="List the snapshots; sends no request.")] = False,
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
    from kcli.cli.offsets.run_plan import run_plan

    if bool(snapshot) + last + list_all != 1:
        raise ConfigError("give either the ID of a snapshot (see --list), or --last")
    if list_all and execute:
        raise ConfigError("--list cannot be combined with --execute; to undo a change give its ID or --last")
    store = SnapshotStore(default_folder(env.environ))
    if list_all:
        return _list(env, common, store)
    saved = store.load(snapshot) if snapshot else None
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        saved = saved or _last(client, store, deadline_ms)
        env.report(f"undoing {saved.id}: {description(saved, env.clock.wall_ms())}")
        plan = plan_undo(client, saved, deadline_ms)
        return run_plan(env, common, client, plan, deadline_ms, execute=execute)


def _last(client: ConsumerNetworkClient, store: SnapshotStore, deadline_ms: float) -> Snapshot:
    from kcli.admin.offsets.checks import check_cluster

    check_cluster(client, None, deadline_ms)  # requests the cluster id
    return store.last(client.metadata.cluster.cluster_id)


def description(snapshot: Snapshot, now_ms: float) -> str:
    """Return `the reset of billing (3 partitions), 2d04h ago`: the change that an undo takes back, and its age."""
    groups = snapshot.groups
    names = ", ".join(map(group_text, groups)) if len(groups) <= _FEW else f"{len(groups)} groups"
    size = format_count(len(snapshot.changes), "partition")
    age_ms = now_ms - snapshot.made_ms
    when = f"{format_duration(age_ms)} ago" if age_ms >= 0 else f"at {format_time(snapshot.made_ms)}"
    return f"the {snapshot.noun} of {names} ({size}), {when}"


def _list(env: Environment, common: Common, store: SnapshotStore) -> int:
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    snapshots = store.list()
    items = snapshot_items(snapshots)
    print_report(
        env, Report("offsets.undo.list", COLUMNS, items, [snapshot_row(item) for item in items]), common.output
    )
    return exit_status.FAILED if snapshots.errors else exit_status.DONE


def snapshot_items(snapshots: Results[str, Snapshot]) -> list[Item]:
    """Return an item for each snapshot, oldest first; a file that cannot be read is an item with an error."""
    from kcli.cli.output.report import error_field

    return [
        _item(snapshots.values[name])
        if name in snapshots.values
        else {"id": name, "error": error_field(snapshots.errors[name])}
        for name in sorted([*snapshots.values, *snapshots.errors])
    ]


def _item(snapshot: Snapshot) -> Item:
    from kcli.text import format_timestamp

    return {
        "id": snapshot.id,
        "time": format_timestamp(snapshot.made_ms),
        "made_ms": snapshot.made_ms,
        "kind": snapshot.kind,
        "groups": snapshot.groups,
        "partitions": len(snapshot.changes),
        "bootstrap": snapshot.bootstrap,
        "cluster_id": snapshot.cluster_id,
    }


def snapshot_row(item: Item) -> Item:
    """Return the row of a table, with the first groups of many."""
    groups = item.get("groups") or []
    return {**item, "groups": [*groups[:_FEW], *(["..."] if len(groups) > _FEW else [])]}
