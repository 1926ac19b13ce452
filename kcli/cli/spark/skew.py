"""`kcli spark skew`: hot keys and uneven partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common, check_choice
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Page
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.skew import Skew


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    by: Annotated[str, Option("--by", metavar="key|partition|topic", help="What the rows are of.")] = "key",
    top: Annotated[int | None, Option("--top", metavar="N", min=1, help="So many of the hottest keys. [20]")] = None,
    metric: Annotated[
        str, Option("--metric", metavar="records|bytes", help="What shares, order and Gini are about.")
    ] = "records",
    key_as: Annotated[
        str, Option("--key-as", metavar="string|hex", help="Keys that are no UTF-8 are hex anyway.")
    ] = "string",
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """The hottest keys, and how evenly partitions are filled.

    --by key has a row for each of the hottest keys: its share of its topic, and in how many partitions it is. --by
    partition has one for each partition: its share, its keys, the hottest of them and what that has of the partition.
    --by topic tells the Gini coefficient of the partitions (0: all equal, towards 1: all in one), the largest over the
    mean, how many keys there are, how many are in more than one partition, and how many records have none.

    Bytes are those of keys and values; values are not looked at. Partitions without any record count as well.
    """
    from kcli.cli.spark.findings import find
    from kcli.spark.pipelines import skew

    rows = {"key": skew.KEY_COLUMNS, "partition": skew.PARTITION_COLUMNS, "topic": skew.TOPIC_COLUMNS}
    for name, value, known in (("--by", by, rows), ("--metric", metric, skew.METRICS), ("--key-as", key_as, KEY_AS)):
        check_choice(name, value, known)
    if top is not None and by != "key" and report is None:
        raise ConfigError("--top is for --by key, and for the keys in a --report")
    source = job.source(topic)
    return find(
        job,
        "spark.skew",
        source,
        lambda spark: _findings(skew.run(spark, source, top or skew.TOP, metric, as_hex=key_as == "hex"), by, metric),
        columns=skew.COLUMNS,
        shown=rows[by],
        fail_if=fail_if,
        page=report,
    )


KEY_AS = ("string", "hex")


def _findings(found: Skew, by: str, metric: str) -> Findings:
    from kcli.cli.spark.findings import Findings

    words = [
        f"{row['topic']}: {row['records']:,} records, {row['keys']:,} keys, {row['keyless']:,} records without one; "
        f"Gini of {row['partitions']:,} partitions {round(row['gini'], 4)}"
        for row in found.topics.rows
        if row["gini"] is not None
    ]
    result = {"key": found.keys, "partition": found.partitions, "topic": found.topics}[by]
    return Findings(result, words if by != "topic" else (), lambda: skew_sections(found, metric))


def skew_sections(found: Skew, metric: str) -> list[Section]:
    """The hottest keys, the partitions of each topic, the numbers."""
    from kcli.cli.spark.charts import bars
    from kcli.cli.spark.page import Section

    topics = [row["topic"] for row in found.topics.rows]
    several = len(topics) > 1
    names = [f"{row['key']} ({row['topic']})" if several else str(row["key"]) for row in found.keys.rows]
    chart = bars(names, [row[metric] for row in found.keys.rows], metric) if names else None
    sections = [Section("Hottest keys", "" if names else "No record has a key.", chart, found.keys)]
    for topic in topics:
        rows = [row for row in found.partitions.rows if row["topic"] == topic]
        chart = bars([str(row["partition"]) for row in rows], [row[metric] for row in rows], metric)
        sections.append(Section(f"Partitions of {topic}", figure=chart))
    return [*sections, Section("Partitions", table=found.partitions), Section("Topics", table=found.topics)]
