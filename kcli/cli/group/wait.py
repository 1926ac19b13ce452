"""`kcli group wait`: until a group is empty, stable, or no further behind than so much. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Argument, Option

if TYPE_CHECKING:
    from kcli.cli.group.waiting import Step, Waiting
    from kcli.cli.output.report import Item
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.conditions import Condition

COLUMNS = ["group", "until", "reached", "state", "members", "lag", "waited_ms"]
LAST_LOOK_MS = 1000  # the look when the time is up has so long for its answers


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="The group to wait for.")],
    until: Annotated[str, Option("--until", metavar="WHAT", help="empty, stable, or a condition such as 'lag<=0'.")],
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="How long between two looks at the group.")
    ] = 1.0,
) -> int:
    """Wait until a group is empty, stable, or no further behind than so much; at most for --timeout.

    The status is 0 when that is reached, 5 when the time is up. A condition is written as for `kcli group lag
    --fail-if`; of a partition with records of which nothing is committed the lag counts as unknown, and a condition on
    it as not reached. A group that is not there yet is waited for, but one to become empty must be there (3), or have
    been when the wait began.
    """
    from kcli.cli.group.selection import check_names
    from kcli.cli.group.waiting import Waiting, parse_until
    from kcli.cli.options import check_interval

    check_names([group])
    condition = parse_until(until)
    check_interval(interval)
    began_ms, deadline_ms = env.clock.now_ms(), common.deadline_ms()
    waiting = Waiting(condition)
    seen: Item = {}
    with closing(common.connect()) as client:
        while True:
            until_ms = max(deadline_ms, env.clock.now_ms() + LAST_LOOK_MS)
            step, now_seen = _look(client, group, condition, waiting, until_ms)
            seen = now_seen or seen
            now_ms = env.clock.now_ms()
            if step.done or now_ms >= deadline_ms:
                break
            if common.verbose:
                env.say(f"{group}: {step.now}")
            client.sleep(min(interval * 1000, deadline_ms - now_ms))
    item = {"group": group, "until": until, "reached": step.done, **seen, "waited_ms": round(now_ms - began_ms)}
    _show(env, common, item)
    if step.done:
        return exit_status.DONE
    env.say(f"kcli: {group} is not {until} after {common.timeout_ms / 1000:g} s: {step.now}")
    return exit_status.INCOMPLETE


def _look(
    client: ConsumerNetworkClient, group: str, condition: Condition, waiting: Waiting, deadline_ms: float
) -> tuple[Step, Item]:
    """One look: what it means for the wait, and the group as seen."""
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.groups.lag import total_lag
    from kcli.admin.groups.survey import survey_groups
    from kcli.cli.group.facts import group_facts, needs_offsets, survey_facts
    from kcli.errors import KcliError

    try:
        if not needs_offsets(condition):
            described = describe_groups(client, {group: None}, deadline_ms)
            if group in described.errors:
                return waiting.failed(described.errors[group]), {}
            found = described.values[group]
            return waiting.saw(group_facts(found)), {"state": found.state, "member_count": len(found.members)}
        surveys = survey_groups(client, [group], deadline_ms, time_lag="age" in condition.names)
        if group in surveys.errors:
            return waiting.failed(surveys.errors[group]), {}
        survey = surveys.values[group]
        seen = {"state": survey.group.state, "member_count": len(survey.group.members)}
        return waiting.saw(survey_facts(survey, strict=True)), {**seen, "lag": total_lag(survey.partitions).lag}
    except KcliError as error:
        return waiting.failed(error), {}


def _show(env: Environment, common: Common, item: Item) -> None:
    from kcli.cli.output.report import Report, show

    row = {**item, "members": item.get("member_count")}
    show(env, Report("group.wait", COLUMNS, [item], [row]), common.output)
