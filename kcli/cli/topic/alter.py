"""`kcli topic alter`: more partitions, and changed settings, for existing topics."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute, Mutation, PlanRow
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.property_sources import key_values
from kcli.errors import ConfigError, KcliError, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.admin.topic_changes.alterations import Alteration, AlterationPlan
    from kcli.admin.topic_changes.setting_snapshots import SettingSnapshot
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient

COLUMNS = ["topic", "status", "name", "old", "new", "why"]
ALTERATION = Mutation("topic.alter", COLUMNS, done="altered")


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC...", help="Topics to alter.")],
    partitions: Annotated[
        int | None,
        Option("--partitions", "-p", metavar="N", min=1, max=2**31 - 1, help="Increase each topic to N partitions."),
    ] = None,
    config: Annotated[
        list[str] | None, Option("--config", "-c", metavar="KEY=VALUE", help="Set a topic setting; repeatable.")
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        Option(
            "--delete-config", metavar="KEY", help="Delete a setting of the topic, so that it is inherited; repeatable."
        ),
    ] = None,
    internal: Annotated[
        bool, Option("--internal", help="Add partitions also to internal topics, such as __consumer_offsets.")
    ] = False,
    execute: Execute = False,
) -> int:
    """Add partitions to topics, and set or delete their settings.

    Without --execute the command only shows the plan: the old and the new values. The brokers have checked it: what
    they would refuse is a row with an error, and nothing is altered. Partitions cannot be removed again, and after an
    increase, records with a key may go to another partition than before.

    With --execute the old settings are saved under $XDG_STATE_HOME/kcli/topic-settings, by default
    ~/.local/state/kcli/topic-settings, and a line on stderr has the command that restores them: `kcli topic undo`. If a
    topic has changed since the plan was made, nothing is altered (status 4).
    """
    from kcli.admin.topic_changes.alterations import Wanted, plan_alterations

    settings = key_values("-c", config or [])
    deleted = [name.strip() for name in delete_config or ()]
    if partitions is None and not settings and not deleted:
        raise ConfigError("give --partitions, --config or --delete-config")
    for name in deleted:
        if name in settings or not name or "=" in name:
            why = "--config sets it" if name in settings else "use the name of a setting, such as retention.ms"
            raise ConfigError(f"--delete-config: '{name}' is not valid; {why}")
    wanted = Wanted(partitions, settings, deleted)
    with closing(common.connect()) as client:
        plan = plan_alterations(client, dict.fromkeys(topic, wanted), common.deadline_ms(), internal=internal)
        return run_plan(env, common, client, plan, ALTERATION, execute=execute)


def run_plan(
    env: Environment,
    common: Common,
    client: ConsumerNetworkClient,
    plan: AlterationPlan,
    mutation: Mutation,
    *,
    execute: bool,
) -> int:
    """Show the plan, or apply it and report the command that restores the settings; return the exit status."""
    from kcli.admin.state_files import SnapshotError, default_folder
    from kcli.admin.topic_changes.alterations import apply_alterations
    from kcli.admin.topic_changes.setting_snapshots import FOLDER, SettingStore

    def apply(_names: list[str]) -> Mapping[str, KcliError]:
        if not plan.changes:
            return {}
        store = SettingStore(default_folder(env.environ, FOLDER))
        snapshots: list[SettingSnapshot] = []
        try:
            failed = apply_alterations(client, plan, store, common.deadline_ms(), on_snapshot=snapshots.append)
        except SnapshotError as error:
            raise Refused(f"{error.message}; nothing was altered") from error
        finally:
            for snapshot in snapshots:
                if store.path(snapshot.id).exists():
                    env.report(f"to restore the settings: kcli topic undo {snapshot.id} --execute")
        return {" ".join(key): error for key, error in failed.items()}

    rows = [PlanRow(" ".join(row.key), lambda status, row=row: item(row, status), row.error) for row in plan.rows]  # type: ignore[misc]
    return mutation.run(env, common, rows, apply, execute=execute)


def item(row: Alteration, status: str) -> Item:
    """Return the row of a setting or of the number of partitions."""
    unchanged = row.action == "keep" and row.error is None
    return {
        "topic": row.topic,
        "status": "unchanged" if unchanged else status,
        "name": row.name or None,
        "old": row.old,
        "new": row.new,
        "why": row.why or None,
    }
