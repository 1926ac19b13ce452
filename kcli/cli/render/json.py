"""Reports as JSON: one versioned document, or one object per line.

The document is `{"kcli": 1, "kind": "topic.list", "items": [...]}`. The number changes when a field is renamed,
removed, or changes its meaning; new fields may come at any time. Items that failed have a field `error`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.cli.render.report import Report

VERSION = 1


def as_document(report: Report) -> str:
    """The whole report as one JSON document, indented."""
    return (
        json.dumps({"kcli": VERSION, "kind": report.kind, "items": report.items}, indent=2, ensure_ascii=False) + "\n"
    )


def as_lines(report: Report) -> str:
    """One JSON object per item and line."""
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in report.items)
