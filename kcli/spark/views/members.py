"""The view `members`: a row for each member of each group, with its assignment and, under KIP-848, its target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kcli.spark.views.groups import failed_rows, select_groups
from kcli.spark.views.table import View, client_of, error_text, table_of

if TYPE_CHECKING:
    import pyarrow

    from kcli.admin.groups.group import GroupMember
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange


def read(options: SourceOptions, _: Sequence[TaskRange] = ()) -> Iterator[pyarrow.RecordBatch]:
    """Yield the members of all groups, or of those in the options. An empty group has no row, a failed group
    has one.
    """
    with client_of(options) as (client, deadline_ms):
        yield from table_of(MEMBERS, options, _rows(client, options, deadline_ms))


OWNER_COLUMNS = (
    ("member", "string"),
    ("instance_id", "string"),
    ("client_id", "string"),
    ("host", "string"),
    ("rack", "string"),
)
_PARTITIONS = "array<struct<topic:string,partition:int>>"

MEMBERS = View(
    "members",
    (
        ("group", "string"),
        *OWNER_COLUMNS,
        ("member_type", "string"),
        ("epoch", "int"),
        ("subscribed", "array<string>"),
        ("pattern", "string"),
        ("assignment", _PARTITIONS),
        ("target", _PARTITIONS),
        ("error", "string"),
    ),
    ranged=False,
    read=read,
)


def _rows(client: ConsumerNetworkClient, options: SourceOptions, deadline_ms: float) -> Iterator[dict[str, Any]]:
    from kcli.admin.groups.describe import describe_groups

    selected = select_groups(client, options, deadline_ms)
    described = describe_groups(client, selected.types, deadline_ms)
    for group in described.values.values():
        for member in group.members:
            yield {"group": group.group, **owner([member]), **_rest(member)}
    yield from failed_rows(selected, described.errors)


def owner(members: Sequence[GroupMember]) -> dict[str, str | None]:
    """Return the columns of the owner that `lag` has too; values of several members are separated by commas."""
    fields = ((member.id, member.instance_id, member.client_id, member.host, member.rack) for member in members)
    joined = [",".join(filter(None, values)) or None for values in zip(*fields, strict=True)]
    names = ("member", "instance_id", "client_id", "host", "rack")
    return dict(zip(names, joined, strict=True)) if joined else {}


def _rest(member: GroupMember) -> dict[str, Any]:
    return {
        "member_type": member.member_type,
        "epoch": member.epoch,
        "subscribed": list(member.topics),
        "pattern": member.pattern,
        "assignment": [tp._asdict() for tp in member.owned],
        "target": None if member.target is None else [tp._asdict() for tp in member.target],
        "error": error_text(member.error),
    }
