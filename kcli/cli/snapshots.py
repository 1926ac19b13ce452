"""The snapshots of `kcli offsets undo` and `kcli topic undo`: their arguments, the choice of one, and the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.admin.state_files import Saved, StateFiles
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient

S = TypeVar("S", bound="Saved")

SnapshotId = Annotated[str | None, Argument(metavar="[ID]", help="Snapshot to restore.")]
Last = Annotated[bool, Option("--last", help="Undo the last change on this cluster that was not an undo.")]
ListAll = Annotated[bool, Option("--list", help="List the snapshots; sends no request.")]


def check_choice(snapshot_id: str | None, *, last: bool, list_all: bool, execute: bool) -> None:
    """ConfigError unless exactly one of an id, --last and --list is given, and --list without --execute."""
    if bool(snapshot_id) + last + list_all != 1:
        raise ConfigError("give either the ID of a snapshot (see --list), or --last")
    if list_all and execute:
        raise ConfigError("--list cannot be combined with --execute; to undo a change give its ID or --last")


def last_snapshot(client: ConsumerNetworkClient, store: StateFiles[S], deadline_ms: float) -> S:
    """Return the newest snapshot of the cluster of the client that is not of an undo. NotFound if there is none."""
    from kcli.admin.offsets.checks import check_cluster

    check_cluster(client, None, deadline_ms)  # requests the cluster id
    return store.last(client.metadata.cluster.cluster_id)


def print_snapshots(
    env: Environment,
    common: Common,
    kind: str,
    store: StateFiles[S],
    changed: tuple[str, str],
    values: Callable[[S], tuple[list[str], int]],
    *,
    table_row: Callable[[Item], Item] | None = None,
) -> int:
    """Print the report `kind` of all snapshots, oldest first; return FAILED if a file cannot be read, else DONE.

    `changed` are the two fields of what a snapshot changed, such as groups and partitions: `values` returns the names
    and the number of a snapshot. A file that cannot be read is an item with an error.
    """
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report, error_field
    from kcli.text import format_timestamp

    snapshots = store.list()
    items: list[Item] = [{"id": name, "error": error_field(error)} for name, error in snapshots.errors.items()]
    for snapshot in snapshots.values.values():
        item = {"id": snapshot.id, "time": format_timestamp(snapshot.made_ms), "made_ms": snapshot.made_ms}
        item |= {"kind": snapshot.kind, **dict(zip(changed, values(snapshot), strict=True))}
        items.append({**item, "bootstrap": snapshot.bootstrap, "cluster_id": snapshot.cluster_id})
    items.sort(key=lambda item: str(item["id"]))
    columns = ["id", "time", "kind", *changed, "bootstrap", "cluster_id"]
    rows = None if table_row is None else [table_row(item) for item in items]
    print_report(env, Report(kind, columns, items, rows), common.output)
    return exit_status.FAILED if snapshots.errors else exit_status.DONE
