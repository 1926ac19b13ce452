"""From a situation and what may happen to it to forecasts, and these on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.assignors.changes import Changes, change
from kcli.assignors.comparison import Comparison, compare, foretell
from kcli.assignors.model import Member
from kcli.cli.assignor.items import (
    COMPARE_COLUMNS,
    DIFF_COLUMNS,
    OWNED_COLUMNS,
    SHOW_COLUMNS,
    compare_rows,
    forecast_item,
    show_rows,
    used,
)
from kcli.cli.output.report import Report

if TYPE_CHECKING:
    from kcli.cli.assignor.situation import Situation
    from kcli.cli.environment import Environment
    from kcli.cli.output.report import Item

NOTHING = Changes()
SHOW, DIFF = "assignor.show", "assignor.diff"


class Outlook(NamedTuple):
    """What there is, who will be a member, and what each of some assignors would make of it."""

    found: Situation
    members: Sequence[Member]
    comparisons: Sequence[Comparison]


def look_ahead(found: Situation, assignors: Sequence[str], changes: Changes = NOTHING) -> Outlook:
    """Forecasts of all these assignors, with what changes. ConfigError, NotFound for changes that cannot be."""
    topics, members = change(found.topics, found.members, changes)
    before = found.before
    return Outlook(found, members, [compare(before, foretell(name, topics, members)) for name in assignors])


def show_outlook(env: Environment, kind: str, outlook: Outlook, output: str | None, *, compared: bool) -> None:
    """The table or document of `kind`; `compared`: a row for each assignor instead of one for each member."""
    from kcli.cli.output.report import show

    with_before = kind == DIFF or any(member.owned for member in outlook.found.members)
    items: list[Item] = []
    if not compared or output in ("json", "jsonl"):
        items = [
            forecast_item(outlook.found, outlook.members, each, with_before=with_before) for each in outlook.comparisons
        ]
    if compared:
        rows, columns = compare_rows(outlook.found, outlook.comparisons, with_before=with_before), COMPARE_COLUMNS
    else:
        rows = show_rows(outlook.comparisons[0], items[0])
        columns = DIFF_COLUMNS if kind == DIFF else SHOW_COLUMNS + (OWNED_COLUMNS if with_before else [])
    report = Report(kind, used(columns, rows, for_programs=output in ("csv", "tsv")), items, rows)
    show(env, report, output)
    if output in (None, "table"):
        from kcli.cli.assignor.words import sentences

        for line in sentences(outlook, with_before=with_before, compared=compared):
            env.say(line)
