"""`kcli spark gaps`: offsets without a record, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.pipelines.gaps import GapReport


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    by: Annotated[str, Option("--by", metavar="partition|gap", help="What the rows are of.")] = "partition",
    min: Annotated[int, Option("--min", metavar="N", min=1, help="Only gaps of at least so many offsets.")] = 1,
    top: Annotated[int | None, Option("--top", metavar="N", min=1, help="With --by gap, only the N largest.")] = None,
    fail_if: Annotated[
        str | None,
        Option("--fail-if", metavar="KIND[>N]", help="Exit with 6 if a partition has (more than N) such offsets."),
    ] = None,
) -> int:
    """Offsets at which there is no record to read, and why.

    control: a marker that ends a transaction. aborted: records of aborted transactions; with -X
    isolation.level=read_uncommitted they are records like others. retention: deleted from the head of the log, counted
    from offset 0, or from what --from names. compaction: what the log cleaner has left out; whole batches that are
    missing count so only if the topic is compacted. unexplained: the rest, which should not be.

    --by partition has a row for each partition and counts offsets; --by gap one for each gap. Headers of batches are
    read, and records only where a header tells that some are missing. --fail-if is about partitions whatever the rows
    are, and takes their other columns too: --fail-if unexplained, --fail-if 'largest>1000'.
    """
    from kcli.cli.spark.findings import find, or_any
    from kcli.spark.pipelines import gaps

    if by not in ("partition", "gap"):
        raise ConfigError(f"--by must be partition or gap, not {by}")
    if top is not None and by != "gap":
        raise ConfigError("--top is for --by gap")
    source = gaps.gap_source(job.source(topic))
    return find(
        job,
        "spark.gaps",
        source,
        lambda spark: _findings(gaps.run(spark, source, least=min, listed=by == "gap", top=top), by),
        view="gaps",
        columns=gaps.GAP_COLUMNS,
        shown=gaps.PARTITION_COLUMNS[2:],
        fail_if=or_any(fail_if),
    )


def _findings(found: GapReport, by: str) -> Findings:
    from kcli.cli.spark.findings import Findings
    from kcli.spark.views.gaps import KINDS

    rows = found.partitions.rows
    total = sum(row["offsets"] for row in rows)
    kinds = [(kind, sum(row[kind] for row in rows)) for kind in KINDS]
    parts = ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)
    words = f"{total:,} offsets without a record in {len(rows):,} partitions" + (f": {parts}" if parts else "")
    return Findings(found.partitions if by == "partition" else found.gaps, [words], judged=found.partitions)
