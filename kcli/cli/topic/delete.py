"""`kcli topic delete`: topics and all their records, after showing what would go."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.admin.deletion import PlannedDeletion
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError

COLUMNS = ["topic", "status", "partitions", "records", "topic_id"]


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC...", help="Topics to delete.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask. Needed when there is no terminal.")] = False,
    if_exists: Annotated[bool, Option("--if-exists", help="A topic that is not there is no error.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> int:
    """Delete topics with all their records.

    First it says on stderr what would go, and on a terminal asks. Where nobody can be asked it refuses, with status 4,
    unless told --yes. If any topic is not there nothing is deleted, and the status is 3; --if-exists skips such topics.
    """
    from kcli.admin.deletion import apply_deletion, plan_deletion

    with closing(common.connect()) as client:
        plan = plan_deletion(client, topic, common.deadline_ms())
        blocked = [p.error for p in plan if p.error and not (if_exists and _is_missing(p))]
        if dry_run or blocked:
            _show(env, common, plan, "not-deleted" if blocked else "would-be-deleted", if_exists=if_exists)
            return exit_status.status_of_all(blocked)
        _announce(env, plan)
        if not yes and not _agreed(env):
            return exit_status.REFUSED
        failed = apply_deletion(client, plan, common.deadline_ms())
    _show(env, common, plan, "deleted", failed, if_exists=if_exists)
    return exit_status.status_of_all(failed.values())


def _is_missing(planned: PlannedDeletion) -> bool:
    return planned.error is not None and exit_status.status_of(planned.error) == exit_status.NOT_FOUND


def _announce(env: Environment, plan: list[PlannedDeletion]) -> None:
    for p in plan:
        if p.error is not None:
            env.say(f"not there, skipped: {p.topic}")
        else:
            records = "unknown" if p.records is None else f"about {p.records}"
            env.say(f"to delete: {p.topic} ({p.partitions} partitions, records: {records})")


def _agreed(env: Environment) -> bool:
    if not env.stdin_is_terminal:
        env.say("kcli: nothing was deleted: there is no terminal to ask on, so it takes --yes")
        return False
    if env.confirm("Delete for good?"):
        return True
    env.say("kcli: nothing was deleted")
    return False


def _show(
    env: Environment,
    common: Common,
    plan: list[PlannedDeletion],
    status: str,
    failed: Mapping[str, KcliError] | None = None,
    *,
    if_exists: bool,
) -> None:
    from kcli.cli.output.report import Report, error_field, show
    from kcli.text import kafka_uuid

    items = []
    for p in plan:
        item: Item = {
            "topic": p.topic,
            "status": status,
            "partitions": p.partitions,
            "records": p.records,
            "topic_id": kafka_uuid(p.topic_id),
        }
        error = p.error or (failed or {}).get(p.topic)
        if if_exists and _is_missing(p):
            item["status"] = "missing"
        elif error is not None:
            item.update(status="failed", error=error_field(error))
        items.append(item)
    show(env, Report("topic.delete", COLUMNS, items), common.output)
