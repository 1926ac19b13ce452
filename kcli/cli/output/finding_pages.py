"""Findings as paragraphs for people, and as items for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.text import group_text

if TYPE_CHECKING:
    from kcli.admin.explain.findings import Finding
    from kcli.cli.environment import Environment
    from kcli.cli.output.report import Item

#: The columns of `finding_item`.
COLUMNS = ["severity", "finding", "subject", "evidence", "advice"]
_COLOURS = {"problem": "\033[1;31m", "warning": "\033[1;33m", "note": "\033[1m"}
_PLAIN = "\033[0m"
_WIDEST = 110


def finding_item(finding: Finding) -> Item:
    """Return the finding as an item; its kind is the field `finding`."""
    item: Item = finding._asdict()
    item["finding"] = item.pop("kind")
    return item


def page(env: Environment, heading: str, findings: Iterable[Finding]) -> str:
    """Return the heading, then a paragraph for each finding.

    Text is wrapped on a terminal only. Names are escaped, so that they cannot control it or add a line.
    """
    from kcli.visible import visible

    lines = [visible(heading)]
    for finding in findings:
        lines += ["", f"{_severity(env, finding)} {finding.kind}: {visible(group_text(finding.subject))}"]
        lines += _paragraph(env, visible(finding.evidence), "  ") + _paragraph(env, visible(finding.advice), "  -> ")
    if len(lines) == 1:
        lines.append("  no findings")
    return "".join(f"{line}\n" for line in lines)


def _severity(env: Environment, finding: Finding) -> str:
    severity = finding.severity.upper()
    return f"{_COLOURS[finding.severity]}{severity}{_PLAIN}" if env.colour else severity


def _paragraph(env: Environment, text: str, mark: str) -> list[str]:
    if not env.stdout_is_terminal:
        return [mark + text]
    from textwrap import wrap

    return wrap(text, min(env.width, _WIDEST), initial_indent=mark, subsequent_indent=" " * len(mark))
