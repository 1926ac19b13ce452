"""What conditions can ask of a group, from what was seen of it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.admin.groups.lag import PartitionLag, total_lag
from kcli.conditions import Amount, Condition

if TYPE_CHECKING:
    from kcli.admin.groups.model import Group
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.conditions import Facts

OFFSET_FACTS = {"lag", "age", "uncommitted"}


def needs_offsets(condition: Condition | None) -> bool:
    """Can this condition be judged only with committed offsets and ends of logs?"""
    return condition is not None and not OFFSET_FACTS.isdisjoint(condition.names)


def group_facts(group: Group) -> dict[str, Amount | str | None]:
    """State and members."""
    return {"state": group.state or None, "members": Amount(len(group.members))}


def survey_facts(survey: GroupSurvey, *, strict: bool = False) -> Facts:
    """Everything: also lag, age and uncommitted. What failed leaves the rest as a lower bound.

    `strict`: a partition with records of which nothing is committed makes the lag a lower bound too, and so does a
    group that has no partitions yet: who waits until nothing is left does not mean those who have not begun.
    """
    rows = survey.partitions
    totals = total_lag(rows)
    whole = not totals.errors and survey.error is None
    begun = not strict or bool(rows and not uncommitted(rows))
    timeless = any(row.lag and row.time_lag_ms is None for row in rows)
    return {
        **group_facts(survey.group),
        "lag": Amount(totals.lag, whole and begun),
        "age": Amount(totals.max_time_lag_ms or 0, whole and begun and not timeless),
        "uncommitted": Amount(uncommitted(rows), whole),
    }


def uncommitted(rows: list[PartitionLag]) -> int:
    """Partitions that are owned and have records, but no committed offset: how far behind they are nobody can tell."""
    return sum(row.committed is None and row.error is None and row.end != row.start for row in rows)


def shown_facts(facts: Facts, condition: Condition) -> str:
    """`lag is 5000, age is not known`: what the condition asked for."""
    return ", ".join(f"{name} is {_shown(name, facts.get(name))}" for name in sorted(condition.names))


def _shown(name: str, fact: Amount | str | None) -> str:
    from kcli.text import format_duration

    if not isinstance(fact, Amount):
        return fact or "not known"
    value = format_duration(fact.least) if name == "age" else f"{fact.least:.0f}"
    return value if fact.exact else f"{value} or more"
