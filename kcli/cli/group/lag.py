"""`kcli group lag`: the lag of each group, one line per group. Never joins, never commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.group.openmetrics import (
    MetricOptions,
    add_survey,
    report_failures,
    without_metrics,
)
from kcli.cli.group.selection import (
    GroupSelection,
    LagOptions,
    Wide,
    status_of_survey,
    survey_selected,
    without_collections,
)
from kcli.cli.options import OUTPUTS as COMMON_OUTPUTS
from kcli.cli.options import Common, check_choice, naming
from kcli.cli.output.openmetrics import print_metrics
from kcli.cli.parser import Option, given_options
from kcli.errors import ConfigError
from kcli.text import format_count, group_text

if TYPE_CHECKING:
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results
    from kcli.conditions import Condition
    from kcli.errors import KcliError

OPENMETRICS = "openmetrics"
OUTPUTS = (*COMMON_OUTPUTS, OPENMETRICS)
SUMS = ["partitions", "lag", "max_lag"]
OPTIONAL = ["time_lag", "state", "max_lag", "members", "unknown", "partitions", "type"]  # the most important first


def run(
    env: Environment,
    common: Common,
    groups: GroupSelection,
    *,
    by_topic: Annotated[bool, Option("--by-topic", help="Show a line for each topic of each group.")] = False,
    fail_if: Annotated[
        str | None,
        Option("--fail-if", metavar="CONDITION", help="Exit with 6 if it holds for a group: 'lag>99 or age>10m'."),
    ] = None,
    measure: LagOptions,
    wide: Wide = False,
    metric: MetricOptions,
    output: Annotated[
        str | None,
        Option("--output", "-O", metavar="|".join(OUTPUTS), help="Set the output format. [KCLI_OUTPUT; table]"),
    ] = None,
) -> int:
    """Show the lag of each group: one line per group, for scripts and alarms.

    LAG is the sum over the partitions, MAX-LAG the largest lag of one partition, TIME-LAG the age of the oldest unread
    record (with a ~ where it is not exact). UNKNOWN counts the partitions that are in no sum: they have no committed
    offset, or one after the log end, which a note names, or they failed, which is an error as well.

    A condition compares the columns (lag, max-lag, time-lag or age, partitions, unknown, members, state, type; in any
    case, with - or _), uncommitted (the number of partitions with records and without a committed offset), and
    beyond-end (of those committed after the log end), with > >= < <= = !=, and, or, not, parentheses. If the result is
    unknown for a group, the status is 1.

    --output openmetrics prints metrics for Prometheus, with the names that `kcli group metrics` lists. For the textfile
    collector of node_exporter, write them to another file and rename it, because the collector may read at any moment.
    If no broker answers, the metrics are kcli_up 0, and the status is 5.
    """
    from kcli.admin.groups.group_conditions import needs_records, parse_group_condition

    with naming("--fail-if"):
        condition = None if fail_if is None else parse_group_condition(fail_if)
    if measure.no_time_lag and needs_records(condition):
        raise ConfigError("--fail-if with time-lag or age cannot be combined with --no-time-lag")
    if output is not None:
        check_choice("--output", output, OUTPUTS)
    as_metrics = output == OPENMETRICS
    if not as_metrics and given_options(metric):
        raise ConfigError("--metric-names and --cluster-name require --output openmetrics")
    if as_metrics and by_topic:
        raise ConfigError("--by-topic cannot be combined with --output openmetrics, which has the topics already")
    make = metric.maker(common) if as_metrics else None
    with without_collections():
        with without_metrics(env, make) if make is not None else nullcontext():
            selected, surveys = survey_selected(common, groups, measure)
        if make is not None:
            metrics = make()
            add_survey(metrics, env.clock.wall_ms(), selected, surveys)
            print_metrics(env, metrics.metrics)
            report_failures(env, selected, surveys)
            _report_beyond_end(env, surveys.values.values())
            status = status_of_survey(selected, surveys)
        else:
            status = _show(env, output or common.output, selected, surveys, by_topic=by_topic, wide=wide)
    if condition is None:
        return status
    status, lines = judge(surveys.values.values(), condition, status)
    for line in lines:
        env.report(line)
    return status


def judge(surveys: Iterable[GroupSurvey], condition: Condition, status: int) -> tuple[int, list[str]]:
    """Return the exit status and a line for each group for which the condition holds or is unknown.

    `status` is the one without the condition. One group for which it holds is enough for 6. An unknown result is a
    failure, because silence would read as a pass.
    """
    from kcli.admin.groups.group_conditions import judge_groups

    verdicts = judge_groups(surveys, condition)
    lines = [f"kcli: {group_text(group)}: {condition.text}: {values}" for group, values in verdicts.holds.items()]
    lines += [
        f"kcli: {group_text(group)}: unknown whether {condition.text}: {values}"
        for group, values in verdicts.unknown.items()
    ]
    if verdicts.holds:
        return exit_status.THRESHOLD, lines
    return (status or exit_status.FAILED) if verdicts.unknown else status, lines


def _show(
    env: Environment,
    output: str | None,
    selected: SelectedGroups,
    surveys: Results[str, GroupSurvey],
    *,
    by_topic: bool,
    wide: bool,
) -> int:
    from kcli.cli.group.rows import failed_broker, failed_group
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    items = [
        lag_item(surveys.values[name]) if name in surveys.values else failed_group(name, surveys.errors[name])
        for name in selected.groups
    ]
    items += [failed_broker(node, error) for node, error in selected.failed_brokers.items()]
    columns = _columns(by_topic=by_topic, for_programs=output in ("csv", "tsv"))
    optional = () if wide else OPTIONAL
    report = Report("group.lag", columns, items, lag_rows(items, by_topic=by_topic), optional=optional)
    print_report(env, report, output)
    _report_beyond_end(env, surveys.values.values())
    return status_of_survey(selected, surveys)


def _report_beyond_end(env: Environment, surveys: Iterable[GroupSurvey]) -> None:
    """Report the groups whose lag is unknown because offsets are committed after the log end."""
    from kcli.admin.groups.lag import total_lag

    for survey in surveys:
        if count := total_lag(survey.partitions).beyond_end:
            partitions = format_count(count, "partition")
            env.report(
                f"kcli: note: {group_text(survey.group.group)}: the committed offset of {partitions} is after the log "
                "end, so the lag is unknown: the log was truncated, or the topic was created again"
            )


def _columns(*, by_topic: bool, for_programs: bool) -> list[str]:
    leading = ["group", "topic"] if by_topic else ["group", "type", "state", "members"]
    return [*leading, *SUMS, "time_lag_ms" if for_programs else "time_lag", "unknown"]


def lag_item(survey: GroupSurvey) -> Item:
    """Return a group's totals and those of its topics. A failed partition makes the sums incomplete: an item error."""
    from kcli.admin.groups.lag import rows_by_topic
    from kcli.cli.group.rows import group_item

    sums = _sums(survey.partitions, survey.error)
    topics = rows_by_topic(survey.partitions)
    is_only = len(topics) == 1 and survey.error is None  # then the sums of the group are those of its topic
    return {
        **group_item(survey.group),
        **sums,
        "topics": [{"topic": topic, **(sums if is_only else _sums(rows))} for topic, rows in topics.items()],
    }


