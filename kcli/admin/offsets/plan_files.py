"""Plans and positions as text for files: JSON, CSV with a header, and the CSV of Apache's tool. Pure.

| what | JSON | CSV |
|---|---|---|
| a plan | a document of kind `offsets.plan`, a row an item | a line for each row, its fields behind one another |
| positions | a document of kind `offsets.positions` | group, topic, partition, offset, leader epoch, note, cluster |
| positions for Apache's tool | | no header: `topic,partition,offset`, with the group in front for several |

A leader epoch that is not known is null or empty, where nothing is committed the offset too. What the preview found
(bytes, first record) is for readers: it is not read back. Its reverse is `plan_reading`.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kcli.admin.offsets.plan import WHOLE_TOPIC
from kcli.admin.offsets.targets import FromOffsets
from kcli.errors import BrokerError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.plan import FirstRecord, Plan, Row

Item: TypeAlias = dict[str, Any]
GroupPartition: TypeAlias = tuple[str, TopicPartition]

VERSION = 1
_PLAIN = r"[\w.:+/=-][\w .:+/=-]*|"  # cells that nobody could take for anything else, unquoted
PLAN_KIND, POSITIONS_KIND = "offsets.plan", "offsets.positions"
POSITION_COLUMNS = ["group", "topic", "partition", "offset", "leader_epoch", "metadata", "cluster_id", "made_ms"]
PLAN_COLUMNS = [
    *("group", "topic", "partition", "action", "old", "old_epoch", "old_metadata", "new", "new_epoch", "new_metadata"),
    *("reread", "skipped", "bytes_estimate", "first_offset", "first_timestamp_ms", "first_key", "why", "error"),
    *("plan", "state", "cluster_id", "made_ms"),
]


class Positions(NamedTuple):
    """Offsets to commit, as an export tells them; a key without a group is for whichever group is meant.

    `exact`: leader epochs and notes are told too (Apache's CSV does not). `cluster_id` is where they were read, None
    where that is not told; `made_ms` (since the epoch) when, 0 where not told.
    """

    offsets: Mapping[tuple[str | None, TopicPartition], OffsetAndMetadata]
    exact: bool = True
    cluster_id: str | None = None
    made_ms: int = 0

    @property
    def groups(self) -> list[str]:
        """The groups that are named, sorted."""
        return sorted({group for group, _ in self.offsets if group is not None})

    def target(self, source: str) -> FromOffsets:
        """What `plan_reset` takes; `source` names the file in reasons."""
        return FromOffsets(self.offsets, source, exact=self.exact)


def plan_as_json(plan: Plan, outcomes: Mapping[GroupPartition, Item] | None = None) -> str:
    """A document; `outcomes` are fields to add to rows, for whoever reads what became of them."""
    extra = outcomes or {}
    items = [{**row_item(row), **extra.get((row.group, row.tp), {})} for row in plan.rows]
    head = {"plan": plan.kind, "made_ms": plan.made_ms, "cluster_id": plan.cluster_id, "states": dict(plan.states)}
    return _document(PLAN_KIND, head, items)


def plan_as_csv(plan: Plan) -> str:
    """A header, then a line for each row; each says which plan, of when and where."""
    return _csv([PLAN_COLUMNS, *(_plan_line(plan, row) for row in plan.rows)])


def positions_after(plan: Plan) -> Positions:
    """Where the rows that are written, or are as wanted already, leave their groups."""
    after: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {
        (row.group, row.tp): row.new for row in plan.rows if row.new is not None and row.action in ("move", "keep")
    }
    return Positions(after, True, plan.cluster_id, plan.made_ms)


def positions_as_json(positions: Positions) -> str:
    """A document, sorted by group and partition."""
    head = {"made_ms": positions.made_ms, "cluster_id": positions.cluster_id}
    items = [
        {"group": group, "topic": tp.topic, "partition": tp.partition, **_position(at)}
        for (group, tp), at in _sorted(positions)
    ]
    return _document(POSITIONS_KIND, head, items)


def positions_as_csv(positions: Positions) -> str:
    """A header, then a line for each partition."""
    where = [_text(positions.cluster_id), positions.made_ms or ""]
    lines = [[_text(group), *tp, *_position_cells(at), *where] for (group, tp), at in _sorted(positions)]
    return _csv([POSITION_COLUMNS, *lines])


def positions_as_apache_csv(positions: Positions) -> str:
    """Apache's lines: the layout for one group does not name it, and neither knows leader epochs and notes."""
    several = len(positions.groups) > 1
    return _csv([[*([group] if several else []), *tp, at.offset] for (group, tp), at in _sorted(positions)])


def row_item(row: Row) -> Item:
    """A row as JSON; a topic that could not be looked at has no partition."""
    item: Item = {
        "group": row.group,
        "topic": row.tp.topic,
        "partition": _number(row.tp),
        "action": row.action,
        "old": None if row.old is None else _position(row.old),
        "new": None if row.new is None else _position(row.new),
        "reread": row.reread,
        "skipped": row.skipped,
        "bytes_estimate": row.bytes,
        "first_record": None if row.first is None else _first(row.first),
        "why": row.why,
    }
    if row.error is not None:
        code = row.error.code.name if isinstance(row.error, BrokerError) else type(row.error).__name__
        item["error"] = {"code": code, "message": str(row.error)}
    return item


def _position(at: OffsetAndMetadata) -> Item:
    epoch = None if at.leader_epoch < 0 else at.leader_epoch
    return {"offset": at.offset, "leader_epoch": epoch, "metadata": at.metadata}


def _first(first: FirstRecord) -> Item:
    key, encoding = _key(first)
    item: Item = {"offset": first.offset, "timestamp_ms": None if first.timestamp_ms < 0 else first.timestamp_ms}
    item["key"] = key
    if encoding:
        item["key_encoding"] = encoding
    if first.key is not None and first.key_size is not None and first.key_size > len(first.key):
        item["key_size"] = first.key_size  # only its beginning is shown
    return item


def _key(first: FirstRecord) -> tuple[str | None, str | None]:
    """The key as text, or in base64 where it is none."""
    if first.key is None:
        return None, None
    try:
        return first.key.decode(), None
    except UnicodeDecodeError:
        return b64encode(first.key).decode(), "base64"


def _plan_line(plan: Plan, row: Row) -> list[Any]:
    first: Item = {} if row.first is None else _first(row.first)
    return [
        *(row.group, row.tp.topic, _text(_number(row.tp)), row.action),
        *_position_cells(row.old),
        *_position_cells(row.new),
        *(row.reread, row.skipped, _text(row.bytes)),
        *(_text(first.get(name)) for name in ("offset", "timestamp_ms", "key")),
        *(row.why, _text(row.error)),
        *(plan.kind, plan.states.get(row.group, ""), _text(plan.cluster_id), plan.made_ms),
    ]


def _position_cells(at: OffsetAndMetadata | None) -> list[Any]:
    if at is None:
        return ["", "", ""]
    return [at.offset, "" if at.leader_epoch < 0 else at.leader_epoch, at.metadata]


def _number(tp: TopicPartition) -> int | None:
    return None if tp.partition == WHOLE_TOPIC else tp.partition


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _sorted(positions: Positions) -> list[tuple[tuple[str | None, TopicPartition], OffsetAndMetadata]]:
    return sorted(positions.offsets.items(), key=lambda entry: (entry[0][0] or "", entry[0][1]))


def _document(kind: str, head: Item, items: Sequence[Item]) -> str:
    return json.dumps({"kcli": VERSION, "kind": kind, **head, "items": items}, indent=2, ensure_ascii=False) + "\n"


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    """The standard library's writer leaves a lone carriage return unquoted, where a reader sees the end of a line."""
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines)


def _cell(value: object) -> str:
    text = str(value)
    if re.fullmatch(_PLAIN, text, re.ASCII):
        return text
    return '"' + text.replace('"', '""') + '"'
