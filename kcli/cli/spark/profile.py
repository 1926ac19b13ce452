"""`kcli spark profile`: count properties of a topic's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Findings, Page, report_findings
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.profile import Profile


def run(
    env: Environment,
    job: Job,
    topic: Topics = None,
    fields: Annotated[bool, Option("--fields", help="Parse values as JSON, and show their fields.")] = False,
    sample: Annotated[
        float | None,
        Option("--sample", metavar="SHARE", help="Parse this share of the values, for example 0.1. [1]"),
    ] = None,
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """Profile records: nulls, tombstones, sizes, order in time; with --fields the fields of their values.

    OUT-OF-ORDER counts records older than the previous one of their partition; MOST-BACK-MS is the largest distance to
    the newest record before. A tombstone has a key and no value. Sizes are in bytes; percentiles above 255 are up to 1%
    too low. -O json has more fields.

    --fields parses values as JSON, and has a row for each field: the types of its values with their counts, the share
    of objects with the field, and its drift: 1 if its types are incompatible (null fits all, integers are numbers). A
    line on stderr then says when each of them first appeared, by timestamp, with its partition and offset. a.b is a
    nested field, a[] an array element. --sample parses a share of the values, always the same ones; all other counts
    are complete.
    """
    from kcli.spark.pipelines import profile

    if sample is not None and not fields:
        raise ConfigError("--sample requires --fields")
    share = 1.0 if sample is None else sample
    profile.check_sample(share)
    source = job.source(topic)
    return report_findings(
        job,
        "spark.profile",
        source,
        lambda spark: _findings(profile.run(spark, source, fields=fields, sample=share), fields),
        columns=profile.columns(fields=fields),
        shown_columns=profile.FIELD_COLUMNS if fields else [*profile.TOPIC_COLUMNS, *profile.MORE_COLUMNS],
        fail_if=fail_if,
        page=report,
    )


def _findings(result: Profile, fields: bool) -> Findings:
    from kcli.spark.pipelines import profile

    notes = []
    for row in result.topics.rows if fields else ():
        types = ", ".join(f"{count:,} {name}" for name, count in row.get("json_types", {}).items())
        notes.append(f"{row['topic']}: {row.get('looked_at', 0):,} values parsed: {types or 'none'}")
    notes += [note for row in result.fields.rows if (note := profile.drift_note(row)) is not None]
    notes += [f"{topic} has too many fields: some are missing, and some counts are too low" for topic in result.partial]
    return Findings(result.fields if fields else result.topics, notes, lambda: profile_sections(result))


def profile_sections(result: Profile) -> list[Section]:
    """Return the sections of the page: counts, size distributions, fields."""
    from kcli.cli.spark.charts import bars, histogram
    from kcli.cli.spark.page import Section

    sections = [Section("Records", table=result.topics)]
    for (topic, of), sizes in result.sizes.items():
        if sizes:
            sections.append(Section(f"Sizes of {of}s in {topic}, in bytes", figure=histogram(sizes, "records")))
    if not result.fields.rows:
        return sections
    for topic in dict.fromkeys(row["topic"] for row in result.fields.rows):
        rows = [row for row in result.fields.rows if row["topic"] == topic and "[]" not in row["field"]]
        chart = bars([row["field"] for row in rows], [row["share"] for row in rows], "share of objects")
        sections.append(Section(f"Fields of {topic}", "Share of objects with the field.", chart))
    return [*sections, Section("Fields", table=result.fields)]
