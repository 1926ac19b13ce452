"""The view `members`: a row for each member of each group, with what it owns and, under KIP-848, is meant to own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kcli.spark.views.groups import failed_rows, named_groups
from kcli.spark.views.table import View, client_of, table_of, told

if TYPE_CHECKING:
    import pyarrow

    from kcli.admin.groups.model import GroupMember
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange


def read(options: SourceOptions, _: TaskRange | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Members of all groups, or of those named in the options. An empty group has no row, one that fails has one."""
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

    named = named_groups(client, options, deadline_ms)
    described = describe_groups(client, named.kinds, deadline_ms)
    for group in described.values.values():
        for member in group.members:
            yield {"group": group.group, **owner([member]), **_rest(member)}
    yield from failed_rows(named, described.errors)


def owner(members: Sequence[GroupMember]) -> dict[str, str | None]:
    """Who these are, in the columns that `lag` has too: one word each, for several joined by commas."""
    fields = ((it.id, it.instance_id, it.client_id, it.host, it.rack) for it in members)
    words = [",".join(filter(None, values)) or None for values in zip(*fields, strict=True)]
    names = ("member", "instance_id", "client_id", "host", "rack")
    return dict(zip(names, words, strict=True)) if words else {}


def _rest(member: GroupMember) -> dict[str, Any]:
    return {
        "member_type": member.member_type,
        "epoch": member.epoch,
        "subscribed": list(member.topics),
        "pattern": member.pattern,
        "assignment": [tp._asdict() for tp in member.owned],
        "target": None if member.target is None else [tp._asdict() for tp in member.target],
        "error": told(member.error),
    }