def _sums(rows: Sequence[PartitionLag], error: KcliError | None = None) -> Item:
    from kcli.admin.groups.lag import total_lag
    from kcli.cli.group.rows import totals_item
    from kcli.cli.output.report import error_field

    item: Item = totals_item(total_lag(rows))
    item["time_lag_notes"] = sorted({row.time_lag_note for row in rows if row.time_lag_note})
    errors = [row.error for row in rows if row.error is not None]
    if error is not None:
        item["error"] = error_field(error)
    elif errors:
        first = error_field(errors[0])
        extent = "the sums are incomplete" if len(errors) < len(rows) else "no partition answered"
        item["error"] = {**first, "message": f"{extent}: {first['message']}"}
    return item


def lag_rows(items: Iterable[Item], *, by_topic: bool) -> list[Item]:
    """Return a row for each group or each of its topics; a failed group is a row too."""
    from kcli.cli.group.rows import failed_row

    rows = []
    for item in items:
        if "lag" not in item:
            rows.append(failed_row(item))
        elif by_topic:
            rows += [{**_row(topic), "group": item["group"]} for topic in item["topics"]]
            if "error" in item and not any("error" in topic for topic in item["topics"]):
                rows.append(failed_row(item))
        else:
            rows.append({**_row(item), "members": item["member_count"]})
    return rows


def _row(item: Item) -> Item:
    from kcli.cli.group.rows import format_time_lag

    ms = item["max_time_lag_ms"]
    time_lag = format_time_lag(ms, "; ".join(item["time_lag_notes"]))
    return {**item, "partitions": item["partition_count"], "time_lag_ms": ms, "time_lag": time_lag}
