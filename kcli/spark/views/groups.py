"""The view `groups`: a row for each group of the cluster; also the list of groups for `members` and `lag`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.spark.views.table import View, client_of, error_text, table_of

if TYPE_CHECKING:
    import pyarrow

    from kcli.admin.groups.group import Group
    from kcli.admin.groups.listing import ListedGroup
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.errors import KcliError
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange
    from kcli.structs import Node


class SelectedGroups(NamedTuple):
    """Groups by name, with their types if known, the listed groups, and the brokers that failed to list groups."""

    types: dict[str, str | None]
    listed: dict[str, ListedGroup]
    failed_brokers: dict[Node, KcliError]


def select_groups(client: ConsumerNetworkClient, options: SourceOptions, deadline_ms: float) -> SelectedGroups:
    """Return the groups in the options, otherwise all that the brokers list."""
    from kcli.admin.groups.listing import list_groups

    if options.groups is not None:
        return SelectedGroups(dict.fromkeys(options.groups), {}, {})
    result = list_groups(client, deadline_ms)
    listed = {group.group: group for groups in result.values.values() for group in groups}
    return SelectedGroups({name: listed[name].type for name in sorted(listed)}, listed, result.errors)


def failed_rows(selected: SelectedGroups, errors: dict[str, KcliError]) -> Iterator[dict[str, Any]]:
    """Yield a row with an error for each group that could not be described, and each broker that did not list groups.

    A listed group that has been deleted since is not an error.
    """
    for name, error in errors.items():
        if name not in selected.listed or getattr(error, "code", None) is not ErrorCode.GROUP_ID_NOT_FOUND:
            yield {"group": name, "error": error_text(error)}
    for node, error in selected.failed_brokers.items():
        yield {"error": f"cannot list the groups of {node}: {error}"}


def read(options: SourceOptions, _: Sequence[TaskRange] = ()) -> Iterator[pyarrow.RecordBatch]:
    """Yield groups of all types, or those in the options."""
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

    selected = select_groups(client, options, deadline_ms)
    described = describe_groups(client, selected.types, deadline_ms)
    for group in described.values.values():
        yield _row(group)
    yield from failed_rows(selected, described.errors)


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
