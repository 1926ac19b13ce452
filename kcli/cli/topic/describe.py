"""`kcli topic describe`: partitions, leaders, replicas and faults of topics; on request offsets and settings."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.selection import Wide
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError
from kcli.structs import TopicPartition
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.admin.configs import Setting
    from kcli.admin.health.partition_faults import PartitionFaults
    from kcli.admin.topics import Bounds
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import PartitionInfo, TopicInfo
    from kcli.client.requests import Results

PARTITION_COLUMNS = ["topic", "partition", "leader", "leader_epoch", "replicas", "isr", "offline", "faults"]
OFFSET_COLUMNS = ["start_offset", "end_offset", "records"]
SETTING_COLUMNS = ["topic", "name", "value", "source"]
TOPIC_LEVEL = "topic"


def run(
    env: Environment,
    common: Common,
    topic: Annotated[
        list[str] | None, Argument(metavar="TOPIC...", help="Topics to describe; with --unhealthy all by default.")
    ] = None,
    unhealthy: Annotated[
        bool,
        Option("--unhealthy", help="Show only partitions with a fault; without TOPIC those of all topics."),
    ] = False,
    offsets: Annotated[
        bool, Option("--offsets", help="Show start and end offsets; their difference estimates the records.")
    ] = False,
    configs: Annotated[bool, Option("--configs", help="Show settings that are set on the topic itself.")] = False,
    all_configs: Annotated[bool, Option("--all-configs", help="Show all settings, inherited ones included.")] = False,
    wide: Wide = False,
) -> int:
    """Show partitions, leaders, replicas and faults of topics.

    A leader of - means that the partition has no leader now. The faults are offline (no live replica), leaderless (live
    replicas, but none in sync), under-min-isr (fewer replicas in sync than min.insync.replicas: writes with acks=all
    are refused) and under-replicated (a replica is not in sync). They do not change the exit status; kcli cluster check
    --fail-on does. A terminal has a heading and a table for each topic, and
    omits columns that do not fit; a pipe has one table with the topic in each row. With settings, csv and tsv show the
    settings instead of the partitions.
    """
    from kcli.admin.configs import TOPIC, describe_configs
    from kcli.admin.health.partition_faults import find_partition_faults
    from kcli.admin.topics import partition_bounds
    from kcli.client.requests import Results

    if not topic and not unhealthy:
        raise ConfigError("TOPIC is missing; give topics, or --unhealthy for the faulty partitions of all topics")
    bounds: Results[TopicPartition, Bounds] = Results({}, {})
    settings: Results[str, list[Setting]] = Results({}, {})
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        names, found = _find_topics(client, topic, deadline_ms)
        partition_count = sum(len(topic.partitions) for topic in found.values.values())
        faults = find_partition_faults(client, found.values.values(), deadline_ms)
        if unhealthy:
            names = [name for name in names if name in faults.by_topic or name in found.errors]
            found.values = {name: found.values[name] for name in names if name in found.values}
        shown = [
            info
            for topic in found.values.values()
            for info in topic.partitions.values()
            if not unhealthy or faults.of(topic.name, info.partition)
        ]
        if offsets:
            bounds = partition_bounds(
                client, [TopicPartition(info.topic, info.partition) for info in shown], deadline_ms
            )
        if (configs or all_configs) and found.values:
            settings = describe_configs(client, TOPIC, found.values, deadline_ms)

    items = [_topic_item(name, found, settings, all_configs) for name in names]
    for item in items:
        if "partitions" in item:
            item["partitions"] = [
                _partition_item(info, bounds, faults) for info in shown if info.topic == item["topic"]
            ]
    columns = PARTITION_COLUMNS + (OFFSET_COLUMNS if offsets else [])
    if env.stdout_is_terminal and common.output in (None, "table"):
        _show_pages(env, items, columns, wide=wide)
    else:
        _show(env, common, items, columns, with_settings=configs or all_configs)
    if unhealthy and not items and env.stdout_is_terminal:
        env.report(f"kcli: no partition has a fault; partitions checked: {partition_count}")
    for name, error in faults.errors.items():
        env.report(f"kcli: note: {name}: min.insync.replicas is unknown, so under-min-isr is not shown: {error}")
    return exit_status.status_of_all([*found.errors.values(), *bounds.errors.values(), *settings.errors.values()])


def _find_topics(
    client: ConsumerNetworkClient, names: list[str] | None, deadline_ms: float
) -> tuple[list[str], Results[str, TopicInfo]]:
    """Return these topics, or all of them without names, in the order of the output."""
    from kcli.admin.topics import describe_topics, with_similar_topics
    from kcli.client.requests import Results

    if names:
        found = describe_topics(client, names, deadline_ms)
        found.errors = with_similar_topics(client, found.errors, deadline_ms)
        return list(dict.fromkeys(names)), found
    cluster = client.topics_metadata(None, deadline_ms)
    found = Results()
    for name, topic in sorted(cluster.topics.items()):
        found.put(name, cluster.topic_error(name) or topic)
    return sorted(cluster.topics), found


def _topic_item(
    name: str,
    found: Results[str, TopicInfo],
    settings: Results[str, list[Setting]],
    all_configs: bool,
) -> Item:
    from kcli.cli.output.report import error_field
    from kcli.text import kafka_uuid

    if name in found.errors:
        return {"topic": name, "error": error_field(found.errors[name])}
    topic = found.values[name]
    item: Item = {
        "topic": name,
        "topic_id": kafka_uuid(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "partitions": [],
    }
    if name in settings.values:
        item["configs"] = [s._asdict() for s in settings.values[name] if all_configs or s.source == TOPIC_LEVEL]
    if name in settings.errors:
        item["error"] = error_field(settings.errors[name])
    return item


def _partition_item(info: PartitionInfo, bounds: Results[TopicPartition, Bounds], faults: PartitionFaults) -> Item:
    from kcli.cli.output.report import error_field

    item: Item = {
        "partition": info.partition,
        "leader": info.leader if info.leader >= 0 else None,
        "leader_epoch": info.epoch if info.epoch >= 0 else None,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
        "offline": list(info.offline),
        "faults": list(faults.of(info.topic, info.partition)),
    }
    tp = TopicPartition(info.topic, info.partition)
    if tp in bounds.values:
        start, end = bounds.values[tp]
        item.update(start_offset=start, end_offset=end, records=end - start)
    elif tp in bounds.errors:
        item["error"] = error_field(bounds.errors[tp])
    return item


def _show_pages(env: Environment, items: list[Item], columns: list[str], *, wide: bool) -> None:
    """Print a heading and the tables of each topic, for people.

    Of columns that do not fit, `faults` and `offline` are the most important ones where they are not empty.
    """
    from kcli.cli.output.printer import report_hidden
    from kcli.cli.output.report import Report, cell
    from kcli.cli.output.table import as_table

    hidden: dict[str, None] = {}
    for number, item in enumerate(items):
        env.stdout.write(("\n" if number else "") + visible(_heading(item)) + "\n")
        if "error" in item:
            env.stdout.write(f"  {visible(cell(item['error']))}\n")
        partitions = item.get("partitions", [])
        optional = ["start_offset", "records", "leader_epoch"]
        for name in ("offline", "faults"):
            optional.insert(0 if any(partition[name] for partition in partitions) else len(optional), name)
        if partitions:
            report = Report("topic.describe", columns[1:], partitions, optional=() if wide else optional)
            text, omitted = as_table(env, report)
            hidden.update(dict.fromkeys(omitted))
            env.stdout.write(text)
        if "configs" in item:
            text, _ = as_table(env, Report("topic.describe", SETTING_COLUMNS[1:], item["configs"]))
            env.stdout.write(f"\n{text}")
    report_hidden(env, hidden)


def _heading(item: Item) -> str:
    """Return `orders: 3 partitions, 2 replicas, id mFjAEMrQSZqR1hpHxLrC4w`."""
    from kcli.text import format_count

    facts = ["internal topic"] if item.get("internal") else []
    if partitions := item.get("partitions"):
        replicas = sorted({len(partition["replicas"]) for partition in partitions})
        shown = (
            format_count(replicas[0], "replica") if len(replicas) == 1 else f"{replicas[0]} to {replicas[-1]} replicas"
        )
        count = format_count(item["partition_count"], "partition")
        facts += [count if len(partitions) == item["partition_count"] else f"{len(partitions)} of {count}", shown]
    facts += [f"id {item['topic_id']}"] if item.get("topic_id") else []
    return f"{item['topic']}: {', '.join(facts)}" if facts else item["topic"]


def _show(env: Environment, common: Common, items: list[Item], columns: list[str], *, with_settings: bool) -> None:
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    def flat(part: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for item in items:
            topic = {"topic": item["topic"]}
            rows += [{**topic, **row} for row in item.get(part, ())]
            if "error" in item:
                rows.append({**topic, "error": item["error"]})
        return rows

    if not with_settings or common.output not in ("csv", "tsv"):
        print_report(env, Report("topic.describe", columns, items, flat("partitions")), common.output)
    if with_settings and common.output not in ("json", "jsonl"):
        if common.output not in ("csv", "tsv"):
            env.stdout.write("\n")
        print_report(env, Report("topic.describe", SETTING_COLUMNS, items, flat("configs")), common.output)
