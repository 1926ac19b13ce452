"""`kcli group describe`: how far groups have read, their members, or their state. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import AllGroups, GroupNames, IsolationLevel, Match, NoTimeLag
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.group.rows import Row
    from kcli.cli.group.selection import Selected
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

KIND = "group.describe"
BY_TOPIC = "topic"


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    all_groups: AllGroups = False,
    match: Match = None,
    members: Annotated[
        bool, Option("--members", help="The members and what each of them owns, instead of offsets.")
    ] = False,
    state: Annotated[
        bool, Option("--state", help="State, coordinator, assignor and epochs, instead of offsets.")
    ] = False,
    lagging: Annotated[bool, Option("--lagging", help="Leave out partitions that are not behind.")] = False,
    sort: Annotated[
        str, Option("--sort", metavar="KEY", help="Within a group by topic, lag, time-lag or member.")
    ] = BY_TOPIC,
    isolation_level: IsolationLevel = None,
    no_time_lag: NoTimeLag = False,
) -> int:
    """How far groups have read: a row for each partition that is committed or owned.

    LAG is END minus COMMITTED; committed offsets are asked for before ends. TIME-LAG is the age of the next record to
    be read, with a ~ where that is not sound: standard error says why, and what all rows come to. A - for COMMITTED:
    the partition is owned, but nothing is committed. A - for MEMBER: nobody owns it now. Looking at a group does not
    disturb it.
    """
    from kcli.cli.group.look import look, without_collections
    from kcli.cli.group.rows import check_sort
    from kcli.cli.group.selection import check_selection

    found = check_selection(group or (), match, every=all_groups)
    if members and state:
        raise ConfigError("--members and --state are two different tables: ask for one")
    check_sort(sort)
    if members or state:
        of_offsets = {
            "--lagging": lagging,
            "--sort": sort != BY_TOPIC,
            "--isolation-level": isolation_level is not None,
            "--no-time-lag": no_time_lag,
        }
        _refuse("--members" if members else "--state", of_offsets)
        return _describe(env, common, group or (), found, members=members)
    with without_collections():
        selected, surveys = look(common, group or (), found, isolation_level, time_lag=not no_time_lag)
        return _show_partitions(env, common, selected, surveys, sort, lagging=lagging)


def _refuse(table: str, of_offsets: dict[str, bool]) -> None:
    for option, is_given in of_offsets.items():
        if is_given:
            raise ConfigError(f"{option} is about offsets, which {table} does not show")


def _show_partitions(
    env: Environment,
    common: Common,
    selected: Selected,
    surveys: Results[str, GroupSurvey],
    sort: str,
    *,
    lagging: bool,
) -> int:
    from kcli.cli.group.items import failed_group, survey_item, unheard_broker
    from kcli.cli.group.outcome import status_of_survey
    from kcli.cli.group.rows import chosen, error_row, partition_columns, partition_rows, partition_table
    from kcli.cli.group.summary import summary
    from kcli.cli.output.report import Report, show

    items: list[Item] = []
    rows: list[Row] = []
    for name in selected.groups:
        if name in surveys.errors:
            items.append(failed_group(name, surveys.errors[name]))
            rows.append(error_row(name, surveys.errors[name]))
            continue
        partitions = chosen(surveys.values[name].partitions, sort, lagging=lagging)
        rows += partition_rows(surveys.values[name], partitions)
        if common.output in ("json", "jsonl"):
            items.append(survey_item(surveys.values[name], partitions))
    for node, error in selected.unheard.items():
        items.append(unheard_broker(node, error))
        rows.append(error_row(None, KcliError(f"the groups of {node} are not known: {error}")))
    table = partition_table(rows)
    columns = partition_columns(table, for_programs=common.output in ("csv", "tsv"))
    show(env, Report(KIND, columns, items, table=table), common.output)
    if common.output in (None, "table"):
        for line in summary(list(surveys.values.values())):
            env.say(line)
    return status_of_survey(selected, surveys)


def _describe(
    env: Environment, common: Common, names: Sequence[str], found: re.Pattern[str] | None, *, members: bool
) -> int:
    from kcli.admin.groups.describe import describe_groups
    from kcli.cli.group.items import described_item, failed_group, unheard_broker
    from kcli.cli.group.outcome import status_of_look
    from kcli.cli.group.rows import STATE_COLUMNS, member_columns, member_rows, state_rows
    from kcli.cli.group.selection import select_groups
    from kcli.cli.output.report import Report, show

    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        selected = select_groups(client, names, found, deadline_ms)
        described = describe_groups(client, selected.groups, deadline_ms)
    items = [
        described_item(described.values[name], members=members)
        if name in described.values
        else failed_group(name, described.errors[name])
        for name in selected.groups
    ]
    items += [unheard_broker(node, error) for node, error in selected.unheard.items()]
    rows = member_rows(items) if members else state_rows(items)
    columns = member_columns(rows, for_programs=common.output in ("csv", "tsv")) if members else STATE_COLUMNS
    show(env, Report(KIND, columns, items, rows), common.output)
    unread = members and any(member.error for group in described.values.values() for member in group.members)
    return status_of_look(selected.failures(described), failed_parts=unread, succeeded=bool(described.values))
