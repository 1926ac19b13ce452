"""`kcli spark skew`: find hot keys and uneven partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import check_choice
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Findings, Page, report_findings
from kcli.cli.spark.options import MAX_ROWS, Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.skew import Skew


def run(
    env: Environment,
    job: Job,
    topic: Topics = None,
    by: Annotated[
        str, Option("--by", metavar="key|partition|topic", help="Show one row per key, partition or topic.")
    ] = "key",
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, max=MAX_ROWS, help="Show the N hottest keys. [20]")
    ] = None,
    metric: Annotated[
        str, Option("--metric", metavar="records|bytes", help="Compute shares, order and Gini coefficient of this.")
    ] = "records",
    key_as: Annotated[
        str, Option("--key-as", metavar="string|hex", help="Show keys as text or hex; invalid UTF-8 is always hex.")
    ] = "string",
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """Find the hottest keys, and measure how evenly partitions are filled.

    --by key has a row for each of the hottest keys: its share of the topic, and its number of partitions. --by
    partition has a row for each partition: its share, its keys, the hottest key and its share of the partition. --by
    topic has the Gini coefficient of the partitions (0: all equal, near 1: all in one), the largest over the mean, the
    number of keys, keys in more than one partition, and records without a key.

    Bytes are those of keys and values; values are not read. Empty partitions count as well.
    """
    from kcli.spark.pipelines import skew

    rows = {"key": skew.KEY_COLUMNS, "partition": skew.PARTITION_COLUMNS, "topic": skew.TOPIC_COLUMNS}
    for name, value, known in (("--by", by, rows), ("--metric", metric, skew.METRICS), ("--key-as", key_as, KEY_AS)):
        check_choice(name, value, known)
    if top is not None and by != "key":
        raise ConfigError("--top requires --by key")
    source = job.source(topic)
    return report_findings(
        job,
        "spark.skew",
        source,
        lambda spark: _findings(skew.run(spark, source, top or skew.TOP, metric, as_hex=key_as == "hex"), by, metric),
        columns=skew.COLUMNS,
        shown_columns=rows[by],
        fail_if=fail_if,
        page=report,
    )


KEY_AS = ("string", "hex")


def _findings(skew_result: Skew, by: str, metric: str) -> Findings:
    notes = [
        f"{row['topic']}: {row['records']:,} records, {row['keys']:,} keys, {row['keyless']:,} records without one; "
        f"Gini of {row['partitions']:,} partitions {round(row['gini'], 4)}"
        for row in skew_result.topics.rows
        if row["gini"] is not None
    ]
    result = {"key": skew_result.keys, "partition": skew_result.partitions, "topic": skew_result.topics}[by]
    return Findings(result, notes if by != "topic" else (), lambda: skew_sections(skew_result, by, metric))


def skew_sections(skew_result: Skew, by: str, metric: str) -> list[Section]:
    """Return the sections of the page: the hottest keys only with `by` key, partitions of each topic, tables."""
    from kcli.cli.spark.charts import bars
    from kcli.cli.spark.page import Section

    topics = [row["topic"] for row in skew_result.topics.rows]
    several = len(topics) > 1
    sections = []
    if by == "key":
        sections.append(_hottest_keys(skew_result, metric, several=several))
    for topic in topics:
        rows = [row for row in skew_result.partitions.rows if row["topic"] == topic]
        chart = bars([str(row["partition"]) for row in rows], [row[metric] for row in rows], metric)
        sections.append(Section(f"Partitions of {topic}", figure=chart))
    return [*sections, Section("Partitions", table=skew_result.partitions), Section("Topics", table=skew_result.topics)]


def _hottest_keys(skew_result: Skew, metric: str, *, several: bool) -> Section:
    from kcli.cli.spark.charts import bars
    from kcli.cli.spark.page import Section

    names = [f"{row['key']} ({row['topic']})" if several else str(row["key"]) for row in skew_result.keys.rows]
    chart = bars(names, [row[metric] for row in skew_result.keys.rows], metric) if names else None
    return Section("Hottest keys", "" if names else "No record has a key.", chart, skew_result.keys)
