"""Why a group is stuck or silent: every rule, applied to the facts. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kcli.admin.groups.findings import Finding, most_severe_first

if TYPE_CHECKING:
    from kcli.admin.groups.explain_facts import Facts

Rule = Callable[["Facts"], Iterable[Finding]]
RULES: tuple[Rule, ...] = ()


def explain(facts: Facts) -> list[Finding]:
    """Everything the rules find, the most severe first."""
    return most_severe_first(finding for rule in RULES for finding in rule(facts))
