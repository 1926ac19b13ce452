"""Saved plans held against the logs of now: rows whose target no reader could begin at any more are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.admin.groups.bounds import learn_topics, log_bounds
from kcli.admin.groups.patience import half_of
from kcli.admin.offsets.plan import where_outside
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.admin.groups.bounds import LogBounds
    from kcli.admin.offsets.plan import Plan, Row
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def within_reach(client: ConsumerNetworkClient, plan: Plan, deadline_ms: float) -> Plan:
    """The plan, with those moves refused whose new offset the log does not have (any more), or not as far as is known.

    Undoing brings offsets back as they were, wherever that is: such a plan is not looked at.
    """
    wanted = {row.tp for row in plan.rows if row.action == "move"}
    if plan.kind == "undo" or not wanted:
        return plan
    learn_topics(client, {tp.topic for tp in wanted}, half_of(client, deadline_ms))
    bounds = log_bounds(client, wanted, half_of(client, deadline_ms))
    return plan._replace(rows=tuple(_held_against(row, bounds) for row in plan.rows))


def _held_against(row: Row, bounds: LogBounds) -> Row:
    if row.action != "move" or row.new is None:
        return row
    start, end = bounds.starts.get(row.tp), bounds.ends.get(row.tp)
    for error in (end, start):
        if isinstance(error, KcliError):
            return row._replace(new=None, action="refuse", why=error.message, error=error)
    if isinstance(start, int) and isinstance(end, int) and not start <= row.new.offset <= end:
        why = f"{where_outside(row.new.offset, start, end)} by now"
        return row._replace(new=None, action="refuse", why=why)
    return row
