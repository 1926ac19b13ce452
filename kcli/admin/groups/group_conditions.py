"""Conditions on groups: the values they compare, alarms, and waits. Never joins, never commits.

The grammar is that of `kcli.conditions`. The names are those of `KINDS`: the columns of `kcli group lag`, `age` for
time-lag, `uncommitted` and `beyond-end`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.group import is_absent
from kcli.admin.groups.lag import LagTotals, PartitionLag, total_lag
from kcli.conditions import Amount, Condition, Facts, Kind, parse_condition
from kcli.errors import ConfigError, KcliError, WakeupError
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.groups.group import Group
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.client.consumer_network_client import ConsumerNetworkClient

KINDS = {
    "lag": Kind.COUNT,
    "max-lag": Kind.COUNT,
    "members": Kind.COUNT,
    "partitions": Kind.COUNT,
    "unknown": Kind.COUNT,
    "uncommitted": Kind.COUNT,
    "beyond-end": Kind.COUNT,
    "age": Kind.DURATION,
    "time-lag": Kind.DURATION,
    "state": Kind.STATE,
    "type": Kind.STATE,
}
SHORTHANDS = {"empty": "state=Empty", "stable": "state=Stable"}
_FROM_DESCRIPTION = {"members", "state", "type"}
_FROM_RECORDS = {"age", "time-lag"}
_LAST_LOOK_MS = 1000  # the observation after the deadline waits this long for its answers


def parse_group_condition(text: str) -> Condition:
    """Parse `lag>1000 or age>10m`. ConfigError."""
    return parse_condition(text, KINDS)


def parse_until(text: str) -> Condition:
    """Parse `empty`, `stable`, or any condition such as `lag<=100`. ConfigError."""
    try:
        return parse_group_condition(SHORTHANDS.get(text.strip().lower(), text))
    except ConfigError as error:
        raise ConfigError(f"use empty, stable, or a condition such as lag<=0; {error}") from None


def needs_offsets(condition: Condition | None) -> bool:
    """Return True for a condition that needs committed offsets and end offsets."""
    return condition is not None and not condition.names <= _FROM_DESCRIPTION


def needs_records(condition: Condition | None) -> bool:
    """Return True for a condition on the time lag, which needs the records at the committed offsets."""
    return condition is not None and not _FROM_RECORDS.isdisjoint(condition.names)


def group_facts(group: Group) -> dict[str, Amount | str | None]:
    """Return type, state and members: the values that a description alone gives."""
    return {"type": group.type, "state": group.state or None, "members": Amount(len(group.members))}


def survey_facts(survey: GroupSurvey, *, strict: bool = False) -> Facts:
    """Return all values. A failed partition, and one committed after the log end, leave lower bounds.

    `strict` is for waits: lag is a lower bound also where a partition with records has no committed offset, and where
    the group has no partitions yet, because a group that has not begun has not caught up.
    """
    rows = survey.partitions
    totals = total_lag(rows)
    complete = not totals.errors and survey.error is None
    begun = not strict or bool(rows and not uncommitted(rows))
    measured = complete and begun and not totals.beyond_end
    age_missing = any(row.lag and row.time_lag_ms is None for row in rows)
    age = Amount(totals.max_time_lag_ms or 0, measured and not age_missing)
    return {
        **group_facts(survey.group),
        "lag": Amount(totals.lag, measured),
        "max-lag": Amount(totals.max_lag, measured),
        "age": age,
        "time-lag": age,
        "partitions": Amount(totals.partitions, survey.error is None),
        "unknown": Amount(totals.unknown, survey.error is None),
        "uncommitted": Amount(uncommitted(rows), complete),
        "beyond-end": Amount(totals.beyond_end, complete),
    }


def uncommitted(rows: list[PartitionLag]) -> int:
    """Return the number of owned partitions with records and without a committed offset; their lag is unknown."""
    return sum(row.committed is None and row.error is None and row.end != row.start for row in rows)


class Verdicts(NamedTuple):
    """A condition evaluated for several groups: the groups for which it holds, and those for which it is unknown.

    Each maps to the values, such as `lag is 4 or more`.
    """

    holds: dict[str, str]
    unknown: dict[str, str]


def judge_groups(surveys: Iterable[GroupSurvey], condition: Condition) -> Verdicts:
    """Evaluate the condition for each group. An unknown result must not count as a pass."""
    verdicts = Verdicts({}, {})
    for survey in surveys:
        facts = survey_facts(survey)
        verdict = condition.judge(facts)
        if verdict is not False:
            target = verdicts.holds if verdict else verdicts.unknown
            target[survey.group.group] = condition.describe(facts) + _of_beyond_end(total_lag(survey.partitions))
    return verdicts


def _of_beyond_end(totals: LagTotals) -> str:
    """Return the reason why a lag has no upper bound; "" without one."""
    count = totals.beyond_end
    return f"; the committed offset of {format_count(count, 'partition')} is after the log end" if count else ""


class WaitStep(NamedTuple):
    """Result of one observation: `done` when the wait is over, and the values at that moment."""

    done: bool
    values: str


class GroupWait:
    """Progress of a wait for a condition, one observation at a time. Pure.

    A group that does not exist may still be created, so the wait goes on, except when it waits for the group to become
    empty: then GROUP_ID_NOT_FOUND is raised if the group never existed, and a group that was deleted counts as empty.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._until_empty = condition.text == SHORTHANDS["empty"]
        self._existed = False

    def observe(self, facts: Facts) -> WaitStep:
        """Take the values of an existing group."""
        self._existed = True
        verdict = self._condition.judge(facts)
        return WaitStep(verdict is True, self._condition.describe(facts))

    def observe_error(self, error: KcliError) -> WaitStep:
        """Take a failed observation; raise the error again if another attempt cannot help."""
        if not is_absent(error):
            if error.retriable:
                return WaitStep(False, str(error))
            raise error
        if self._until_empty and not self._existed:
            raise error
        return WaitStep(self._until_empty, "the group does not exist")


