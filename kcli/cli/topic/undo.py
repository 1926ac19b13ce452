"""`kcli topic undo`: restore the settings of topics that a command changed."""

from __future__ import annotations

from contextlib import closing

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.run_plan import Execute
from kcli.cli.snapshots import Last, ListAll, SnapshotId, check_choice, last_snapshot, print_snapshots


def run(
    env: Environment,
    common: Common,
    snapshot: SnapshotId = None,
    last: Last = False,
    list_all: ListAll = False,
    execute: Execute = False,
) -> int:
    """Restore the settings that topics had before an --execute of `kcli topic alter`.

    Without --execute the command only shows the plan. A setting that was not set on the topic is deleted again. A topic
    that was deleted or recreated since is left as it is, and WHY says so. Partitions cannot be removed. An undo saves a
    snapshot too, and can be undone by its id.
    """
    from kcli.admin.state_files import default_folder
    from kcli.admin.topic_changes.alterations import plan_setting_undo
    from kcli.admin.topic_changes.setting_snapshots import FOLDER, SettingStore
    from kcli.cli.topic.alter import run_alterations, view
    from kcli.text import format_time

    check_choice(snapshot, last=last, list_all=list_all, execute=execute)
    store = SettingStore(default_folder(env.environ, FOLDER))
    if list_all:
        return print_snapshots(
            env,
            common,
            "topic.undo.list",
            store,
            ("topics", "settings"),
            lambda snapshot: (snapshot.topics, len(snapshot.changes)),
        )
    saved = store.load(snapshot) if snapshot else None
    with closing(common.connect()) as client:
        deadline_ms = common.deadline_ms()
        saved = saved or last_snapshot(client, store, deadline_ms)
        env.report(f"undoing {saved.id}: a change of {', '.join(saved.topics)} at {format_time(saved.made_ms)}")
        plan = plan_setting_undo(client, saved, deadline_ms)
        return run_alterations(env, common, client, plan, view("topic.undo", "restored"), execute=execute)
