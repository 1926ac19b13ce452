"""Why a group is stuck or silent: every rule, applied to the facts. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import Finding, most_severe_first
from kcli.admin.explain.log_rules import leaderless, open_transactions, retention
from kcli.admin.explain.member_rules import (
    assignors,
    gone_static_members,
    idle_members,
    mixed_members,
    no_members,
    silent_members,
)
from kcli.admin.explain.offset_rules import (
    far_behind,
    lag_trend,
    never_committed,
    outside_the_log,
    unread_topics,
    unreadable,
)
from kcli.admin.explain.rebalance_rules import rebalancing

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations

Rule = Callable[["Observations"], Iterable[Finding]]
RULES: tuple[Rule, ...] = (
    *(outside_the_log, leaderless, retention, open_transactions),
    *(no_members, rebalancing, gone_static_members, silent_members, assignors, mixed_members, idle_members),
    *(never_committed, far_behind, lag_trend, unread_topics, unreadable),
)


def explain(facts: Observations) -> list[Finding]:
    """Everything the rules find, the most severe first."""
    return most_severe_first(finding for rule in RULES for finding in rule(facts))
