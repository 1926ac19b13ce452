"""`kcli offsets undo`: bring back what groups had committed before an --execute."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import Execute
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.offsets.snapshots import Snapshot, SnapshotStore
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def run(
    env: Environment,
    common: Common,
    snapshot: Annotated[str | None, Argument(metavar="[ID]", help="What to undo, by its id.")] = None,
    last: Annotated[bool, Option("--last", help="The last change on this cluster that was no undo.")] = False,
    list_all: Annotated[bool, Option("--list", help="Show what can be undone; asks no broker.")] = False,
    execute: Execute = False,
) -> int:
    """Bring back the offsets, leader epochs and notes that groups had committed before an --execute.

    Without --execute it only shows what would be done. What was not committed before is deleted again; a partition
    whose topic is gone, or was made anew, is left out, and WHY says so. The same is refused as for `kcli offsets
    reset`, and the statuses are the same. Also a change that was interrupted is undone.

    Every --execute of an offsets command saves what it is about to change under $XDG_STATE_HOME/kcli/snapshots, by
    default ~/.local/state/kcli/snapshots, and so does an undo: it is undone by its id.
    """
    from kcli.admin.offsets.snapshots import SnapshotStore, default_folder
    from kcli.admin.offsets.undo import plan_undo
    from kcli.cli.group.look import without_collections
    from kcli.cli.offsets.carry_out import carry_out

    if bool(snapshot) + last + list_all != 1:
        raise ConfigError("say what to undo: an ID that --list shows, or --last")
    if list_all and execute:
        raise ConfigError("--list shows what can be undone; to undo it give --last or an ID")
    store = SnapshotStore(default_folder(env.environ))
    if list_all:
        return _list(env, common, store)
    kept = store.load(snapshot) if snapshot else None
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        kept = kept or _last(client, store, deadline_ms)
        env.say(f"undoing {kept.id}, the {kept.kind} of {_shown_groups(kept)}")
        plan = plan_undo(client, kept, deadline_ms)
        return carry_out(env, common, client, plan, deadline_ms, execute=execute)


def _last(client: ConsumerNetworkClient, store: SnapshotStore, deadline_ms: float) -> Snapshot:
    from kcli.admin.offsets.inspection import check_cluster

    check_cluster(client, None, deadline_ms)  # asks which cluster this is
    return store.last(client.metadata.cluster.cluster_id)


def _shown_groups(snapshot: Snapshot) -> str:
    names = snapshot.groups
    return names[0] if len(names) == 1 else f"{len(names)} groups"


def _list(env: Environment, common: Common, store: SnapshotStore) -> int:
    from kcli.cli.offsets.snapshot_rows import COLUMNS, snapshot_items, snapshot_row
    from kcli.cli.output.report import Report, show

    found = store.list()
    items = snapshot_items(found)
    show(env, Report("offsets.undo.list", COLUMNS, items, [snapshot_row(item) for item in items]), common.output)
    return exit_status.FAILED if found.errors else exit_status.DONE
