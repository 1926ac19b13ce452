"""Plans and positions as text for files: JSON, CSV with a header, and the CSV of Apache's tool. Pure.

| content | JSON | CSV |
|---|---|---|
| a plan | a document of kind `offsets.plan`, a row an item | a line for each row |
| positions | a document of kind `offsets.positions` | group, topic, partition, offset, leader epoch, note, cluster |
| positions for Apache's tool | | no header: `topic,partition,offset`, with the group in front for several |

An unknown leader epoch and a missing offset are null or empty. The fields of the preview (bytes, first record) are for
people and are not read back. `plan_reading` reads these files.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kcli.admin.offsets.offset_plan import WHOLE_TOPIC, FromOffsets
from kcli.errors import BrokerError, ConfigError
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import group_text

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import FirstRecord, OffsetPlan, OffsetRow

Item: TypeAlias = dict[str, Any]
GroupPartition: TypeAlias = tuple[str, TopicPartition]

VERSION = 1
_PLAIN = r"[\w.:+/=-][\w .:+/=-]*|"  # cells that need no quotes
PLAN_KIND, POSITIONS_KIND = "offsets.plan", "offsets.positions"
POSITION_COLUMNS = ["group", "topic", "partition", "offset", "leader_epoch", "metadata", "cluster_id", "made_ms"]
PLAN_COLUMNS = [
    *("group", "topic", "partition", "action", "old", "old_epoch", "old_metadata", "new", "new_epoch", "new_metadata"),
    *("reread", "skipped", "bytes_estimate", "first_offset", "first_timestamp_ms", "first_key", "why", "error"),
    *("plan", "state", "cluster_id", "made_ms"),
]


class Positions(NamedTuple):
    """Offsets of an export; a key without a group is for the group that the user names.

    `exact`: with leader epochs and metadata (Apache's CSV has none). `cluster_id` is the cluster of origin, None if
    unknown; `made_ms` (since the epoch) is the time of the export, 0 if unknown.
    """

    offsets: Mapping[tuple[str | None, TopicPartition], OffsetAndMetadata]
    exact: bool = True
    cluster_id: str | None = None
    made_ms: int = 0

    @property
    def groups(self) -> list[str]:
        """Named groups, sorted."""
        return sorted({group for group, _ in self.offsets if group is not None})

    def target(self, source: str) -> FromOffsets:
        """Return the target for `plan_reset`; `source` is the file name for reasons."""
        return FromOffsets(self.offsets, source, exact=self.exact)


def plan_as_json(plan: OffsetPlan, outcomes: Mapping[GroupPartition, Item] | None = None) -> str:
    """Return a document; `outcomes` are fields to add to rows after execution."""
    extra = outcomes or {}
    items = [{**row_item(row), **extra.get((row.group, row.tp), {})} for row in plan.rows]
    header = {"plan": plan.kind, "made_ms": plan.made_ms, "cluster_id": plan.cluster_id, "states": dict(plan.states)}
    return _document(PLAN_KIND, header, items)


def plan_as_csv(plan: OffsetPlan) -> str:
    """Return a header and a line for each row; each line has the plan's kind, time and cluster."""
    return _csv([PLAN_COLUMNS, *(_plan_line(plan, row) for row in plan.rows)])


def positions_as_json(positions: Positions) -> str:
    """Return a document, sorted by group and partition."""
    header = {"made_ms": positions.made_ms, "cluster_id": positions.cluster_id}
    items = [
        {"group": group, "topic": tp.topic, "partition": tp.partition, **_position(at)}
        for (group, tp), at in _sorted(positions)
    ]
    return _document(POSITIONS_KIND, header, items)


def positions_as_csv(positions: Positions) -> str:
    """Return a header and a line for each partition."""
    where = [_text(positions.cluster_id), positions.made_ms or ""]
    lines = [[_text(group), *tp, *_position_cells(at), *where] for (group, tp), at in _sorted(positions)]
    return _csv([POSITION_COLUMNS, *lines])


def positions_as_apache_csv(positions: Positions) -> str:
    """Return Apache's lines, without leader epochs and metadata; with the group only if there are several."""
    several = len(positions.groups) > 1
    return _csv([[*([group] if several else []), *tp, at.offset] for (group, tp), at in _sorted(positions)])


def row_item(row: OffsetRow) -> Item:
    """Return a row as JSON; the row of a whole topic has no partition."""
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
        item["error"] = {"code": code, "message": str(row.error).removeprefix(f"{code}: ")}
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
        item["key_size"] = first.key_size  # the key is cut
    return item


def _key(first: FirstRecord) -> tuple[str | None, str | None]:
    """Return the key as text, or in base64 with its encoding."""
    if first.key is None:
        return None, None
    try:
        return first.key.decode(), None
    except UnicodeDecodeError:
        return b64encode(first.key).decode(), "base64"


def _plan_line(plan: OffsetPlan, row: OffsetRow) -> list[Any]:
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


def _document(kind: str, header: Item, items: Sequence[Item]) -> str:
    return json.dumps({"kcli": VERSION, "kind": kind, **header, "items": items}, indent=2, ensure_ascii=False) + "\n"


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    """Return CSV lines. The standard library's writer does not quote a lone carriage return, which ends a line."""
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines)


def _cell(value: object) -> str:
    text = str(value)
    if re.fullmatch(_PLAIN, text, re.ASCII):
        return text
    return '"' + text.replace('"', '""') + '"'


def rows_of_groups(
    plan: OffsetPlan, groups: Collection[str], to_group: str | None, if_out_of_range: str, source: str
) -> OffsetPlan:
    """Return the plan, or its rows of these groups. A plan is only for the groups and offsets that it has."""
    if to_group is not None:
        raise ConfigError(f"{source} is a plan; --to-group is only for an export of offsets")
    if if_out_of_range != "refuse":
        raise ConfigError(f"{source} is a plan; --if-out-of-range is only for an export of offsets")
    _check_present(groups, plan.groups, source)
    if not plan.rows:
        raise ConfigError(f"{source} is a plan without rows")
    if not groups:
        return plan
    states = {group: state for group, state in plan.states.items() if group in groups}
    return replace(plan, rows=tuple(row for row in plan.rows if row.group in groups), states=states)


def offsets_for_groups(content: Positions, groups: Collection[str], to_group: str | None, source: str) -> Positions:
    """Return the offsets to commit, each for a named group."""
    if not content.offsets:
        raise ConfigError(f"{source} has no offsets")
    unnamed = {tp: at for (group, tp), at in content.offsets.items() if group is None}
    if unnamed and content.groups:
        raise ConfigError(f"{source} has offsets with a group and without one")
    if unnamed:
        names = [*groups, *([] if to_group is None else [to_group])]
        if not names:
            raise ConfigError(f"{source} has no group names; use --group")
        return content._replace(offsets={(name, tp): at for name in names for tp, at in unnamed.items()})
    _check_present(groups, content.groups, source)
    offsets = {key: at for key, at in content.offsets.items() if not groups or key[0] in groups}
    if to_group is not None:
        if len({group for group, _ in offsets}) > 1:
            raise ConfigError(f"{source} has {len(content.groups)} groups; select one for --to-group with --group")
        offsets = {(to_group, tp): at for (_, tp), at in offsets.items()}
    return content._replace(offsets=offsets)


def _check_present(groups: Collection[str], present: Collection[str], source: str) -> None:
    for group in groups:
        if group not in present:
            raise ConfigError(
                f"{source} has no group {group_text(group)}; it has {', '.join(map(group_text, present))}"
            )
