"""`kcli spark compare`: compare the records of two topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.parser import Argument, Option
from kcli.cli.property_sources import complete_properties, read_properties
from kcli.cli.spark.options import MAX_ROWS, Job, read_topics
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.compare import Comparison
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.survey import Survey


def run(
    env: Environment,
    job: Job,
    first: Annotated[str, Argument(metavar="TOPIC[:P,P..]", help="First topic, or some of its partitions.")],
    second: Annotated[str | None, Argument(metavar="[TOPIC[:P,P..]]", help="Second topic. [the same topic]")] = None,
    bootstrap2: Annotated[
        str | None,
        Option("--bootstrap2", metavar="HOST:PORT,...", help="Read the second topic from these brokers. [same]"),
    ] = None,
    command_config2: Annotated[
        str | None,
        Option("--command-config2", metavar="FILE", help="Read properties for the second topic from a file. [same]"),
    ] = None,
    by: Annotated[
        str,
        Option("--by", metavar="FIELD,...", help="Compare by key, value, headers, timestamp, partition."),
    ] = "key,value",
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, max=MAX_ROWS, help="Show the N largest differences. [20]")
    ] = None,
    summary: Annotated[bool, Option("--summary", help="Show one row of totals instead.")] = False,
    fail_if: Annotated[
        str | None,
        Option("--fail-if", metavar="COLUMN[>N]", help="Exit with 6 if true for the totals; N is 0 if omitted."),
    ] = None,
) -> int:
    """Compare the records of two topics, of one cluster or two.

    Records are equal if all fields in --by are equal. --by key counts the records of each key, whatever their values.
    Offsets and order are never compared, partitions only by --by partition. A row is a record that does not occur
    equally often in both topics: its count in each, the difference, and the PARTITION:OFFSET of one of its records in
    each. For values and headers, sizes are shown.

    Totals: records of the first and the second topic; distinct records that are the same, different, and of the
    different ones only_first and only_second; records lacking in the second topic, and extra ones there. --from,
    --until, --where and source options apply to both. A topic that still receives records differs by those written
    between the two reads, so use the same --until. A mirror does not copy aborted records: exclude them with -X
    isolation.level=read_committed.
    """
    from kcli.cli.spark.findings import report_findings, with_default_limit
    from kcli.spark.pipelines import compare

    if summary and top is not None:
        raise ConfigError("--top cannot be combined with --summary")
    fields = compare.parse_by(by)
    first_source, second_source = parse_sources(job, first, second, bootstrap2, command_config2)
    return report_findings(
        job,
        "spark.compare",
        first_source,
        lambda spark: _findings(
            compare.run(spark, first_source, second_source, fields, top or compare.TOP), summary=summary
        ),
        shown_columns=compare.SUMMARY_COLUMNS,
        fail_if=with_default_limit(fail_if),
        preflight=lambda: survey_both(first_source, second_source, compare.columns(fields)),
    )


def _findings(comparison: Comparison, *, summary: bool) -> Findings:
    from kcli.cli.spark.findings import Findings

    [row] = comparison.summary.rows
    note = (
        f"{row['first']:,} records in the first, {row['second']:,} in the second: {row['lacking']:,} lacking, "
        f"{row['extra']:,} extra"
    )
    return Findings(
        comparison.summary if summary else comparison.differences,
        () if summary else [note],
        condition_rows=comparison.summary,
    )


def parse_sources(
    job: Job, first: str, second: str | None, brokers: str | None, config: str | None
) -> tuple[KafkaSource, KafkaSource]:
    """Return the source of each topic: the common options, and for the second its own topic, brokers and properties.

    ConfigError if both are the same topic. Offsets given as JSON are limited to the topics of each source.
    """
    from kcli.spark.options import parse_options

    first_source = job.source([first])
    if len(first_source.topics) > 1:
        raise ConfigError("compare takes two topics; give partitions as TOPIC:P,P.. instead of --topic-partition")
    kafka = dict(first_source.kafka)
    if config is not None:
        given = read_properties(config, job.env)
        kafka = {**job.common.time_limit, **complete_properties(job.env, given, of_file=given)}
    if brokers is not None:
        kafka["bootstrap.servers"] = brokers
    if "bootstrap.servers" not in kafka:
        raise ConfigError(f"{config} has no bootstrap.servers; use --bootstrap2")
    two = first_source._replace(kafka=kafka, topics=read_topics([second or first]))
    if two.topics == first_source.topics and kafka["bootstrap.servers"] == first_source.kafka["bootstrap.servers"]:
        raise ConfigError("both topics are the same; give a second topic, or --bootstrap2")
    sources = _limit_offsets(first_source), _limit_offsets(two)
    for source in sources:
        parse_options(source.options())
    return sources


def _limit_offsets(source: KafkaSource) -> KafkaSource:
    """Limit offsets given as JSON to the source's own topics, because it refuses others."""
    import json

    def limit(options: dict[str, str]) -> dict[str, str]:
        for name, text in options.items():
            if text.startswith("{"):
                try:
                    by_topic = json.loads(text)
                except ValueError:
                    continue  # the source raises the error
                options[name] = json.dumps(
                    {topic: places for topic, places in by_topic.items() if topic in source.topics}
                )
        return options

    return source._replace(start=limit(dict(source.start)), until=limit(dict(source.until)))


def survey_both(first_source: KafkaSource, second_source: KafkaSource, columns: Sequence[str]) -> Survey:
    """Return the joint survey of both sources. If topic names are equal, those of the second are marked."""
    from kcli.spark.pipelines.survey import Survey, survey

    first, second = survey(first_source, "records", columns), survey(second_source, "records", columns)
    if first.plan is None or second.plan is None:
        return first
    mark = (
        f" on {second_source.kafka['bootstrap.servers']}"
        if set(first_source.topics) & set(second_source.topics)
        else ""
    )

    def marked(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {TopicPartition(tp.topic + mark, tp.partition): offset for tp, offset in offsets.items()}

    plan = first.plan._replace(
        ranges=[*first.plan.ranges, *(part._replace(topic=part.topic + mark) for part in second.plan.ranges)],
        reports=[*first.plan.reports, *second.plan.reports],
        starts={**first.plan.starts, **marked(second.plan.starts)},
        ends={**first.plan.ends, **marked(second.plan.ends)},
    )
    more = {f"second {name}": value for name, value in second.options.items() if first.options.get(name) != value}
    return Survey(plan, {**first.options, **more})
