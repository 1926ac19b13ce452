"""Restore what a command changed, from the snapshot that it saved; list the snapshots."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.snapshots import Snapshot, SnapshotStore
    from kcli.cli.output.report import Item

_FEW = 3  # groups in a row of the list, and in the description of a snapshot
# The fields of the names that a snapshot has, and of the number of its values, by resource; None: all resources.
_FIELDS = {None: ("names", "changes"), "offsets": ("groups", "partitions"), "settings": ("topics", "settings")}
_KINDS = {None: "undo.list", "offsets": "offsets.undo.list", "settings": "topic.undo.list"}


class UndoOptions(NamedTuple):
    """The choice of a snapshot, and what to do with it."""

    snapshot: Annotated[str | None, Argument(metavar="[ID]", help="Snapshot to restore.")] = None
    last: Annotated[
        bool, Option("--last", help="Undo the last change on this cluster that can be undone and was not an undo.")
    ] = False
    list_all: Annotated[bool, Option("--list", help="List the snapshots; sends no request.")] = False
    execute: Execute = False

    def check(self) -> None:
        if bool(self.snapshot) + self.last + self.list_all != 1:
            raise ConfigError("give either the ID of a snapshot (see --list), or --last")
        if self.list_all and self.execute:
            raise ConfigError("--list cannot be combined with --execute; to undo a change give its ID or --last")


def restore(env: Environment, common: Common, options: UndoOptions, resource: str | None) -> int:
    """Restore a snapshot of this resource, None: of any; or list them. Return the exit status."""
    from kcli.admin.offsets.checks import check_cluster
    from kcli.admin.offsets.undo import plan_undo
    from kcli.admin.snapshots import OFFSETS, SnapshotStore, kind_of_settings
    from kcli.admin.topic_changes.alterations import plan_setting_undo
    from kcli.cli.group.selection import without_collections
    from kcli.cli.offsets.offset_view import run_offset_plan
    from kcli.cli.topic.alter import run_alterations, view

    store, execute = SnapshotStore.default(env.environ), options.execute
    if options.list_all:
        return _print_list(env, common, store, resource)
    saved = store.load(options.snapshot, resource) if options.snapshot else None
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client, without_collections():
        if saved is None:
            check_cluster(client, None, deadline_ms)  # requests the cluster id
            saved = store.last(client.metadata.cluster.cluster_id, resource)
        env.report(f"undoing {saved.id}: {_description(saved, env.clock.wall_ms())}")
        if saved.resource == OFFSETS:
            plan = plan_undo(client, saved, deadline_ms)
            return run_offset_plan(env, common, client, plan, deadline_ms, execute=execute)
        settings = plan_setting_undo(client, saved, deadline_ms)
        by_owner = view("undo", "restored", kind_of_settings(saved.resource))
        return run_alterations(env, common, client, settings, by_owner, execute=execute)


def _description(snapshot: Snapshot, now_ms: float) -> str:
    """Return `the reset of billing (3 partitions), 2d04h ago`: the change that an undo takes back, and its age."""
    from kcli.text import format_count, format_duration, format_time, group_text

    names = snapshot.names
    if snapshot.resource != "offsets":
        return f"a change of {', '.join(names)} at {format_time(snapshot.made_ms)}"
    groups = ", ".join(map(group_text, names)) if len(names) <= _FEW else f"{len(names)} groups"
    size = format_count(len(snapshot.changes), "partition")
    age_ms = now_ms - snapshot.made_ms
    when = f"{format_duration(age_ms)} ago" if age_ms >= 0 else f"at {format_time(snapshot.made_ms)}"
    return f"the {snapshot.noun} of {groups} ({size}), {when}"


def _print_list(env: Environment, common: Common, store: SnapshotStore, resource: str | None) -> int:
    """Print all snapshots, oldest first; return FAILED if a file cannot be read: it is an item with an error."""
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report, error_field
    from kcli.text import format_timestamp

    fields, kind = _FIELDS[resource], ["kind"] if resource else ["resource", "kind"]
    snapshots = store.list(resource)
    items: list[Item] = [{"id": name, "error": error_field(error)} for name, error in snapshots.errors.items()]
    for saved in snapshots.values.values():
        item: Item = {"id": saved.id, "time": format_timestamp(saved.made_ms), "made_ms": saved.made_ms}
        item |= {name: getattr(saved, name) for name in kind}
        item |= dict(zip(fields, (saved.names, len(saved.changes)), strict=True))
        items.append({**item, "bootstrap": saved.bootstrap, "cluster_id": saved.cluster_id})
    items.sort(key=lambda item: str(item["id"]))
    rows = items if resource == "settings" else [_few_names(item, fields[0]) for item in items]
    columns = ["id", "time", *kind, *fields, "bootstrap", "cluster_id"]
    print_report(env, Report(_KINDS[resource], columns, items, rows), common.output)
    return exit_status.FAILED if snapshots.errors else exit_status.DONE


def _few_names(item: Item, field: str) -> Item:
    """Return the row of a table, with the first names of many."""
    names = item.get(field) or []
    return {**item, field: [*names[:_FEW], *(["..."] if len(names) > _FEW else [])]}
