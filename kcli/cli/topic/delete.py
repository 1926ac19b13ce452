"""`kcli topic delete`: delete topics with all their records."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.run_plan import Execute, View, run_plan, skip_missing

if TYPE_CHECKING:
    from kcli.admin.plan import Row
    from kcli.admin.topics import TopicSize
    from kcli.cli.output.report import Item

COLUMNS = ["topic", "status", "partitions", "records", "topic_id"]


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC...", help="Topics to delete.")],
    if_exists: Annotated[bool, Option("--if-exists", help="Skip topics that do not exist.")] = False,
    internal: Annotated[
        bool, Option("--internal", help="Delete also internal topics, such as __consumer_offsets.")
    ] = False,
    execute: Execute = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Same as --execute.", hidden=True)] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show the plan.", hidden=True)] = False,
) -> int:
    """Delete topics with all their records.

    Without --execute the command only shows the plan: the partitions of each topic, and about how many records they
    hold. If a topic does not exist, nothing is deleted, and the status is 3; --if-exists skips such topics. Internal
    topics are refused (status 4) without --internal: with __consumer_offsets all groups lose their committed offsets.
    After a lost response the topic is looked up again; if it still exists, its row is unknown and the status is 5.
    """
    from kcli.admin.topics import apply_topic_deletion, plan_topic_deletion

    with closing(common.connect()) as client:
        plan = plan_topic_deletion(client, topic, common.deadline_ms(), internal=internal)
        if if_exists:
            plan = skip_missing(plan)
        return run_plan(
            env,
            common,
            plan,
            View("topic.delete", COLUMNS, "deleted", item),
            lambda _: plan.outcome(apply_topic_deletion(client, plan, common.deadline_ms())),
            execute=(execute or yes) and not dry_run,
        )


def item(row: Row[TopicSize], status: str) -> Item:
    """Return the row of a topic."""
    from kcli.admin.topics import TopicSize
    from kcli.text import kafka_uuid

    size = row.old or TopicSize(None, None, None)
    return {
        "topic": row.key,
        "status": status,
        "partitions": size.partitions,
        "records": size.records,
        "topic_id": kafka_uuid(size.topic_id),
    }
