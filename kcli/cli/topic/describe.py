"""`kcli topic describe`: partitions, leaders and replicas of topics; on request their offsets and settings."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option

if TYPE_CHECKING:
    from kcli.admin.configs import Setting
    from kcli.admin.topics import Bounds
    from kcli.cli.output.report import Item
    from kcli.client.metadata import PartitionInfo, TopicInfo
    from kcli.client.requests import Results
    from kcli.structs import TopicPartition

PARTITION_COLUMNS = ["topic", "partition", "leader", "leader_epoch", "replicas", "isr", "offline"]
OFFSET_COLUMNS = ["start_offset", "end_offset", "records"]
SETTING_COLUMNS = ["topic", "name", "value", "source"]
TOPIC_LEVEL = "topic"


def run(
    env: Environment,
    common: Common,
    topic: Annotated[list[str], Argument(metavar="TOPIC...", help="Topics to describe.")],
    offsets: Annotated[
        bool, Option("--offsets", help="Show start and end offsets; their difference estimates the records.")
    ] = False,
    configs: Annotated[bool, Option("--configs", help="Show settings that are set on the topic itself.")] = False,
    all_configs: Annotated[bool, Option("--all-configs", help="Show all settings, inherited ones included.")] = False,
) -> int:
    """Show partitions, leaders and replicas of topics.

    A leader of - means that the partition has no leader now. With settings, csv and tsv show the settings instead of
    the partitions.
    """
    from kcli.admin.configs import TOPIC, describe_configs
    from kcli.admin.topics import describe_topics, partition_bounds, with_similar_topics
    from kcli.client.requests import Results
    from kcli.structs import TopicPartition

    names = list(dict.fromkeys(topic))
    bounds: Results[TopicPartition, Bounds] = Results({}, {})
    settings: Results[str, list[Setting]] = Results({}, {})
    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        found = describe_topics(client, names, deadline_ms)
        found.errors = with_similar_topics(client, found.errors, deadline_ms)
        if offsets:
            partitions = [TopicPartition(t.name, number) for t in found.values.values() for number in t.partitions]
            bounds = partition_bounds(client, partitions, deadline_ms)
        if (configs or all_configs) and found.values:
            settings = describe_configs(client, TOPIC, found.values, deadline_ms)

    items = [_topic_item(name, found, bounds, settings, all_configs) for name in names]
    columns = PARTITION_COLUMNS + (OFFSET_COLUMNS if offsets else [])
    _show(env, common, items, columns, with_settings=configs or all_configs)
    return exit_status.status_of_all([*found.errors.values(), *bounds.errors.values(), *settings.errors.values()])


def _topic_item(
    name: str,
    found: Results[str, TopicInfo],
    bounds: Results[TopicPartition, Bounds],
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
        "partitions": [_partition_item(info, bounds) for info in topic.partitions.values()],
    }
    if name in settings.values:
        item["configs"] = [s._asdict() for s in settings.values[name] if all_configs or s.source == TOPIC_LEVEL]
    if name in settings.errors:
        item["error"] = error_field(settings.errors[name])
    return item


def _partition_item(info: PartitionInfo, bounds: Results[TopicPartition, Bounds]) -> Item:
    from kcli.cli.output.report import error_field
    from kcli.structs import TopicPartition

    item: Item = {
        "partition": info.partition,
        "leader": info.leader if info.leader >= 0 else None,
        "leader_epoch": info.epoch if info.epoch >= 0 else None,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
        "offline": list(info.offline),
    }
    tp = TopicPartition(info.topic, info.partition)
    if tp in bounds.values:
        start, end = bounds.values[tp]
        item.update(start_offset=start, end_offset=end, records=end - start)
    elif tp in bounds.errors:
        item["error"] = error_field(bounds.errors[tp])
    return item


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
