"""`kcli spark compare`: whether a mirror has what its original has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option
from kcli.cli.spark.options import Job
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.options import Job
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.compare import Comparison
    from kcli.spark.pipelines.source import KafkaSource


def run(
    env: Environment,
    common: Common,
    job: Job,
    first: Annotated[str, Argument(metavar="TOPIC[:P,P..]", help="The original, or some partitions of it.")],
    second: Annotated[
        str | None, Argument(metavar="[TOPIC[:P,P..]]", help="What to compare it with. [the same topic]")
    ] = None,
    bootstrap2: Annotated[
        str | None, Option("--bootstrap2", metavar="HOST:PORT,...", help="The second topic's brokers, if others.")
    ] = None,
    command_config2: Annotated[
        str | None,
        Option("--command-config2", metavar="FILE", help="Properties for those, instead of all of the first's."),
    ] = None,
    by: Annotated[
        str,
        Option("--by", metavar="WHAT,...", help="key, value, headers, timestamp, partition: must be equal."),
    ] = "key,value",
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, help="So many differences, the largest. [20]")
    ] = None,
    summary: Annotated[bool, Option("--summary", help="One row of totals instead of the differences.")] = False,
    fail_if: Annotated[
        str | None,
        Option("--fail-if", metavar="COLUMN[>N]", help="Exit with 6 if it is so of the totals, as 'different'."),
    ] = None,
) -> int:
    """Compare two topics, of one cluster or of two: which records are not equally often in both.

    Records are the same if they are equal in all that --by names. --by key counts each key's records, whatever their
    values; partitions, offsets and order never matter, but for --by partition. Rows are what differs: how often it is
    in the first and in the second topic, the difference, and the PARTITION:OFFSET of one of them in each. Of values and
    headers sizes are shown.

    Totals: records of the first and second; kinds of records that are the same, different, and of these only_first and
    only_second; records that are lacking in the second, and extra there. --from, --until, --where and the options of
    the source are for both; a topic that still grows differs by what comes between the two looks, so end both at one
    --until. A mirror does not copy aborted records: -X isolation.level=read_committed leaves them out.
    """
    from kcli.cli.spark.findings import find, or_any
    from kcli.spark.pipelines import compare

    if summary and top is not None:
        raise ConfigError("--top is for differences, of which --summary tells none")
    ways = compare.parse_by(by)
    one, two = sources_of(job, first, second, bootstrap2, command_config2)
    return find(
        job,
        "spark.compare",
        one,
        lambda spark: _findings(compare.run(spark, one, two, ways, top or compare.TOP), summary=summary),
        shown=compare.SUMMARY_COLUMNS,
        fail_if=or_any(fail_if),
        look=lambda: look_at(one, two, compare.columns(ways)),
    )


def _findings(found: Comparison, *, summary: bool) -> Findings:
    from kcli.cli.spark.findings import Findings

    [row] = found.summary.rows
    words = (
        f"{row['first']:,} records in the first, {row['second']:,} in the second: {row['lacking']:,} lacking, "
        f"{row['extra']:,} extra"
    )
    return Findings(found.summary if summary else found.differences, () if summary else [words], judged=found.summary)


def sources_of(
    job: Job, first: str, second: str | None, brokers: str | None, config: str | None
) -> tuple[KafkaSource, KafkaSource]:
    """The first by the common options; the second by the same, but for its topic, its brokers and their properties.

    ConfigError: a topic would be compared with itself; offsets of both that are given as JSON are cut to each one's.
    """
    from kcli.cli.options import read_properties
    from kcli.cli.spark.options import read_topics

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