class WaitResult(NamedTuple):
    """End of a wait. `values` are the last ones, as text.

    `state`, `members` and `lag` are those of the last successful observation; None if there was none, and `lag` also if
    the condition does not need offsets.
    """

    reached: bool
    values: str
    waited_ms: float = 0.0
    state: str | None = None
    members: int | None = None
    lag: int | None = None


def wait_for_group(
    client: ConsumerNetworkClient,
    group: str,
    condition: Condition,
    deadline_ms: float,
    *,
    interval_ms: float = 1000.0,
    progress: Callable[[str], object] = lambda _: None,
) -> WaitResult:
    """Observe the group every `interval_ms` until the condition holds or the deadline passes.

    `progress` is called with the values after each observation that does not end the wait. A deadline that passes is a
    result with `reached` False. Errors that another attempt cannot help are raised: GROUP_AUTHORIZATION_FAILED, or
    GROUP_ID_NOT_FOUND in a wait for a group to become empty that never existed.
    """
    began_ms = client.clock.now_ms()
    wait = GroupWait(condition)
    last: WaitResult | None = None
    while True:
        until_ms = max(deadline_ms, client.clock.now_ms() + _LAST_LOOK_MS)
        seen = _observe(client, group, condition, wait, until_ms)
        last = seen if seen.state is not None or last is None else last
        now_ms = client.clock.now_ms()
        if seen.reached or now_ms >= deadline_ms:
            return last._replace(reached=seen.reached, values=seen.values, waited_ms=now_ms - began_ms)
        progress(seen.values)
        client.sleep(min(interval_ms, deadline_ms - now_ms))


def _observe(
    client: ConsumerNetworkClient, group: str, condition: Condition, wait: GroupWait, deadline_ms: float
) -> WaitResult:
    """Return the result of one observation; `waited_ms` is not known here."""
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.groups.survey import survey_groups

    try:
        if not needs_offsets(condition):
            described = describe_groups(client, {group: None}, deadline_ms)
            if group in described.errors:
                return WaitResult(*wait.observe_error(described.errors[group]))
            found = described.values[group]
            step = wait.observe(group_facts(found))
            return WaitResult(*step, state=found.state, members=len(found.members))
        surveys = survey_groups(client, [group], deadline_ms, time_lag=needs_records(condition))
        if group in surveys.errors:
            return WaitResult(*wait.observe_error(surveys.errors[group]))
        survey = surveys.values[group]
        totals = total_lag(survey.partitions)
        step = wait.observe(survey_facts(survey, strict=True))
        if not step.done:
            step = WaitStep(False, step.values + _of_beyond_end(totals))
        members = len(survey.group.members)
        return WaitResult(*step, state=survey.group.state, members=members, lag=totals.known_lag)
    except WakeupError:
        raise
    except KcliError as error:
        return WaitResult(*wait.observe_error(error))
