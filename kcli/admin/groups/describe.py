"""Groups described by their coordinators, each by the API for its type; which type that is is found out if need be.

A group whose type is not known is asked for by the consumer API first, which alone tells for sure on every version
that the group is not of its type; then as a classic, a share and a streams group, until one API knows it. That is
cheaper than a list of all groups of all brokers: it costs by the groups asked for. Whoever has listed them says the
type, and each costs one question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.groups.described import classic_group, consumer_group, share_group, streams_group
from kcli.admin.groups.model import CLASSIC, CONSUMER, SHARE, STREAMS, Group, GroupMember
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.wire import Request

__all__ = ["Group", "GroupMember", "describe_groups"]

# How a coordinator says that it has no such group, of this type at least.
_NOT_OF_THIS_TYPE = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID}
_DEAD = "Dead"


def describe_groups(
    client: ConsumerNetworkClient,
    groups: Mapping[str, str | None],
    deadline_ms: float,
    *,
    coordinators: Coordinators | None = None,
) -> Results[str, Group]:
    """These groups (name -> type as far as known) with their members. One that is not there: GROUP_ID_NOT_FOUND.

    The order is that of `groups`.
    """
    coordinators = coordinators or Coordinators(client)
    gathered: Results[str, Group] = Results()
    left = {name: _ways(kind) for name, kind in groups.items()}
    refused: dict[str, KcliError] = {}
    while left:
        by_kind: dict[str, list[str]] = {}
        for name, kinds in left.items():
            by_kind.setdefault(kinds.pop(0), []).append(name)
        for kind, names in by_kind.items():
            found = _describe_as(kind, coordinators, names, deadline_ms)
            gathered.values.update(found.values)
            for name in found.values:
                del left[name]
            for name, error in found.errors.items():
                if kind == groups[name] and isinstance(error, UnsupportedVersion):
                    refused[name] = error
                if not _is_of_another_type(error):
                    gathered.errors[name] = error
                    del left[name]
                elif not left[name]:
                    gathered.errors[name] = refused.get(name) or _absent(name, groups[name])
                    del left[name]
    gathered.values = {name: gathered.values[name] for name in groups if name in gathered.values}
    return gathered


class _Way(NamedTuple):
    """One API: the request for some groups, and the group that one part of its answer describes."""

    request: Callable[[list[str]], Request[Any]]
    group: Callable[[Any, Node], Group]


def _as_classic(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.describe_groups import DescribeGroupsRequest

    return DescribeGroupsRequest(groups=names)


def _as_consumer(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    return ConsumerGroupDescribeRequest(group_ids=names)


def _as_share(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.share_group_describe import ShareGroupDescribeRequest

    return ShareGroupDescribeRequest(group_ids=names)


def _as_streams(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    return StreamsGroupDescribeRequest(group_ids=names)


_WAYS = {
    CONSUMER: _Way(_as_consumer, consumer_group),
    CLASSIC: _Way(_as_classic, classic_group),
    SHARE: _Way(_as_share, share_group),
    STREAMS: _Way(_as_streams, streams_group),
}


def _ways(kind: str | None) -> list[str]:
    """In which order to try; the known type first, though the group may have changed it since."""
    return sorted(_WAYS, key=lambda way: way != kind)


def _describe_as(kind: str, coordinators: Coordinators, names: list[str], deadline_ms: float) -> Results[str, Group]:
    way = _WAYS[kind]
    told = coordinators.ask(names, way.request, _read, deadline_ms)
    groups = {name: way.group(group, coordinators.node(name)) for name, group in told.values.items()}
    return Results(groups, told.errors)


def _read(response: Any) -> Iterator[tuple[str, Any]]:
    for group in response.groups:
        if group.error_code:
            yield group.group_id, BrokerError(group.error_code, group.error_message, group=group.group_id)
        elif group.group_state == _DEAD:  # how DescribeGroups up to v5 says that there is no such group
            yield group.group_id, _absent(group.group_id, None)
        else:
            yield group.group_id, group


def _is_of_another_type(error: KcliError) -> bool:
    return isinstance(error, UnsupportedVersion) or (isinstance(error, BrokerError) and error.code in _NOT_OF_THIS_TYPE)


def _absent(name: str, kind: str | None) -> KcliError:
    if kind is not None and kind not in _WAYS:
        return UnsupportedVersion(f"groups of type {kind} cannot be described by this version of kcli", group=name)
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group=name)
