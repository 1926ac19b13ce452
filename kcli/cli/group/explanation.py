"""What `group explain` found, as a page for a person: a line on the group, then a paragraph for each finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.admin.explain.findings import NOTE, PROBLEM, WARNING, count, lasting
from kcli.admin.groups.lag import LagTotals, total_lag

if TYPE_CHECKING:
    from kcli.admin.explain.facts import Facts
    from kcli.admin.explain.findings import Finding
    from kcli.cli.environment import Environment

_COLOURS = {PROBLEM: "\033[1;31m", WARNING: "\033[1;33m", NOTE: "\033[1m"}
_PLAIN = "\033[0m"
_WIDEST = 110


def explanation(env: Environment, facts: Facts, findings: list[Finding]) -> str:
    """The page, wrapped to the terminal; in a pipe each sentence stays on one line. Names cannot command a terminal."""
    from kcli.cli.output.escapes import visible

    shown = visible if env.stdout_is_terminal else str
    group = facts.group
    totals = total_lag(facts.partitions)
    lines = [
        f"{shown(group.group)}: {group.type} group, {group.state}, {count(len(group.members), 'member')}, "
        f"{count(totals.partitions, 'partition')}, lag {_lag(totals)}; two looks, {lasting(facts.elapsed_ms)} apart"
    ]
    if not findings:
        lines.append("  nothing found")
    for finding in findings:
        lines += ["", f"{_severity(env, finding)} {finding.kind}: {shown(finding.subject)}"]
        lines += _paragraph(env, shown(finding.evidence), "  ") + _paragraph(env, shown(finding.advice), "  -> ")
    return "".join(f"{line}\n" for line in lines)


def _lag(totals: LagTotals) -> str:
    """The sum, and of how many partitions it is not the sum: nothing is committed there, or they failed."""
    if totals.unknown and totals.unknown == totals.partitions:
        return "not known"
    return f"{totals.lag:,}" + (f", of {totals.unknown} not known" if totals.unknown else "")


def _severity(env: Environment, finding: Finding) -> str:
    word = finding.severity.upper()
    return f"{_COLOURS[finding.severity]}{word}{_PLAIN}" if env.colour else word


def _paragraph(env: Environment, text: str, mark: str) -> list[str]:
    if not env.stdout_is_terminal:
        return [mark + text]
    from textwrap import wrap

    return wrap(text, min(env.width, _WIDEST), initial_indent=mark, subsequent_indent=" " * len(mark))
