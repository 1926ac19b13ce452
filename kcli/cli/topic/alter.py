"""`kcli topic alter`: more partitions, and changed settings, for existing topics."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.property_sources import key_values
from kcli.cli.run_plan import Execute, View, run_plan, undo_command
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.plan import Plan
    from kcli.admin.topic_changes.alterations import Alteration
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.structs import ResourceKind


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

    With --execute the old settings are saved under $XDG_STATE_HOME/kcli/snapshots, by default
    ~/.local/state/kcli/snapshots, and a line on stderr has the command that restores them: `kcli topic undo`. If a
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
        return run_alterations(env, common, client, plan, view("alter", "altered"), execute=execute)


def run_alterations(
    env: Environment,
    common: Common,
    client: ConsumerNetworkClient,
    plan: Plan[Alteration],
    view: View,
    *,
    execute: bool,
) -> int:
    """Show the plan, or apply it; return the exit status."""
    from kcli.admin.snapshots import SnapshotStore
    from kcli.admin.topic_changes.alterations import apply_alterations

    return run_plan(
        env,
        common,
        plan,
        view,
        lambda seen: apply_alterations(client, plan, SnapshotStore.default(env.environ, seen), common.deadline_ms()),
        execute=execute,
    )


def item(row: Alteration, status: str) -> Item:
    """Return the row of a setting or of the number of partitions."""
    return {
        row.kind: row.owner,
        "status": status,
        "name": row.name or None,
        "old": row.old,
        "new": row.new,
        "why": row.why or None,
    }


def view(command: str, done: str, kind: ResourceKind = "topic") -> View:
    """Return the view of plans that alter topics, or other owners of settings."""

    def undo(snapshot_id: str) -> str:
        return f"to restore the settings: {undo_command(snapshot_id, 'topic' if kind == 'topic' else '')}"

    return View(f"{kind}.{command}", [kind, "status", "name", "old", "new", "why"], done, item, undo=undo)
