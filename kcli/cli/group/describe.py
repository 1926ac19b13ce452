"""`kcli group describe`: show the lag of groups by partition, their members, or their state. Never joins or commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import (
    GroupSelection,
    LagOptions,
    Wide,
    find_selected,
    status_of_groups,
    status_of_survey,
    survey_selected,
    without_collections,
)
from kcli.cli.options import Common, check_choice
from kcli.cli.parser import Option, given_options
from kcli.errors import ConfigError, KcliError
from kcli.text import format_count, format_duration, group_text

if TYPE_CHECKING:
    from kcli.admin.groups.lag import LagTotals, PartitionLag
    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.group.rows import Row
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

KIND = "group.describe"
BY_TOPIC = "topic"
FEW = 10  # with more groups than that, standard error has only the grand total


def run(
    env: Environment,
    common: Common,
    groups: GroupSelection,
    *,
    members: Annotated[
        bool, Option("--members", help="Show the members and their partitions instead of offsets.")
    ] = False,
    state: Annotated[
        bool, Option("--state", help="Show state, coordinator, assignor and epochs instead of offsets.")
    ] = False,
    lagging: Annotated[bool, Option("--lagging", help="Omit partitions without lag.")] = False,
    sort: Annotated[
        str, Option("--sort", metavar="KEY", help="Sort within a group by topic, lag, time-lag or member.")
    ] = BY_TOPIC,
    measure: LagOptions,
    wide: Wide = False,
) -> int:
    """Show the lag of groups: a row for each partition that is committed or owned.

    LAG is END minus COMMITTED; committed offsets are read before end offsets. TIME-LAG is the age of the next unread
    record, with a ~ where it is not exact; the totals are on standard error, and the reason, with -v also if it is only
    that the producer's clock set the time. COMMITTED is - for an owned partition without a committed offset, LAG is -
    also if the committed offset is after the log end, MEMBER is - for a partition that no member owns. The command does
    not disturb the group.

    A terminal shows the columns that fit into a line, and stderr names the others; --wide shows all of them. A pipe
    always gets all columns, but columns may be added: let scripts use the headings, or csv or json.
    """
    from kcli.cli.group.rows import SORTS

    if members and state:
        raise ConfigError("--members and --state cannot be combined")
    check_choice("--sort", sort, SORTS)
    if members or state:
        offset_options: dict[str, object] = {
            "--lagging": lagging,
            "--sort": sort != BY_TOPIC,
            **given_options(measure),
        }
        _refuse("--members" if members else "--state", offset_options)
        return _describe(env, common, groups, members=members, wide=wide)
    with without_collections():
        selected, surveys = survey_selected(common, groups, measure)
        return _show_partitions(env, common, selected, surveys, sort, lagging=lagging, wide=wide)


def _refuse(table: str, offset_options: dict[str, object]) -> None:
    for option, is_given in offset_options.items():
        if is_given:
            raise ConfigError(f"{option} cannot be combined with {table}")


def _show_partitions(
    env: Environment,
    common: Common,
    selected: SelectedGroups,
    surveys: Results[str, GroupSurvey],
    sort: str,
    *,
    lagging: bool,
    wide: bool,
) -> int:
    from kcli.cli.group.rows import (
        OPTIONAL_OF_PARTITIONS,
        error_row,
        failed_broker,
        failed_group,
        partition_columns,
        partition_rows,
        partition_table,
        sorted_partitions,
        survey_item,
    )
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    items: list[Item] = []
    rows: list[Row] = []
    for name in selected.groups:
        if name in surveys.errors:
            items.append(failed_group(name, surveys.errors[name]))
            rows.append(error_row(name, surveys.errors[name]))
            continue
        partitions = sorted_partitions(surveys.values[name].partitions, sort, lagging=lagging)
        rows += partition_rows(surveys.values[name], partitions)
        if common.output in ("json", "jsonl"):
            items.append(survey_item(surveys.values[name], partitions))
    for node, error in selected.failed_brokers.items():
        items.append(failed_broker(node, error))
        rows.append(error_row(None, KcliError(f"the groups of {node} are unknown: {error}")))
    table = partition_table(rows)
    columns = partition_columns(table, for_programs=common.output in ("csv", "tsv"))
    optional = () if wide else OPTIONAL_OF_PARTITIONS
    print_report(env, Report(KIND, columns, items, table=table, optional=optional), common.output)
    if common.output in (None, "table"):
        for line in summary(list(surveys.values.values()), verbose=common.verbose):
            env.report(line)
    return status_of_survey(selected, surveys)


def _describe(
    env: Environment,
    common: Common,
    groups: GroupSelection,
    *,
    members: bool,
    wide: bool,
) -> int:
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.groups.listing import with_suggestions
    from kcli.cli.group.rows import (
        OPTIONAL_OF_MEMBERS,
        OPTIONAL_OF_STATES,
        STATE_COLUMNS,
        described_item,
        failed_broker,
        failed_group,
        member_columns,
        member_rows,
        state_rows,
    )
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        selected = find_selected(client, groups, deadline_ms)
        described = describe_groups(client, selected.groups, deadline_ms)
        described.errors = with_suggestions(client, described.errors, deadline_ms)
    items = [
        described_item(described.values[name], members=members)
        if name in described.values
        else failed_group(name, described.errors[name])
        for name in selected.groups
    ]
    items += [failed_broker(node, error) for node, error in selected.failed_brokers.items()]
    rows = member_rows(items) if members else state_rows(items)
    columns = member_columns(rows, for_programs=common.output in ("csv", "tsv")) if members else STATE_COLUMNS
    optional = [] if wide else OPTIONAL_OF_MEMBERS if members else OPTIONAL_OF_STATES
    print_report(env, Report(KIND, columns, items, rows, optional=optional), common.output)
    undecoded = members and any(member.error for group in described.values.values() for member in group.members)
    return status_of_groups(selected.failures(described), failed_parts=undecoded, succeeded=bool(described.values))


def summary(surveys: Sequence[GroupSurvey], *, verbose: bool = False) -> Iterator[str]:
    """Return lines for standard error: the totals of each group and topic, and the reasons of inexact time lags.

    Of many groups there is only the grand total. A time set by the producer, which is Kafka's default, is a reason only
    if `verbose`.
    """
    from kcli.admin.groups.lag import total_lag

    if len(surveys) <= FEW:
        for survey in surveys:
            yield from _group_summary(survey)
    else:
        total = total_lag([p for survey in surveys for p in survey.partitions])
        yield f"{len(surveys)} groups: {format_totals(total)}; `kcli group lag` shows a line for each"
    yield from _time_lag_notes((p for survey in surveys for p in survey.partitions), verbose=verbose)


def _group_summary(survey: GroupSurvey) -> Iterator[str]:
    from kcli.admin.groups.lag import total_lag, total_lag_by_topic

    group = survey.group
    facts = ", ".join(text for text in (group.type, group.state, format_count(len(group.members), "member")) if text)
    yield f"{group_text(group.group)} ({facts}): {format_totals(total_lag(survey.partitions))}"
    yield from _spark_queries(survey.partitions)
    topics = total_lag_by_topic(survey.partitions)
    if len(topics) > 1:
        for topic, totals in topics.items():
            yield f"  {topic}: {format_totals(totals)}"


def _spark_queries(partitions: Sequence[PartitionLag]) -> Iterator[str]:
    """Name the Spark streaming queries that commit for a group without members, with the newest batch of each."""
    notes = [p.committed.metadata for p in partitions if p.committed is not None and p.committed.metadata]
    if not notes:
        return
    from kcli.spark.group_commits import read_note

    newest: dict[str, int] = {}
    for query, batch in filter(None, map(read_note, notes)):
        newest[query] = max(batch, newest.get(query, batch))
    for query, batch in sorted(newest.items()):
        yield f"  committed by Spark query {query}, batch {batch}"


def format_totals(totals: LagTotals) -> str:
    """Return `lag 1234 in 12 partitions, up to 3m07s; unknown in 2`."""
    if not totals.partitions:
        return "no committed offsets, no owned partitions"
    if totals.unknown == totals.partitions:
        return f"lag unknown in {format_count(totals.partitions, 'partition')}"
    text = f"lag {totals.lag} in {format_count(totals.partitions, 'partition')}"
    if totals.max_time_lag_ms:
        text += f", up to {format_duration(totals.max_time_lag_ms)}"
    return f"{text}; unknown in {totals.unknown}" if totals.unknown else text


def _time_lag_notes(partitions: Iterable[PartitionLag], *, verbose: bool) -> Iterator[str]:
    from collections import Counter

    from kcli.admin.groups.lag import CREATE_TIME

    counts: Counter[tuple[bool, str]] = Counter()
    noted = Counter((p.time_lag_ms is None, p.time_lag_note) for p in partitions if p.time_lag_note)
    for (unknown, note), count in noted.items():
        shown = [part for part in note.split("; ") if verbose or part != CREATE_TIME]
        if shown:
            counts[unknown, "; ".join(shown)] += count
    explanations = _explanations() if counts else {}
    for (unknown, note), count in sorted(counts.items()):
        reasons = "; ".join(explanations.get(part, part) for part in note.split("; "))
        yield f"TIME-LAG {'-' if unknown else '~'} in {format_count(count, 'row')}: {reasons}"


def _explanations() -> dict[str, str]:
    from kcli.admin.groups import lag

    return {
        lag.CREATE_TIME: "the producer set the time",
        lag.HOLE: "there is no record at this offset; the time is that of the next record",
        lag.DELETED: "the records at this offset are deleted; the time is that of the first remaining record",
        lag.PARTLY_DONE: "some records after the start offset are acknowledged, perhaps this one",
        lag.NOTHING_THERE: "there is no record at or after this offset",
        lag.NO_TIMESTAMP: "the record has no timestamp",
        lag.BEYOND_END: "the committed offset is after the log end, so the lag is unknown: the log was truncated, or "
        "the topic was created again",
        lag.FUTURE: "the time is ahead of the local clock: the producer's clock or this one is wrong",
    }
