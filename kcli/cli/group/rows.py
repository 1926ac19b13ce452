"""The rows of `kcli group describe`: which partitions, in which order, and what a table shows of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kcli.cli.group.items import failed_row, shown_node, shown_partitions
from kcli.cli.options import check_choice
from kcli.cli.output.report import error_field
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.groups.model import GroupMember
    from kcli.admin.groups.survey import GroupSurvey
    from kcli.cli.output.report import Item
    from kcli.errors import KcliError

PARTITION_COLUMNS = ["group", "topic", "partition", "committed", "start", "end", "lag", "time_lag"]
PARTITION_FIELDS = [*PARTITION_COLUMNS[:-1], "time_lag_ms", "time_lag_note"]  # for programs
OWNER_FIELDS = ["member", "instance_id", "host", "client_id", "rack"]
MEMBER_FIELDS = [
    *("group", "member", "instance_id", "host", "client_id", "rack", "member_type", "epoch"),
    *("partitions", "assignment", "target"),
]
OPTIONAL = {"instance_id", "rack", "member_type", "epoch", "target"}
STATE_COLUMNS = ["group", "type", "state", "coordinator", "protocol", "assignor", "epoch", "target_epoch", "members"]

#: A `PartitionLag`, or what looks like one and has only a group and an error.
Row = tuple[Any, ...]

SORTS = ("topic", "lag", "time-lag", "member")


def check_sort(sort: str) -> str:
    check_choice("--sort", sort, SORTS)
    return sort


def chosen(partitions: Iterable[PartitionLag], sort: str, *, lagging: bool) -> list[PartitionLag]:
    """By topic and partition; by lag with the largest first, those unknown before them; by member.

    `lagging` leaves out those of which it is certain that they are not behind.
    """
    found = sorted([p for p in partitions if p.lag != 0] if lagging else partitions, key=attrgetter("tp"))
    if sort == "lag":
        found.sort(key=lambda p: _largest_first(p.lag))
    elif sort == "time-lag":
        found.sort(key=lambda p: _largest_first(0 if p.lag == 0 else p.time_lag_ms))
    elif sort == "member":
        found.sort(key=lambda p: min((m.id for m in p.members), default=""))
    return found


def _largest_first(value: int | None) -> tuple[bool, int]:
    return (value is not None, -(value or 0))


def partition_rows(survey: GroupSurvey, partitions: Iterable[PartitionLag]) -> list[Row]:
    """A row for each of these partitions of a group, and one for an error of the group itself."""
    rows: list[Row] = list(partitions)
    return rows if survey.error is None else [*rows, error_row(survey.group.group, survey.error)]


def error_row(group: str | None, error: KcliError) -> Row:
    """A row that has only an error: of a group, or of a broker that did not tell its groups."""
    return (group, (None, None), *[None] * 6, (), error)


def partition_table(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """What these rows have in each field. By columns, since they may be a hundred thousand."""
    if not rows:
        return {}
    group, tps, committed, start, end, lag, times, notes, members, errors = zip(*rows, strict=True)
    topic, partition = zip(*tps, strict=True)
    ages = list(zip(times, notes, strict=True))
    shown = {age: shown_time_lag(*age) for age in set(ages)}
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "committed": [None if it is None else it.offset for it in committed],
        "start": start,
        "end": end,
        "lag": lag,
        "time_lag": [shown[age] for age in ages],
        "time_lag_ms": times,
        "time_lag_note": notes,
        **dict(zip(OWNER_FIELDS, _owners(members), strict=True)),
        "error": [None if error is None else error_field(error) for error in errors],
    }


def _owners(members: Sequence[Sequence[GroupMember]]) -> Iterable[Sequence[str | None]]:
    """By columns what the owners of each row have in OWNER_FIELDS."""
    if not any(members):
        return [(None,) * len(members)] * len(OWNER_FIELDS)
    known: dict[tuple[str, ...], tuple[str | None, ...]] = {}
    return zip(
        *[known.get(ids := tuple([m.id for m in own])) or known.setdefault(ids, _owner(own)) for own in members],
        strict=True,
    )


def _owner(members: Sequence[GroupMember]) -> tuple[str | None, ...]:
    """What the owners have in OWNER_FIELDS: one word each, or several joined by commas (in a share group)."""
    fields = [(m.id, m.instance_id, m.host, m.client_id, m.rack) for m in members]
    return tuple(",".join(filter(None, values)) or None for values in zip(*fields, strict=True)) or (None,) * 5


def shown_time_lag(ms: int | None, note: str | None) -> str | None:
    """One word; a `~` before it says that it is not to be relied upon."""
    if ms is None:
        return None
    return ("~" if note else "") + format_duration(ms)


def partition_columns(table: Mapping[str, Sequence[Any]], *, for_programs: bool) -> list[str]:
    """Columns that are empty for everybody are left out of a table; programs always get the same ones."""
    if for_programs:
        return [*PARTITION_FIELDS, *OWNER_FIELDS]
    return [*PARTITION_COLUMNS, *(f for f in OWNER_FIELDS if f not in OPTIONAL or any(table.get(f, ())))]


def member_rows(items: Iterable[Item]) -> list[Item]:
    """A row for each member."""
    rows = []
    for item in items:
        for member in item.get("members", ()):
            shown = {"assignment": shown_partitions(member["assignment"]), "target": shown_partitions(member["target"])}
            rows.append({"group": item["group"], **member, **shown, "partitions": member["partition_count"]})
        if "error" in item:
            rows.append(failed_row(item))
    return rows


def member_columns(rows: list[Item], *, for_programs: bool) -> list[str]:
    """As `partition_columns`: without epochs for classic members, for instance."""
    return MEMBER_FIELDS if for_programs else _used(MEMBER_FIELDS, rows)


def state_rows(items: Iterable[Item]) -> list[Item]:
    """A row for each group."""
    return [
        {
            **item,
            "coordinator": shown_node(item.get("coordinator")),
            "protocol": item.get("protocol_type"),
            "members": item.get("member_count"),
        }
        for item in items
    ]


def _used(fields: list[str], rows: list[Item]) -> list[str]:
    """Without those of `OPTIONAL` in which no row has anything."""
    return [f for f in fields if f not in OPTIONAL or any(row.get(f) not in (None, "") for row in rows)]
