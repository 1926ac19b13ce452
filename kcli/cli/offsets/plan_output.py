"""Plans and their outcomes for people and programs: rows of a report, and lines for standard error. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kcli.admin.offsets.offset_plan import ABSENT, WHOLE_TOPIC
from kcli.admin.offsets.plan_files import row_item
from kcli.cli.output.report import Report, error_field, failure_status
from kcli.text import format_count, format_timestamp, group_text
from kcli.visible import visible

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import FirstRecord, OffsetPlan, OffsetRow
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError
    from kcli.structs import TopicPartition

    Outcomes = Mapping[tuple[str, TopicPartition], KcliError | None]

COLUMNS = ["group", "topic", "partition", "action", "old", "new", "reread", "skipped", "bytes", "first_record", "why"]
PROGRAM_COLUMNS = [
    *("group", "topic", "partition", "action", "old", "new", "reread", "skipped", "bytes_estimate"),
    *("first_offset", "first_timestamp_ms", "first_key", "why"),
]
FEW = 10  # groups with a line each, and partitions named in a line
_PLANNED = {"move": "to move", "delete": "to delete", "keep": "unchanged", "skip": "skipped", "refuse": "refused"}
_DONE = {"move": "moved", "delete": "deleted", "keep": "kept", "skip": "skipped", "refuse": "refused"}
_LONGEST_KEY = 24


def plan_report(
    plan: OffsetPlan, outcomes: Outcomes | None = None, snapshot: str | None = None, *, programs: bool
) -> Report:
    """Return the report of a plan, or with `outcomes` of its execution: then a status replaces the action.

    `snapshot` is the id for an undo. `programs`: csv and tsv, with a field for each part of a table's cell.
    """
    columns = PROGRAM_COLUMNS if programs else COLUMNS
    if outcomes is not None:
        columns = ["status" if name == "action" else name for name in columns]
    extra = {} if outcomes is None else outcome_fields(plan, outcomes, snapshot)
    items = [{**row_item(row), **extra.get((row.group, row.tp), {})} for row in plan.rows]
    rows = [_flat(item, row) for item, row in zip(items, plan.rows, strict=True)]
    return Report(f"offsets.{plan.kind}", columns, items, rows)


def outcome_fields(
    plan: OffsetPlan, outcomes: Outcomes, snapshot: str | None
) -> dict[tuple[str, TopicPartition], Item]:
    """Return the fields that execution adds to each item: a status, an error, and the id for an undo."""
    return {(row.group, row.tp): _outcome(row, outcomes.get((row.group, row.tp)), snapshot) for row in plan.rows}


def _outcome(row: OffsetRow, error: KcliError | None, snapshot: str | None) -> Item:
    if error is None:
        return {"status": _DONE[row.action], "snapshot": snapshot}
    return {"status": failure_status(error), "snapshot": snapshot, "error": error_field(error)}


def _flat(item: Item, row: OffsetRow) -> Item:
    """Return the cells of a table or of csv. The reason of a refused row is in `why` only."""
    first = item["first_record"] or {}
    return {
        **item,
        "error": item.get("error") if item.get("status") in ("failed", "unknown") else None,
        "topic": row.tp.topic or None,
        "old": None if row.old is None else row.old.offset,
        "new": None if row.new is None else row.new.offset,
        "bytes": None if row.bytes is None else f"~{row.bytes}",
        "first_record": None if row.first is None else format_first_record(row.first),
        "first_offset": first.get("offset"),
        "first_timestamp_ms": first.get("timestamp_ms"),
        "first_key": first.get("key"),
    }


def format_first_record(first: FirstRecord) -> str:
    """Return time and key without spaces: `2024-01-31T10:00:00.000Z:order-17`; a space in the key becomes `_`."""
    time = format_timestamp(first.timestamp_ms) or "-"
    if first.key is None:
        return time
    key = visible(first.key.decode("utf-8", "backslashreplace"))
    cut = len(key) > _LONGEST_KEY or (first.key_size or 0) > len(first.key)
    return f"{time}:{'_'.join(key[:_LONGEST_KEY].split(' '))}{'...' if cut else ''}"


def plan_lines(plan: OffsetPlan, similar: Mapping[str, str] | None = None) -> Iterator[str]:
    """Return a line of sums for each group, and lines that name the partitions without a committed offset.

    `similar`: for a group that does not exist, a suggestion of another name.
    """
    groups = [(group, list(rows)) for group, rows in groupby(plan.rows, key=attrgetter("group"))]
    if len(groups) > FEW:
        yield f"{len(groups)} groups: {_sums(plan.rows)}"
    for group, rows in groups:
        state = plan.states.get(group)
        if len(groups) <= FEW:
            yield f"{group_text(group)}{f' ({state})' if state else ''}: {_sums(rows)}"
        new = [row.tp for row in rows if row.old is None and row.tp.partition != WHOLE_TOPIC and row.error is None]
        if state == ABSENT and any(row.new is not None for row in rows):
            yield f"group {group_text(group)} does not exist{(similar or {}).get(group, '')}; the commit creates it"
        elif new:
            yield f"{group_text(group)} has no committed offset in {partition_names(new)}"


def _sums(rows: Iterable[OffsetRow]) -> str:
    rows = list(rows)
    counts = [(sum(row.action == action for row in rows), text) for action, text in _PLANNED.items()]
    line = ", ".join(f"{count} {text}" for count, text in counts if count) or "no partitions"
    moved = [row for row in rows if row.action == "move"]
    for verb, total, sized in (
        ("re-reads", sum(row.reread for row in moved), [row for row in moved if row.reread]),
        ("skips", sum(row.skipped for row in moved), [row for row in moved if row.skipped]),
    ):
        if total:
            known = [row.bytes for row in sized if row.bytes is not None]
            size = f" (~{sum(known)} bytes)" if len(known) == len(sized) else ""
            line += f"; {verb} {format_count(total, 'record')}{size}"
    return line


def refusal_lines(plan: OffsetPlan) -> Iterator[str]:
    """Return a line for each error of the whole plan, and for each reason of refused rows, with their partitions."""
    for error in plan.errors:
        yield f"refused: {error}"
    reasons: dict[tuple[str, str], list[TopicPartition]] = {}
    for row in plan.refused:
        reasons.setdefault((row.group, str(row.error) if row.error else row.why), []).append(row.tp)
    for (group, reason), tps in list(reasons.items())[:FEW]:
        yield f"refused: {group_text(group)}: {partition_names(tps)}: {reason}"
    if len(reasons) > FEW:
        yield f"refused: {len(reasons) - FEW} more"


def partition_names(tps: Iterable[TopicPartition]) -> str:
    """Return `orders-0, orders-1`; of many partitions the first ones and the number of the others."""
    names = [tp.topic or "the whole group" if tp.partition == WHOLE_TOPIC else str(tp) for tp in tps]
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def outcome_lines(
    plan: OffsetPlan, errors: Mapping[tuple[str, TopicPartition], KcliError], undo: str | None
) -> Iterator[str]:
    """Return `11 partitions moved, 1 partition deleted, 2 partitions failed; to undo: ...`.

    `undo` is None if nothing was written. A second line explains partitions with an unknown outcome.
    """
    parts = []
    for action, done in (("move", "moved"), ("delete", "deleted")):
        count = sum(row.action == action and (row.group, row.tp) not in errors for row in plan.rows)
        if count:
            parts.append(f"{format_count(count, 'partition')} {done}")
    for status in ("failed", "unknown"):
        count = sum(failure_status(error) == status for error in errors.values())
        if count:
            parts.append(f"{format_count(count, 'partition')} {status}")
    yield f"{', '.join(parts)}; {'nothing was written' if undo is None else f'to undo: {undo}'}"
    if any(failure_status(error) == "unknown" for error in errors.values()):
        yield "unknown: the responses were lost; the undo restores these offsets too, whether they were written or not"
