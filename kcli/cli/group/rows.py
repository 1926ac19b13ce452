"""Groups, members and partitions as JSON-ready items, and the flat rows of their tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kcli.cli.output.report import error_field
from kcli.structs import numbers_by_topic
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.groups.group import Group, GroupMember
    from kcli.admin.groups.lag import LagTotals, PartitionLag
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError
    from kcli.structs import Node

PARTITION_COLUMNS = ["group", "topic", "partition", "committed", "start", "end", "lag", "time_lag"]
PARTITION_FIELDS = [*PARTITION_COLUMNS[:-1], "time_lag_ms", "time_lag_note"]  # for programs
OWNER_FIELDS = ["member", "instance_id", "host", "client_id", "rack"]
MEMBER_FIELDS = [
    *("group", "member", "instance_id", "host", "client_id", "rack", "member_type", "epoch"),
    *("partitions", "assignment", "target"),
]
OPTIONAL = {"instance_id", "rack", "member_type", "epoch", "target"}
STATE_COLUMNS = ["group", "type", "state", "coordinator", "protocol", "assignor", "epoch", "target_epoch", "members"]
# Columns that a narrow terminal omits, the most important first.
OPTIONAL_OF_PARTITIONS = ["committed", "end", "time_lag", "member", "client_id", "host", "instance_id", "start", "rack"]
OPTIONAL_OF_MEMBERS = [
    *("partitions", "client_id", "assignment", "instance_id", "host", "epoch", "rack", "member_type", "target")
]
OPTIONAL_OF_STATES = ["members", "type", "coordinator", "assignor", "epoch", "target_epoch", "protocol"]

#: A `PartitionLag`, or a tuple of that shape with a group and an error only.
Row = tuple[Any, ...]

SORTS = ("topic", "lag", "time-lag", "member")


def sorted_partitions(partitions: Iterable[PartitionLag], sort: str, *, lagging: bool) -> list[PartitionLag]:
    """Sort by topic and partition; by lag or time lag, unknown and largest first; or by member.

    `lagging` leaves out the partitions whose lag is known to be 0.
    """
    rows = sorted([p for p in partitions if p.lag != 0] if lagging else partitions, key=attrgetter("tp"))
    if sort == "lag":
        rows.sort(key=lambda p: _largest_first(p.lag))
    elif sort == "time-lag":
        rows.sort(key=lambda p: _largest_first(0 if p.lag == 0 else p.time_lag_ms))
    elif sort == "member":
        rows.sort(key=lambda p: min((m.id for m in p.members), default=""))
    return rows


def _largest_first(value: int | None) -> tuple[bool, int]:
    return (value is not None, -(value or 0))


def partition_rows(survey: GroupSurvey, partitions: Iterable[PartitionLag]) -> list[Row]:
    """Return a row for each of these partitions, and one for an error of the group itself."""
    rows: list[Row] = list(partitions)
    return rows if survey.error is None else [*rows, error_row(survey.group.group, survey.error)]


def error_row(group: str | None, error: KcliError) -> Row:
    """Return a row with only an error: of a group, or of a broker whose groups are unknown."""
    return (group, (None, None), *[None] * 6, (), error)


def partition_table(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """Return the values of all rows by field: columns, because there may be 100,000 rows."""
    if not rows:
        return {}
    group, tps, committed, start, end, lag, times, notes, members, errors = zip(*rows, strict=True)
    topic, partition = zip(*tps, strict=True)
    ages = list(zip(times, notes, strict=True))
    texts = {age: format_time_lag(*age) for age in set(ages)}
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed": [None if offset is None else offset.offset for offset in committed],
        "start": start,
        "end": end,
        "lag": lag,
        "time_lag": [texts[age] for age in ages],
        "time_lag_ms": times,
        "time_lag_note": notes,
        **dict(zip(OWNER_FIELDS, _owners(members), strict=True)),
        "error": [None if error is None else error_field(error) for error in errors],
    }


def _owners(members: Sequence[Sequence[GroupMember]]) -> Iterable[Sequence[str | None]]:
    """Return the columns OWNER_FIELDS of the owners of each row."""
    if not any(members):
        return [(None,) * len(members)] * len(OWNER_FIELDS)
    known: dict[tuple[str, ...], tuple[str | None, ...]] = {}
    return zip(
        *[known.get(ids := tuple([m.id for m in own])) or known.setdefault(ids, _owner(own)) for own in members],
        strict=True,
    )


def _owner(members: Sequence[GroupMember]) -> tuple[str | None, ...]:
    """Return the OWNER_FIELDS of the owners; several owners (in a share group) are joined by commas."""
    fields = [(m.id, m.instance_id, m.host, m.client_id, m.rack) for m in members]
    return tuple(",".join(filter(None, values)) or None for values in zip(*fields, strict=True)) or (None,) * 5


def format_time_lag(ms: int | None, note: str | None) -> str | None:
    """Return the time lag as text; a `~` marks one that is not exact."""
    if ms is None:
        return None
    return ("~" if note else "") + format_duration(ms)


def partition_columns(table: Mapping[str, Sequence[Any]], *, for_programs: bool) -> list[str]:
    """Return the columns: a table omits those that are empty in all rows; programs always get all."""
    if for_programs:
        return [*PARTITION_FIELDS, *OWNER_FIELDS]
    return [*PARTITION_COLUMNS, *(f for f in OWNER_FIELDS if f not in OPTIONAL or any(table.get(f, ())))]


def member_rows(items: Iterable[Item]) -> list[Item]:
    """Return a row for each member."""
    rows = []
    for item in items:
        for member in item.get("members", ()):
            cells = {
                "assignment": format_assignment(member["assignment"]),
                "target": format_assignment(member["target"]),
            }
            rows.append({"group": item["group"], **member, **cells, "partitions": member["partition_count"]})
        if "error" in item:
            rows.append(failed_row(item))
    return rows


def member_columns(rows: list[Item], *, for_programs: bool) -> list[str]:
    """Return the columns: a table omits those that are empty in all rows; programs always get all."""
    return MEMBER_FIELDS if for_programs else _used(MEMBER_FIELDS, rows)


def state_rows(items: Iterable[Item]) -> list[Item]:
    """Return a row for each group."""
    return [
        {
            **item,
            "coordinator": format_node(item.get("coordinator")),
            "protocol": item.get("protocol_type"),
            "members": item.get("member_count"),
        }
        for item in items
    ]


def _used(fields: list[str], rows: list[Item]) -> list[str]:
    """Return the fields without those of `OPTIONAL` that are empty in all rows."""
    return [f for f in fields if f not in OPTIONAL or any(row.get(f) not in (None, "") for row in rows)]


def group_item(group: Group) -> Item:
    """Return the fields of a group, without its members."""
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "coordinator": node_item(group.coordinator),
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "member_count": len(group.members),
    }


def described_item(group: Group, *, members: bool) -> Item:
    """Return a group, with `members` also its members, sorted by client and id."""
    item = group_item(group)
    if members:
        item["members"] = [member_item(m) for m in sorted(group.members, key=lambda m: (m.client_id, m.id))]
    return item


def survey_item(survey: GroupSurvey, partitions: Sequence[PartitionLag]) -> Item:
    """Return a group with these of its partitions, and the totals of all of them."""
    from kcli.admin.groups.lag import total_lag, total_lag_by_topic

    topics = total_lag_by_topic(survey.partitions)
    item = {
        **group_item(survey.group),
        "total": totals_item(total_lag(survey.partitions)),
        "topics": [{"topic": topic, **totals_item(totals)} for topic, totals in topics.items()],
        "partitions": [partition_item(lag) for lag in partitions],
    }
    if survey.error is not None:
        item["error"] = error_field(survey.error)
    return item


def node_item(node: Node) -> Item:
    return {"node": node.id, "host": node.host, "port": node.port}


def failed_group(group: str, error: KcliError) -> Item:
    return {"group": group, "error": error_field(error)}


def failed_broker(node: Node, error: KcliError) -> Item:
    """Return the item of a broker whose groups are unknown, because its request failed."""
    return {"group": None, "coordinator": node_item(node), "error": error_field(error)}


def member_item(member: GroupMember) -> Item:
    """Return a member with its subscription, assignment and target; `epoch` and `target` of KIP-848 members only."""
    item: Item = {
        "member": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "member_type": member.member_type,
        "epoch": member.epoch,
        "subscribed": list(member.topics),
        "pattern": member.pattern,
        "partition_count": len(member.owned),
        "assignment": numbers_by_topic(member.owned),
        "target": None if member.target is None else numbers_by_topic(member.target),
    }
    if member.error is not None:
        item["error"] = error_field(member.error)
    return item


def partition_item(lag: PartitionLag) -> Item:
    """Return a partition of a group; only in a share group it has several `owners`."""
    _, (topic, partition), committed, start, end, offset_lag, time_lag_ms, note, members, error = lag
    offset, epoch, metadata = (None, -1, None) if committed is None else committed
    item: Item = {
        "topic": topic,
        "partition": partition,
        "committed": offset,
        "committed_epoch": None if epoch < 0 else epoch,
        "metadata": metadata,
        "start": start,
        "end": end,
        "lag": offset_lag,
        "time_lag_ms": time_lag_ms,
        "time_lag_note": note,
        "owners": [_owner_item(member) for member in members] if members else [],
    }
    if error is not None:
        item["error"] = error_field(error)
    return item


def _owner_item(member: GroupMember) -> Item:
    return {
        "member": member.id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "rack": member.rack,
    }


def format_assignment(assignment: dict[str, list[int]] | None) -> str | None:
    """Return `orders:0,1;bills:2`, as Apache's tool writes it; None without partitions."""
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in (assignment or {}).items()) or None


def format_node(item: Item | None) -> str | None:
    """Return a coordinator as `host:port(id)`."""
    return None if item is None else f"{item['host']}:{item['port']}({item['node']})"


def totals_item(totals: LagTotals) -> Item:
    """Return the sums over partitions; `lag` is the sum of the known ones, None if none is known."""
    known = totals.known_lag is not None
    return {
        "partition_count": totals.partitions,
        "lag": totals.known_lag,
        "max_lag": totals.max_lag if known else None,
        "max_time_lag_ms": totals.max_time_lag_ms,
        "unknown": totals.unknown,
        "beyond_end": totals.beyond_end,
    }


def failed_row(item: Item) -> Item:
    """Return a row with only an error: of a group, or of a broker, which is named in `host`."""
    if item["group"] is None and "coordinator" in item:
        return {"group": None, "host": format_node(item["coordinator"]), "error": item["error"]}
    return {"group": item["group"], "error": item["error"]}
