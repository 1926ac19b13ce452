"""Parser of plan and position files. The format is detected from the text; errors name the line or item. Pure.

The formats are the JSON and CSV of `plan_files`, and the CSV of Apache's tool with three or four fields. As in files of
a spreadsheet, a byte order mark, carriage returns, empty lines, unknown columns, and any order of columns are allowed.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from kcli.admin.offsets.offset_plan import WHOLE_TOPIC, Action, FromOffsets, Kind, OffsetPlan, OffsetRow, make_plan
from kcli.admin.offsets.plan_files import PLAN_KIND, POSITIONS_KIND, VERSION, Positions
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import group_text

_CELLS = {"leader_epoch": "epoch"}  # after `old_` and `new_`


def read_plan_file(text: str, source: str) -> OffsetPlan | Positions:
    """Return a plan or positions. ConfigError names `source` and the line or item."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ConfigError(f"{source} is empty")
    return _read_json(text, source) if text.lstrip()[0] in "{[" else _read_csv(text, source)


def offsets_of(plan: OffsetPlan, source: str) -> FromOffsets:
    """Return the new offsets of a plan. ConfigError for a plan with refused or deleted rows, which have none."""
    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {}
    for row in plan.rows:
        if row.action in ("refuse", "delete"):
            what = "refuses" if row.action == "refuse" else "deletes"
            name = f"{group_text(row.group)} {_partition_name(row.tp)}"
            raise ConfigError(f"{source} is a plan that {what} {name}, so it has no offset for it")
        if row.new is not None and row.action != "skip":
            offsets[row.group, row.tp] = row.new
    return FromOffsets(offsets, source)


def _read_json(text: str, source: str) -> OffsetPlan | Positions:
    document = _parse(text, source)
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in (PLAN_KIND, POSITIONS_KIND):
        raise ConfigError(f"{source} is neither a plan nor an export of offsets: its kind is {json.dumps(kind)}")
    if document.get("kcli") != VERSION:
        raise ConfigError(f"{source} is of version {json.dumps(document.get('kcli'))}; this kcli reads {VERSION}")
    items = document.get("items")
    if not isinstance(items, list):
        raise ConfigError(f"{source} has no list of items")
    top = Place(source, "beginning")
    cluster_id = optional_text(document, "cluster_id", top)
    made_ms = optional_number(document, "made_ms", top) or 0
    places = [(Place(source, f"item {n}"), item) for n, item in enumerate(items, 1)]
    for place, item in places:
        if not isinstance(item, dict):
            raise place.error("not an object")
    if kind == POSITIONS_KIND:
        return Positions(_offsets(places), True, cluster_id, made_ms)
    rows = _checked((place, _row(item, place)) for place, item in places)
    return make_plan(_kind(document.get("plan"), top), rows, made_ms, _states(document, top), cluster_id)


