"""The view `groups`: a row for each group of the cluster; and what `members` and `lag` need to know of groups first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.spark.views.table import View, client_of, table_of, told

if TYPE_CHECKING:
    import pyarrow

    from kcli.admin.groups.listing import ListedGroup
    from kcli.admin.groups.model import Group
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange
    from kcli.structs import Node


class Named(NamedTuple):
    """Groups by name, with their types as far as known, what brokers list of them, and brokers that list nothing."""

    kinds: dict[str, str | None]
    listed: dict[str, ListedGroup]
    unheard: dict[Node, KcliError]


def named_groups(client: ConsumerNetworkClient, options: SourceOptions, deadline_ms: float) -> Named:
    """The groups that the options name; else all that brokers list."""
    from kcli.admin.groups.listing import list_groups

    if options.groups is not None:
        return Named(dict.fromkeys(options.groups), {}, {})
    found = list_groups(client, deadline_ms)
    listed = {group.group: group for groups in found.values.values() for group in groups}
    return Named({name: listed[name].type for name in sorted(listed)}, listed, found.errors)


def failed_rows(named: Named, errors: dict[str, KcliError]) -> Iterator[dict[str, Any]]:
    """A row with an error for each group that could not be described, and each broker that did not list its groups.

    A listed group that is gone by now is no error.
    """
    for name, error in errors.items():
        if name not in named.listed or getattr(error, "code", None) is not ErrorCode.GROUP_ID_NOT_FOUND:
            yield {"group": name, "error": told(error)}
    for node, error in named.unheard.items():
        yield {"error": f"the groups of {node} are not known: {error}"}


def read(options: SourceOptions, _: TaskRange | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Groups of all types, or those named in the options."""
    with client_of(options) as (client, deadline_ms):
        yield from table_of(GROUPS, options, _rows(client, options, deadline_ms))


GROUPS = View(
    "groups",
    (
        ("group", "string"),
        ("type", "string"),
        ("state", "string"),
        ("protocol_type", "string"),
        ("assignor", "string"),
        ("epoch", "int"),
        ("target_epoch", "int"),
        ("members", "int"),
        ("coordinator", "int"),
        ("coordinator_host", "string"),
        ("coordinator_port", "int"),
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
        yield _row(group)
    yield from failed_rows(named, described.errors)


def _row(group: Group) -> dict[str, Any]:
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": len(group.members),
        "coordinator": group.coordinator.id,
        "coordinator_host": group.coordinator.host,
        "coordinator_port": group.coordinator.port,
    }
