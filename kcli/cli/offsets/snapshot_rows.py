"""Snapshots as items of a report: what can be undone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.output.report import error_field
from kcli.text import format_timestamp

if TYPE_CHECKING:
    from kcli.admin.offsets.snapshots import Snapshot
    from kcli.cli.output.report import Item
    from kcli.client.requests import Results

COLUMNS = ["id", "time", "kind", "groups", "partitions", "bootstrap", "cluster_id"]
_FEW = 3


def snapshot_items(found: Results[str, Snapshot]) -> list[Item]:
    """An item for each, the oldest first; a file that cannot be read is one with an error."""
    return [
        _item(found.values[name]) if name in found.values else {"id": name, "error": error_field(found.errors[name])}
        for name in sorted([*found.values, *found.errors])
    ]


def _item(snapshot: Snapshot) -> Item:
    return {
        "id": snapshot.id,
        "time": format_timestamp(snapshot.made_ms),
        "made_ms": snapshot.made_ms,
        "kind": snapshot.kind,
        "groups": snapshot.groups,
        "partitions": len(snapshot.changes),
        "bootstrap": snapshot.bootstrap,
        "cluster_id": snapshot.cluster_id,
    }


def snapshot_row(item: Item) -> Item:
    """The row of a table: of many groups the first ones."""
    groups = item.get("groups") or []
    return {**item, "groups": [*groups[:_FEW], *(["..."] if len(groups) > _FEW else [])]}
