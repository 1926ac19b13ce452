"""Two topics of one command: where each comes from, and a look at both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.options import Job
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.source import KafkaSource


def sources_of(
    job: Job, first: str, second: str | None, brokers: str | None, config: str | None
) -> tuple[KafkaSource, KafkaSource]:
    """The first by the common options; the second by the same, but for its topic, its brokers and their properties.

    ConfigError: a topic would be compared with itself; offsets of both that are given as JSON are cut to each one's.
    """
    from kcli.cli.options import read_properties
    from kcli.cli.spark.topic_names import read_topics

    one = job.source([first])
    if len(one.topics) > 1:
        raise ConfigError("compare takes two topics, and their partitions behind a colon, not --topic-partition")
    kafka = dict(one.kafka) if config is None else read_properties(config)
    if brokers is not None:
        kafka["bootstrap.servers"] = brokers
    if "bootstrap.servers" not in kafka:
        raise ConfigError(f"{config} has no bootstrap.servers: say --bootstrap2")
    two = one._replace(kafka=kafka, topics=read_topics([second or first]))
    if two.topics == one.topics and kafka["bootstrap.servers"] == one.kafka["bootstrap.servers"]:
        raise ConfigError("a topic is always equal to itself: name another, or --bootstrap2")
    found = _of_its_own(one), _of_its_own(two)
    for source in found:
        source.options()
    return found


def _of_its_own(source: KafkaSource) -> KafkaSource:
    """With offsets, where they are given as JSON, of its own topics only: the source takes no others."""
    import json

    def cut(options: dict[str, str]) -> dict[str, str]:
        for name, text in options.items():
            if text.startswith("{"):
                try:
                    by_topic = json.loads(text)
                except ValueError:
                    continue  # the source will say what is wrong with it
                options[name] = json.dumps({topic: it for topic, it in by_topic.items() if topic in source.topics})
        return options

    return source._replace(start=cut(dict(source.start)), until=cut(dict(source.until)))


def look_at(one: KafkaSource, two: KafkaSource, columns: Sequence[str]) -> Survey:
    """What both would read, as one: those of the second are marked if the topics have the same name."""
    from kcli.cli.spark.survey import Survey, survey
    from kcli.structs import TopicPartition

    first, second = survey(one, "records", columns), survey(two, "records", columns)
    if first.plan is None or second.plan is None:
        return first
    mark = f" on {two.kafka['bootstrap.servers']}" if set(one.topics) & set(two.topics) else ""

    def marked(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {TopicPartition(tp.topic + mark, tp.partition): offset for tp, offset in offsets.items()}

    plan = first.plan._replace(
        ranges=[*first.plan.ranges, *(it._replace(topic=it.topic + mark) for it in second.plan.ranges)],
        reports=[*first.plan.reports, *second.plan.reports],
        starts={**first.plan.starts, **marked(second.plan.starts)},
        ends={**first.plan.ends, **marked(second.plan.ends)},
    )
    more = {f"second {name}": value for name, value in second.options.items() if first.options.get(name) != value}
    return Survey(plan, {**first.options, **more})
