"""Plans as rows of a report: what would become of each partition, or what became of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.admin.offsets.plan import WHOLE_TOPIC
from kcli.admin.offsets.plan_files import row_item
from kcli.cli.output.escapes import visible
from kcli.cli.output.report import Report, error_field
from kcli.structs import TopicPartition
from kcli.text import format_timestamp

if TYPE_CHECKING:
    from kcli.admin.offsets.plan import FirstRecord, Plan, Row
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError

    Results = Mapping[tuple[str, TopicPartition], KcliError | None]

COLUMNS = ["group", "topic", "partition", "action", "old", "new", "reread", "skipped", "bytes", "first_record", "why"]
PROGRAM_COLUMNS = [
    *("group", "topic", "partition", "action", "old", "new", "reread", "skipped", "bytes_estimate"),
    *("first_offset", "first_timestamp_ms", "first_key", "why"),
]
_DONE = {"move": "moved", "delete": "deleted", "keep": "kept", "skip": "skipped", "refuse": "refused"}
_LONGEST_KEY = 24

#: In place of a partition, in the refused row of a group of which nothing could be told.
WHOLE_GROUP = TopicPartition("", WHOLE_TOPIC)


def plan_report(plan: Plan, results: Results | None = None, snapshot: str | None = None, *, programs: bool) -> Report:
    """The plan, or with `results` what became of it: then a status in place of the action.

    `snapshot` is the id of what undoes it. `programs`: csv and tsv, with fields for what a table puts in one cell.
    """
    columns = PROGRAM_COLUMNS if programs else COLUMNS
    if results is not None:
        columns = ["status" if name == "action" else name for name in columns]
    outcome = {} if results is None else outcome_fields(plan, results, snapshot)
    items = [{**row_item(row), **outcome.get((row.group, row.tp), {})} for row in plan.rows]
    rows = [_flat(item, row) for item, row in zip(items, plan.rows, strict=True)]
    return Report(f"offsets.{plan.kind}", columns, items, rows)


def outcome_fields(plan: Plan, results: Results, snapshot: str | None) -> dict[tuple[str, TopicPartition], Item]:
    """What an item has besides once the plan was carried out: a status, why it failed, and what undoes it."""
    return {(row.group, row.tp): _outcome(row, results.get((row.group, row.tp)), snapshot) for row in plan.rows}


def _outcome(row: Row, error: KcliError | None, snapshot: str | None) -> Item:
    item: Item = {"status": "failed" if error else _DONE[row.action], "snapshot": snapshot}
    return item if error is None else {**item, "error": error_field(error)}


def _flat(item: Item, row: Row) -> Item:
    """The cells of a table and of csv. Why a row is refused stands there once, in `why`."""
    first = item["first_record"] or {}
    return {
        **item,
        "error": item.get("error") if item.get("status") == "failed" else None,
        "topic": row.tp.topic or None,
        "old": None if row.old is None else row.old.offset,
        "new": None if row.new is None else row.new.offset,
        "bytes": None if row.bytes is None else f"~{row.bytes}",
        "first_record": None if row.first is None else shown_first(row.first),
        "first_offset": first.get("offset"),
        "first_timestamp_ms": first.get("timestamp_ms"),
        "first_key": first.get("key"),
    }


def shown_first(first: FirstRecord) -> str:
    """Time and key in one word: `2024-01-31T10:00:00.000Z:order-17`; blanks in the key are shown as `_`."""
    when = format_timestamp(first.timestamp_ms) or "-"
    if first.key is None:
        return when
    key = visible(first.key.decode("utf-8", "backslashreplace"))
    cut = len(key) > _LONGEST_KEY or (first.key_size or 0) > len(first.key)
    return f"{when}:{'_'.join(key[:_LONGEST_KEY].split(' '))}{'...' if cut else ''}"
