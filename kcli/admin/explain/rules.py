"""All rules of `explain`, applied to the observations of a group. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import Finding, sort_by_severity
from kcli.admin.explain.log_rules import leaderless_partitions, open_transactions, retention_limits
from kcli.admin.explain.member_rules import (
    absent_static_members,
    idle_members,
    mixed_members,
    no_members,
    silent_members,
    wrong_assignments,
)
from kcli.admin.explain.offset_rules import (
    committed_outside_log,
    lag_skew,
    lag_trend,
    never_committed,
    unavailable_facts,
    unsubscribed_topics,
)
from kcli.admin.explain.rebalance_rules import rebalances

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations

Rule = Callable[["Observations"], Iterable[Finding]]
RULES: tuple[Rule, ...] = (
    *(committed_outside_log, leaderless_partitions, retention_limits, open_transactions),
    *(no_members, rebalances, absent_static_members, silent_members, wrong_assignments, mixed_members, idle_members),
    *(never_committed, lag_skew, lag_trend, unsubscribed_topics, unavailable_facts),
)


def explain(facts: Observations) -> list[Finding]:
    """Return the findings of all rules, the most severe first."""
    return sort_by_severity(finding for rule in RULES for finding in rule(facts))
