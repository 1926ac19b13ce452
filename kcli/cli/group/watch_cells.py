"""A topic's row in words and numbers, for every view alike. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.cli.group.rates import TopicRow
    from kcli.cli.output.report import Item

COLUMNS = ["group", "state", "members", "topic", "partitions", "lag", "consumed_per_s", "produced_per_s", "drain"]
NUMBERS = {"members", "partitions", "lag", "consumed_per_s", "produced_per_s", "drain"}


def row_item(row: TopicRow) -> Item:
    """The row as data: rates in records per second, `drain_ms` in milliseconds, null for never and for not known."""
    from kcli.cli.output.report import error_field

    item: Item = {
        "group": row.group,
        "state": row.state or None,
        "member_count": row.members if row.state else None,
        "topic": row.topic,
        "partition_count": row.partitions if row.topic is not None else None,
        "lag": row.lag,
        "consumed_per_s": _rounded(row.consumed),
        "produced_per_s": _rounded(row.produced),
        "drain_ms": None if row.drain_ms is None else round(row.drain_ms),
    }
    if row.error is not None:
        item["error"] = error_field(row.error)
    return item


def row_cells(row: TopicRow) -> list[str]:
    """The row as text, by COLUMNS; `-` for what is not known, `never` for a lag that does not shrink."""
    shown = {**as_row(row_item(row)), "drain": drain(row)}
    return [_cell(shown[column]) for column in COLUMNS]


def as_row(item: Item) -> Item:
    """The item with the names that its columns have in a table."""
    return {**item, "members": item["member_count"], "partitions": item["partition_count"]}


def drain(row: TopicRow) -> str:
    """When the lag is gone: `3m07s`, `never` as things are, `-` when it is not known."""
    if row.drain_ms is not None:
        return format_duration(row.drain_ms) if row.drain_ms else "0s"
    return "never" if row.lag and row.consumed is not None else "-"


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)
