"""`kcli topic delete`: delete topics with all their records."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.mutation import Execute, Mutation, PlanRow
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option

if TYPE_CHECKING:
    from kcli.admin.topics import PlannedTopic
    from kcli.cli.output.report import Item

DELETION = Mutation("topic.delete", ["topic", "status", "partitions", "records", "topic_id"], done="deleted")


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
        return DELETION.run(
            env,
            common,
            [PlanRow(p.topic, lambda status, p=p: item(p, status), p.error) for p in plan],  # type: ignore[misc]
            lambda _names: apply_topic_deletion(client, plan, common.deadline_ms()),
            execute=(execute or yes) and not dry_run,
            skip_missing=if_exists,
        )


def item(planned: PlannedTopic, status: str) -> Item:
    """Return the row of a topic."""
    from kcli.text import kafka_uuid

    return {
        "topic": planned.topic,
        "status": status,
        "partitions": planned.partitions,
        "records": planned.records,
        "topic_id": kafka_uuid(planned.topic_id),
    }
