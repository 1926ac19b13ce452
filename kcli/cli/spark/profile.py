"""`kcli spark profile`: what a topic's records are like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.findings import FailIf, Page
from kcli.cli.spark.options import Job, Topics
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.spark.findings import Findings
    from kcli.cli.spark.page import Section
    from kcli.spark.pipelines.profile import Profile


def run(
    env: Environment,
    common: Common,
    job: Job,
    topic: Topics = None,
    json: Annotated[bool, Option("--json", help="Look into values: the rows are fields of JSON objects.")] = False,
    sample: Annotated[
        float | None,
        Option("--sample", metavar="SHARE", help="Look into this share of the values, as 0.1. [1]"),
    ] = None,
    fail_if: FailIf = None,
    report: Page = None,
) -> int:
    """What the records are like: nulls, tombstones, sizes, order in time; with --json the fields of their values.

    OUT-OF-ORDER counts records that are older than the one before them in their partition, MOST-BACK-MS is how far one
    was behind the newest before it. A tombstone has a key and no value. Sizes are bytes; percentiles of those above 255
    are up to 1% too low. -o json tells more.

    --json has a row for each field: the types of its values and in how many records each was, the share of objects
    that have it, and whether it drifts: has types that are not each other's (null is anyone's, integers are numbers).
    a.b is a field in a field, a[] what is in an array. --sample looks into some values only, chosen as if
    by chance, but each time the same ones; everything else is always counted in full.
    """
    from kcli.cli.spark.findings import find
    from kcli.spark.pipelines import profile

    if sample is not None and not json:
        raise ConfigError("--sample is for --json: everything else is counted in full")
    share = 1.0 if sample is None else sample
    profile.check_sample(share)
    source = job.source(topic)
    return find(
        job,
        "spark.profile",
        source,
        lambda spark: _findings(profile.run(spark, source, fields=json, sample=share), json),
        columns=profile.columns(fields=json),
        shown=profile.FIELD_COLUMNS if json else [*profile.TOPIC_COLUMNS, *profile.MORE_COLUMNS],
        fail_if=fail_if,
        page=report,
    )


def _findings(found: Profile, json: bool) -> Findings:
    from kcli.cli.spark.findings import Findings

    words = []
    for row in found.topics.rows if json else ():
        types = ", ".join(f"{count:,} {name}" for name, count in row.get("json_types", {}).items())
        words.append(f"{row['topic']}: looked into {row.get('looked_at', 0):,} values: {types or 'none'}")
    words += [
        f"{topic} has too many fields: the numbers of some are too low, others are left out" for topic in found.partial
    ]
    return Findings(found.fields if json else found.topics, words, lambda: profile_sections(found))


def profile_sections(found: Profile) -> list[Section]:
    """The numbers, how sizes are spread, the fields."""
    from kcli.cli.spark.charts import bars, histogram
    from kcli.cli.spark.page import Section

    sections = [Section("Records", table=found.topics)]
    for (topic, of), sizes in found.sizes.items():
        if sizes:
            sections.append(Section(f"Sizes of {of}s in {topic}, in bytes", figure=histogram(sizes, "records")))
    if not found.fields.rows:
        return sections
    for topic in dict.fromkeys(row["topic"] for row in found.fields.rows):
        rows = [row for row in found.fields.rows if row["topic"] == topic and "[]" not in row["field"]]
        chart = bars([row["field"] for row in rows], [row["share"] for row in rows], "share of objects")
        sections.append(Section(f"Fields of {topic}", "How many of the objects have which field.", chart))
    return [*sections, Section("Fields", table=found.fields)]
