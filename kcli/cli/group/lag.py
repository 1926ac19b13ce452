"""`kcli group lag`: how far behind each group is, a line for each. Never joins, never commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.group.selection import AllGroups, GroupNames, IsolationLevel, Match, NoTimeLag
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.group.selection import Selected
    from kcli.client.requests import Results
    from kcli.conditions import Condition


def run(
    env: Environment,
    common: Common,
    group: GroupNames = None,
    all_groups: AllGroups = False,
    match: Match = None,
    by_topic: Annotated[bool, Option("--by-topic", help="A line for each topic of each group.")] = False,
    fail_if: Annotated[
        str | None,
        Option("--fail-if", metavar="CONDITION", help="Exit with 6 if it holds for a group: 'lag>99 or age>10m'."),
    ] = None,
    isolation_level: IsolationLevel = None,
    no_time_lag: NoTimeLag = False,
) -> int:
    """How far behind each group is: a line for each, for scripts and alarms.

    LAG is the sum over the partitions, MAX-LAG the largest of one, TIME-LAG the age of the oldest record still to be
    read (with a ~ where that is not sound). UNKNOWN counts the partitions that are in no sum: nothing is committed
    there, or they failed, which is an error as well.

    A condition is about lag, age (the TIME-LAG), members, state, and uncommitted (partitions with records of which
    nothing is committed), with > >= < <= = !=, and, or, not, parentheses. Where it cannot be told the status is 1.
    """
    from kcli.cli.group.look import look, without_collections
    from kcli.cli.group.selection import check_selection
    from kcli.conditions import parse_condition

    found = check_selection(group or (), match, every=all_groups)
    condition = None if fail_if is None else parse_condition(fail_if)
    if no_time_lag and condition is not None and "age" in condition.names:
        raise ConfigError("--fail-if asks for the age, which --no-time-lag leaves out")
    with without_collections():
        selected, surveys = look(common, group or (), found, isolation_level, time_lag=not no_time_lag)
        status = _show(env, common, selected, surveys, by_topic=by_topic)
    return status if condition is None else _judged(env, surveys, condition, status)


def _show(
    env: Environment, common: Common, selected: Selected, surveys: Results[str, GroupSurvey], *, by_topic: bool
) -> int:
    from kcli.cli.group.items import failed_group, unheard_broker
    from kcli.cli.group.lags import lag_columns, lag_item, lag_rows
    from kcli.cli.group.outcome import status_of_survey
    from kcli.cli.output.report import Report, show

    items = [
        lag_item(surveys.values[name]) if name in surveys.values else failed_group(name, surveys.errors[name])
        for name in selected.groups
    ]
    items += [unheard_broker(node, error) for node, error in selected.unheard.items()]
    columns = lag_columns(by_topic=by_topic, for_programs=common.output in ("csv", "tsv"))
    show(env, Report("group.lag", columns, items, lag_rows(items, by_topic=by_topic)), common.output)
    return status_of_survey(selected, surveys)


def _judged(env: Environment, surveys: Results[str, GroupSurvey], condition: Condition, status: int) -> int:
    from kcli.cli.group.threshold import judge_all

    status, lines = judge_all(surveys.values.values(), condition, status)
    for line in lines:
        env.say(line)
    return status
