"""`kcli topic list`: the topics of the cluster."""

from contextlib import closing
from typing import Annotated

import typer

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common

COLUMNS = ["topic", "partitions", "replication", "internal", "topic_id"]


def run(
    env: Environment,
    common: Common,
    long: Annotated[bool, typer.Option("--long", "-l", help="Partitions, replication and id too.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics too.")] = False,
) -> int:
    """Names of the topics, sorted, one per line.

    As a table, and without --long, that is the bare names without a heading.
    """
    from kcli.admin.topics import list_topics

    with closing(common.connect()) as client:
        topics = [topic for topic in list_topics(client, common.deadline_ms()) if internal or not topic.internal]
    if not long and common.output in (None, "table"):
        names = [topic.name for topic in topics]
        if env.stdout_is_terminal:
            from kcli.cli.records.escapes import visible

            names = list(map(visible, names))
        env.stdout.write("".join(f"{name}\n" for name in names))
        return exit_status.DONE

    from kcli.cli.names import kafka_uuid
    from kcli.cli.render.report import Report
    from kcli.cli.render.show import show

    items = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication": max((len(p.replicas) for p in topic.partitions.values()), default=0),
            "internal": topic.internal,
            "topic_id": kafka_uuid(topic.topic_id),
        }
        for topic in topics
    ]
    show(env, Report("topic.list", COLUMNS, items), common.output)
    return exit_status.DONE
