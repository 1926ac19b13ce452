"""`kcli topic create`: new topics."""

from contextlib import closing
from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.property_sources import key_values
from kcli.error_codes import ErrorCode

COLUMNS = ["topic", "status", "partitions", "replication", "topic_id"]


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC...", help="Names of the new topics.")],
    partitions: Annotated[
        int | None,
        Option(
            "--partitions",
            "-p",
            metavar="N",
            min=1,
            max=2**31 - 1,
            help="Set the number of partitions of each topic [broker's default].",
        ),
    ] = None,
    replication: Annotated[
        int | None,
        Option(
            "--replication",
            "-r",
            metavar="N",
            min=1,
            max=2**15 - 1,
            help="Set the number of replicas of each partition [broker's default].",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, Option("--config", "-c", metavar="KEY=VALUE", help="Set a topic setting; repeatable.")
    ] = None,
    if_not_exists: Annotated[
        bool, Option("--if-not-exists", help="Do not fail for a topic that already exists.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Let the broker check the request, but create nothing.")] = False,
) -> int:
    """Create topics.

    Each topic is reported as created, exists (with --if-not-exists), or failed with its error. The failure of one topic
    does not prevent the others from being created. After a lost response the topic is looked up; if it does not exist,
    its row is unknown and the status is 5. A name that no topic can have is a failure (status 1) here, and a topic that
    does not exist (status 3) for all commands that look for it.
    """
    from kcli.admin.topics import NewTopic, create_topics
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report, error_field, failure_status
    from kcli.cli.run_plan import done_sentence, showing_outcome
    from kcli.text import kafka_uuid

    configs = key_values("-c", config or [])
    wanted = [NewTopic(name, partitions or -1, replication or -1, configs) for name in dict.fromkeys(topic)]
    with closing(common.connect()) as client:
        made = create_topics(client, wanted, common.deadline_ms(), dry_run=dry_run)
    existing = {
        name
        for name, error in made.errors.items()
        if if_not_exists and getattr(error, "code", None) == ErrorCode.TOPIC_ALREADY_EXISTS
    }

    def item(name: str) -> Item:
        if name in existing:
            return {"topic": name, "status": "exists"}
        if name in made.errors:
            error = made.errors[name]
            return {"topic": name, "status": failure_status(error), "error": error_field(error)}
        new = made.values[name]
        return {
            "topic": name,
            "status": "would-be-created" if dry_run else "created",
            "partitions": new.partitions if new.partitions >= 0 else None,
            "replication": new.replication if new.replication >= 0 else None,
            "topic_id": kafka_uuid(new.topic_id),
        }

    made_names = [] if dry_run else [new.name for new in wanted if new.name in made.values]
    with showing_outcome(env, done_sentence("created", made_names)):
        print_report(env, Report("topic.create", COLUMNS, [item(new.name) for new in wanted]), common.output)
    status = exit_status.status_of_all(error for name, error in made.errors.items() if name not in existing)
    return exit_status.FAILED if status == exit_status.NOT_FOUND else status  # an invalid name, not a missing topic
