"""`kcli spark gaps`: find offsets without a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import check_choice
from kcli.cli.parser import Option
from kcli.cli.spark.options import MAX_ROWS, Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.gaps import GapReport


def run(
    env: Environment,
    job: Job,
    topic: Topics = None,
    by: Annotated[
        str, Option("--by", metavar="partition|gap", help="Show one row per partition, or per gap.")
    ] = "partition",
    min: Annotated[int, Option("--min", metavar="N", min=1, max=2**63 - 1, help="Ignore gaps of fewer offsets.")] = 1,
    top: Annotated[
        int | None, Option("--top", metavar="N", min=1, max=MAX_ROWS, help="With --by gap, show the N largest.")
    ] = None,
    fail_if: Annotated[
        str | None,
        Option(
            "--fail-if",
            metavar="KIND[>N]",
            help="Exit with 6 if a partition has more than N such offsets; N is 0 if omitted.",
        ),
    ] = None,
) -> int:
    """Find offsets without a record, and explain them.

    Kinds: control: the marker at the end of a transaction. aborted: records of aborted transactions; with -X
    isolation.level=read_uncommitted they are normal records. retention: deleted from the head of the log, counted from
    offset 0 or the offsets in --from. compaction: removed by the log cleaner; a missing whole batch counts as
    compaction only if the topic is compacted. unexplained: all others; there should be none.

    --by partition has a row for each partition with numbers of offsets; --by gap has a row for each gap. Batch headers
    are read, and records only where a header shows that some are missing. --fail-if always applies to partitions, and
    also takes their other columns: --fail-if unexplained, --fail-if 'largest>1000'.
    """
    from kcli.cli.spark.findings import report_findings, with_default_limit
    from kcli.spark.pipelines import gaps

    check_choice("--by", by, ("partition", "gap"))
    if top is not None and by != "gap":
        raise ConfigError("--top requires --by gap")
    source = gaps.gap_source(job.source(topic))
    return report_findings(
        job,
        "spark.gaps",
        source,
        lambda spark: _findings(gaps.run(spark, source, least=min, listed=by == "gap", top=top), by),
        view="gaps",
        columns=gaps.GAP_COLUMNS,
        shown_columns=gaps.PARTITION_COLUMNS[2:],
        fail_if=with_default_limit(fail_if),
    )


def _findings(report: GapReport, by: str) -> Findings:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.views.gaps import KINDS

    rows = report.partitions.rows
    total = sum(row["offsets"] for row in rows)
    kinds = [(kind, sum(row[kind] for row in rows)) for kind in KINDS]
    parts = ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)
    offsets = "1 offset" if total == 1 else f"{total:,} offsets"
    partitions = "1 partition" if len(rows) == 1 else f"{len(rows):,} partitions"
    note = f"{offsets} without a record in {partitions}" + (f": {parts}" if parts else "")
    return Findings(report.partitions if by == "partition" else report.gaps, [note], condition_rows=report.partitions)