def _parse(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ConfigError(f"{source} is JSON lines; a plan is one document (--output json)") from None
        raise ConfigError(f"{source}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except (RecursionError, ValueError):  # deep nesting, or a number with thousands of digits
        raise ConfigError(f"{source} is not a JSON file of kcli") from None


def _states(document: Mapping[str, Any], top: Place) -> dict[str, str]:
    states = document.get("states", {})
    if not isinstance(states, dict) or not all(isinstance(state, str) for state in states.values()):
        raise top.error("states must map groups to text")
    return states


def _read_csv(text: str, source: str) -> OffsetPlan | Positions:
    lines = list(_csv_lines(text, source))
    if not lines:
        raise ConfigError(f"{source} is empty")
    place, first = lines[0]
    names = [name.strip() for name in first]
    if not {"topic", "partition"} <= set(names):
        return Positions(_apache_offsets(lines), exact=False)
    if twice := {name for name in names if name and names.count(name) > 1}:
        raise place.error(f"two columns have the name {sorted(twice)[0]}")
    items = []
    for place, cells in lines[1:]:
        if len(cells) != len(names):
            raise place.error(f"{len(cells)} fields under {len(names)} headings")
        items.append((place, dict(zip(names, cells, strict=True))))
    if "action" not in names:
        cluster_ids = {item.get("cluster_id") or None for _, item in items}
        _one(cluster_ids, "clusters", source)
        numbered = [
            (place, with_numbers(item, ("partition", "offset", "leader_epoch"), place)) for place, item in items
        ]
        return Positions(_offsets(numbered), True, next(iter(cluster_ids), None), _made_ms(items))
    return _csv_plan(items, source)


def _csv_plan(items: Sequence[tuple[Place, Mapping[str, str]]], source: str) -> OffsetPlan:
    if not items:
        raise ConfigError(f"{source} is a plan without rows")
    for name in ("plan", "cluster_id"):
        _one({item.get(name) for _, item in items}, f"values of {name}", source)
    place, first = items[0]
    rows = _checked((place, _row(_nested(item, place), place)) for place, item in items)
    states = {item["group"]: item["state"] for _, item in items if item.get("state")}
    return make_plan(_kind(first.get("plan"), place), rows, _made_ms(items), states, first.get("cluster_id") or None)


def _csv_lines(text: str, source: str) -> Iterator[tuple[Place, list[str]]]:
    """Yield the fields of each record with its first line; quoted metadata may contain line breaks."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield Place(source, f"line {number}"), cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise ConfigError(f"{source}, line {number}: not CSV: {error}") from None


def _apache_offsets(
    lines: Sequence[tuple[Place, list[str]]],
) -> dict[tuple[str | None, TopicPartition], OffsetAndMetadata]:
    width = len(lines[0][1])
    items = []
    for place, cells in lines:
        if width not in (3, 4):
            hint = "; separate them by commas, not by semicolons" if width == 1 and ";" in cells[0] else ""
            expected = "topic,partition,offset or group,topic,partition,offset"
            raise place.error(f"{len(cells)} fields; expected {expected}{hint}")
        if len(cells) != width:
            raise place.error(f"{len(cells)} fields; the first line has {width}")
        item: dict[str, Any] = dict(zip(("topic", "partition", "offset"), (c.strip() for c in cells[-3:]), strict=True))
        if width == 4:
            item["group"] = cells[0]
        items.append((place, with_numbers(item, ("partition", "offset"), place)))
    return _offsets(items)


def _offsets(
    items: Sequence[tuple[Place, Mapping[str, Any]]],
) -> dict[tuple[str | None, TopicPartition], OffsetAndMetadata]:
    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {}
    seen: dict[tuple[str | None, TopicPartition], Place] = {}
    for place, item in items:
        group = optional_text(item, "group", place)
        tp = TopicPartition(required_text(item, "topic", place), required_number(item, "partition", place))
        if (group, tp) in seen:
            raise place.error(f"{_partition_name(tp)} is a duplicate of {seen[group, tp].where}")
        seen[group, tp] = place
        offsets[group, tp] = _position(item, place)
    return offsets


def _row(item: Mapping[str, Any], place: Place) -> OffsetRow:
    group, topic = optional_text(item, "group", place), optional_text(item, "topic", place) or ""
    if group is None:
        raise place.error("missing group")
    number = optional_number(item, "partition", place)
    action: Any = item.get("action")
    if action not in get_args(Action):
        raise place.error(f"{json.dumps(action)} is not a valid action; use {', '.join(get_args(Action))}")
    old, new = (_optional_position(item, name, place) for name in ("old", "new"))
    if action != "refuse" and (number is None or not topic):
        raise place.error(f"{action} needs a topic and a partition")
    if action == "move" and new is None:
        raise place.error("move needs a new offset")
    if action == "delete" and new is not None:
        raise place.error("delete must not have a new offset")
    return OffsetRow(
        (group, TopicPartition(topic, WHOLE_TOPIC if number is None else number)),
        old,
        new,
        action,
        optional_text(item, "why", place) or "",
        _error(item.get("error")),
        optional_number(item, "reread", place) or 0,
        optional_number(item, "skipped", place) or 0,
    )


def _nested(item: Mapping[str, str], place: Place) -> dict[str, Any]:
    """Return a line of a plan in the form of its JSON item."""
    row: dict[str, Any] = with_numbers(item, ("partition", "reread", "skipped"), place)
    for side in ("old", "new"):
        cells = {"offset": item.get(side, "")}
        for name in ("leader_epoch", "metadata"):
            cells[name] = item.get(f"{side}_{_CELLS.get(name, name)}", "")
        row[side] = with_numbers(cells, ("offset", "leader_epoch"), place) if cells["offset"].strip() else None
    return row


def _checked(rows: Iterator[tuple[Place, OffsetRow]]) -> list[OffsetRow]:
    seen: dict[tuple[str, TopicPartition], Place] = {}
    checked = []
    for place, row in rows:
        if (row.group, row.tp) in seen:
            where = seen[row.group, row.tp].where
            raise place.error(f"{_partition_name(row.tp)} of group {group_text(row.group)} is a duplicate of {where}")
        seen[row.group, row.tp] = place
        checked.append(row)
    return checked


def _kind(word: object, place: Place) -> Kind:
    for kind in get_args(Kind):
        if word == kind:
            return kind  # type: ignore[no-any-return]
    raise place.error(f"{json.dumps(word)} is not a valid kind of plan; use {', '.join(get_args(Kind))}")


def _one(values: set[str | None], what: str, source: str) -> None:
    if len(values) > 1:
        raise ConfigError(f"{source} has several {what}: {', '.join(sorted(map(str, values)))}")


def _made_ms(items: Sequence[tuple[Place, Mapping[str, str]]]) -> int:
    """Return the earliest time: lines of several files may be combined."""
    times = [cell_number(item["made_ms"], "made_ms", place) for place, item in items if item.get("made_ms")]
    return min((ms for ms in times if ms is not None), default=0)


def _optional_position(item: Mapping[str, Any], name: str, place: Place) -> OffsetAndMetadata | None:
    found = item.get(name)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise place.error(f"{name} is not an object")
    return _position(found, place)


def _position(item: Mapping[str, Any], place: Place) -> OffsetAndMetadata:
    epoch = optional_number(item, "leader_epoch", place)
    note = optional_text(item, "metadata", place) or ""
    return OffsetAndMetadata(required_number(item, "offset", place), -1 if epoch is None else epoch, note)


def _error(value: object) -> KcliError | None:
    """Return an error of the file: a BrokerError if the code is known. CSV has only its message."""
    if isinstance(value, str):
        value = {"message": value} if value else None
    if not isinstance(value, dict):
        return None
    name, message = str(value.get("code")), str(value.get("message"))
    for code in ErrorCode.all():
        if name == code.name or message.startswith(f"{code.name}: "):
            return BrokerError(code, message.removeprefix(f"{code.name}: "))
    return KcliError(message)


def _partition_name(tp: TopicPartition) -> str:
    return tp.topic if tp.partition == WHOLE_TOPIC else f"{tp.topic}-{tp.partition}"


_LARGEST = {"partition": 2**31 - 1, "leader_epoch": 2**31 - 1}
_LARGEST_OFFSET = 2**63 - 1


class Place(NamedTuple):
    """A place in a file, for error messages."""

    source: str
    where: str

    def error(self, what: str) -> ConfigError:
        """Return the error for this place."""
        return ConfigError(f"{self.source}, {self.where}: {what}")


def required_text(item: Mapping[str, Any], name: str, place: Place) -> str:
    """Return a text field that is required and not empty."""
    text = optional_text(item, name, place)
    if not text:
        raise place.error(f"missing {name}")
    return text


def optional_text(item: Mapping[str, Any], name: str, place: Place) -> str | None:
    """Return a text field, None if it is missing or null."""
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise place.error(f"{name} is not text: {json.dumps(value)}")
    return value


def required_number(item: Mapping[str, Any], name: str, place: Place) -> int:
    """Return a required whole number of at least 0."""
    number = optional_number(item, name, place)
    if number is None:
        raise place.error(f"missing {name}")
    return number


def optional_number(item: Mapping[str, Any], name: str, place: Place) -> int | None:
    """Return a whole number that Kafka can store, None if the field is missing or null."""
    value = item.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _LARGEST.get(name, _LARGEST_OFFSET):
        raise place.error(f"{name}: {json.dumps(value)[:40]} is not valid")
    return value


def with_numbers(item: Mapping[str, Any], names: Sequence[str], place: Place) -> dict[str, Any]:
    """Return the item with these cells as numbers, None for an empty cell."""
    return {**item, **{name: cell_number(item.get(name, ""), name, place) for name in names}}


def cell_number(cell: str, name: str, place: Place) -> int | None:
    """Return a CSV cell as a number, None if it is empty."""
    text = cell.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise place.error(f"{name}: '{text[:40]}' is not valid")
    return int(text)
