"""`kcli topic list`: the topics of the cluster."""

from contextlib import closing
from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option

COLUMNS = ["topic", "partitions", "replication", "internal", "topic_id"]


def run(
    env: Environment,
    common: Common,
    long: Annotated[bool, Option("--long", "-l", help="Show partitions, replication and id too.")] = False,
    internal: Annotated[bool, Option("--internal", help="Include internal topics.")] = False,
) -> int:
    """List the names of the topics, sorted, one per line.

    Without --long and without another output format, only the names are printed, without a heading.
    """
    from kcli.admin.topics import list_topics
    from kcli.cli.output.printer import print_names, print_report
    from kcli.denials import not_listed

    with closing(common.connect()) as client:
        topics = [topic for topic in list_topics(client, common.deadline_ms()) if internal or not topic.internal]
        if (not topics or common.verbose) and (note := not_listed("topics", client.principal)) is not None:
            env.report(f"kcli: note: {note}")
    if not long and common.output in (None, "table"):
        return print_names(env, [{"topic": topic.name} for topic in topics], "topic")

    from kcli.cli.output.report import Report
    from kcli.text import kafka_uuid

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
    print_report(env, Report("topic.list", COLUMNS, items), common.output)
    return exit_status.DONE
