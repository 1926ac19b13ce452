"""`kcli group wait`: wait for a condition on a group. Never joins, never commits."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common, check_interval, naming
from kcli.cli.parser import Argument, Option
from kcli.text import group_text

COLUMNS = ["group", "until", "reached", "state", "members", "lag", "waited_ms"]


def run(
    env: Environment,
    common: Common,
    group: Annotated[str, Argument(metavar="GROUP", help="Group to wait for.")],
    until: Annotated[
        str, Option("--until", metavar="CONDITION", help="Wait for empty, stable, or a condition such as 'lag<=0'.")
    ],
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", help="Wait this long between two observations.")
    ] = 1.0,
) -> int:
    """Wait until a group is empty, stable, or meets a condition; at most for --timeout.

    Status 0: the condition was reached. Status 5: --timeout passed first. A condition is written as for `kcli group lag
    --fail-if`. The lag is unknown, and a condition on it not reached, while a partition with records has no committed
    offset. A group that does not exist yet is waited for; with --until empty it must exist (otherwise status 3), or
    must have existed when the wait began.
    """
    from kcli.admin.groups.group_conditions import needs_offsets, parse_until, wait_for_group
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Item, Report

    with naming("--until"):
        condition = parse_until(until)
    check_interval(interval)
    began_ms, deadline_ms = env.clock.now_ms(), common.deadline_ms()
    with closing(common.connect()) as client:
        result = wait_for_group(
            client,
            group,
            condition,
            deadline_ms,
            interval_ms=interval * 1000,
            progress=lambda values: env.report(f"{group_text(group)}: {values}") if common.verbose else None,
        )
    item: Item = {"group": group, "until": until, "reached": result.reached}
    if result.state is not None:
        item |= {"state": result.state, "member_count": result.members}
        item |= {"lag": result.lag} if needs_offsets(condition) else {}
    # From the same start as the deadline, so that a wait that timed out is never shorter than --timeout.
    item["waited_ms"] = round(env.clock.now_ms() - began_ms)
    print_report(env, Report("group.wait", COLUMNS, [item], [{**item, "members": result.members}]), common.output)
    if result.reached:
        return exit_status.DONE
    env.report(f"kcli: {group_text(group)} did not reach {until} in {common.timeout_ms / 1000:g} s: {result.values}")
    return exit_status.INCOMPLETE
