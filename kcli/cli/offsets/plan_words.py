"""What a plan comes to, in sentences for standard error. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kcli.admin.offsets.plan import ABSENT, WHOLE_TOPIC
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.offsets.plan import Plan, Row
    from kcli.errors import KcliError
    from kcli.structs import TopicPartition

FEW = 10  # groups told of one by one, and partitions named in a sentence
_FUTURE = {"move": "to move", "delete": "to delete", "keep": "already there", "skip": "left out", "refuse": "refused"}


def plan_words(plan: Plan) -> Iterator[str]:
    """A line for each group: what would become of it; then the partitions without a commit, by name."""
    groups = [(group, list(rows)) for group, rows in groupby(plan.rows, key=attrgetter("group"))]
    if len(groups) > FEW:
        yield f"{len(groups)} groups: {_sums(plan.rows)}"
    for group, rows in groups:
        state = plan.states.get(group)
        if len(groups) <= FEW:
            yield f"{group}{f' ({state})' if state else ''}: {_sums(rows)}"
        new = [row.tp for row in rows if row.old is None and row.tp.partition != WHOLE_TOPIC and row.error is None]
        if state == ABSENT and any(row.new is not None for row in rows):
            yield f"group {group} is not there: what is committed for it makes it"
        elif new:
            yield f"nothing is committed by {group} in {names(new)}"


def _sums(rows: Iterable[Row]) -> str:
    rows = list(rows)
    counts = [(sum(row.action == action for row in rows), words) for action, words in _FUTURE.items()]
    text = ", ".join(f"{count} {words}" for count, words in counts if count) or "no partitions"
    moved = [row for row in rows if row.action == "move"]
    for words, total, sized in (
        ("re-reads", sum(row.reread for row in moved), [row for row in moved if row.reread]),
        ("skips", sum(row.skipped for row in moved), [row for row in moved if row.skipped]),
    ):
        if total:
            known = [row.bytes for row in sized if row.bytes is not None]
            size = f" (~{sum(known)} bytes)" if len(known) == len(sized) else ""
            text += f"; {words} {format_count(total, 'record')}{size}"
    return text


def refusal_words(plan: Plan, obstacles: Iterable[KcliError]) -> Iterator[str]:
    """Everything that stands in the way, a line for each; of rows refused for one reason those are named."""
    for error in obstacles:
        yield f"refused: {error}"
    reasons: dict[tuple[str, str], list[TopicPartition]] = {}
    for row in plan.refused:
        reasons.setdefault((row.group, str(row.error) if row.error else row.why), []).append(row.tp)
    for (group, why), tps in list(reasons.items())[:FEW]:
        yield f"refused: {group}: {names(tps)}: {why}"
    if len(reasons) > FEW:
        yield f"refused: and {len(reasons) - FEW} more"


def names(tps: Iterable[TopicPartition]) -> str:
    """`orders-0, orders-1`; of many the first ones and how many more."""
    told = [tp.topic or "the whole group" if tp.partition == WHOLE_TOPIC else str(tp) for tp in tps]
    more = f" and {len(told) - FEW} more" if len(told) > FEW else ""
    return ", ".join(told[:FEW]) + more


def outcome_words(plan: Plan, errors: Mapping[tuple[str, TopicPartition], KcliError]) -> str:
    """`11 partitions moved, 1 deleted, 2 failed`."""
    told = []
    for action, words in (("move", "moved"), ("delete", "deleted")):
        done = sum(row.action == action and (row.group, row.tp) not in errors for row in plan.rows)
        if done:
            told.append(f"{format_count(done, 'partition')} {words}")
    if errors:
        told.append(f"{format_count(len(errors), 'partition')} failed")
    return ", ".join(told)
