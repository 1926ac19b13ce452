"""`kcli topic undo`: restore the settings of topics that a command changed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute, Mutation
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.topic_changes.setting_snapshots import SettingStore

COLUMNS = ["id", "time", "kind", "topics", "settings", "bootstrap", "cluster_id"]


def run(
    env: Environment,
    common: Common,
    snapshot: Annotated[str | None, Argument(metavar="[ID]", help="Snapshot to restore.")] = None,
    last: Annotated[bool, Option("--last", help="Undo the last change on this cluster that was not an undo.")] = False,
    list_all: Annotated[bool, Option("--list", help="List the snapshots; sends no request.")] = False,
    execute: Execute = False,
) -> int:
    """Restore the settings that topics had before an --execute of `kcli topic alter`.

    Without --execute the command only shows the plan. A setting that was not set on the topic is deleted again. A topic
    that was deleted or recreated since is left as it is, and WHY says so. Partitions cannot be removed. An undo saves a
    snapshot too, and can be undone by its id.
    """
    from kcli.admin.offsets.checks import check_cluster
    from kcli.admin.state_files import default_folder
    from kcli.admin.topic_changes.alterations import plan_setting_undo
    from kcli.admin.topic_changes.setting_snapshots import FOLDER, SettingStore
    from kcli.cli.topic.alter import COLUMNS as ROW_COLUMNS
    from kcli.cli.topic.alter import run_plan
    from kcli.text import format_time

    if bool(snapshot) + last + list_all != 1:
        raise ConfigError("give either the ID of a snapshot (see --list), or --last")
    if list_all and execute:
        raise ConfigError("--list cannot be combined with --execute; to undo a change give its ID or --last")
    store = SettingStore(default_folder(env.environ, FOLDER))
    if list_all:
        return _list(env, common, store)
    saved = store.load(snapshot) if snapshot else None
    with closing(common.connect()) as client:
        deadline_ms = common.deadline_ms()
        if saved is None:
            check_cluster(client, None, deadline_ms)  # requests the cluster id
            saved = store.last(client.metadata.cluster.cluster_id)
        env.report(f"undoing {saved.id}: a change of {', '.join(saved.topics)} at {format_time(saved.made_ms)}")
        plan = plan_setting_undo(client, saved, deadline_ms)
        mutation = Mutation("topic.undo", ROW_COLUMNS, done="restored")
        return run_plan(env, common, client, plan, mutation, execute=execute)


def _list(env: Environment, common: Common, store: SettingStore) -> int:
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report, error_field
    from kcli.text import format_timestamp

    snapshots = store.list()
    items: list[Item] = [
        {
            "id": snapshot.id,
            "time": format_timestamp(snapshot.made_ms),
            "made_ms": snapshot.made_ms,
            "kind": snapshot.kind,
            "topics": snapshot.topics,
            "settings": len(snapshot.changes),
            "bootstrap": snapshot.bootstrap,
            "cluster_id": snapshot.cluster_id,
        }
        for snapshot in snapshots.values.values()
    ]
    items += [{"id": name, "error": error_field(error)} for name, error in snapshots.errors.items()]
    items.sort(key=lambda item: str(item["id"]))
    print_report(env, Report("topic.undo.list", COLUMNS, items), common.output)
    return exit_status.FAILED if snapshots.errors else exit_status.DONE
