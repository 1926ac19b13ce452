"""Descriptions of groups by their coordinators, each by the API for its type.

A group of unknown type is requested with the consumer API first, because it is the only one whose response is certain
on every version for a group of another type; then as a classic, a share and a streams group, until one API knows the
group. This costs requests for these groups only, while a list of all groups is a request to every broker. A caller that
has listed the groups passes the type, so that each group costs one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kcli.admin.groups.group import CLASSIC, CONSUMER, SHARE, STREAMS, Group, GroupMember
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, ProtocolError, UnsupportedVersion
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_assignment, decode_subscription
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages import consumer_group_describe as consumer
    from kcli.protocol.messages import describe_groups as classic
    from kcli.protocol.messages import share_group_describe as share
    from kcli.protocol.messages import streams_group_describe as streams
    from kcli.protocol.wire import Request

# Error codes of a coordinator that has no such group of this type.
_NOT_OF_THIS_TYPE = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID}
_DEAD = "Dead"
_MEMBER_TYPES = {0: CLASSIC, 1: CONSUMER}

T = TypeVar("T")


def describe_groups(
    client: ConsumerNetworkClient,
    groups: Mapping[str, str | None],
    deadline_ms: float,
    *,
    coordinators: Coordinators | None = None,
) -> Results[str, Group]:
    """Return these groups (name -> type, None: unknown) with their members, in the order of `groups`.

    A group that does not exist is an error, GROUP_ID_NOT_FOUND, beside the others.
    """
    coordinators = coordinators or Coordinators(client)
    results: Results[str, Group] = Results()
    remaining = {name: _types_to_try(kind) for name, kind in groups.items()}
    unsupported: dict[str, KcliError] = {}
    while remaining:
        by_kind: dict[str, list[str]] = {}
        for name, kinds in remaining.items():
            by_kind.setdefault(kinds.pop(0), []).append(name)
        for kind, names in by_kind.items():
            described = _describe_as(kind, coordinators, names, deadline_ms)
            results.values.update(described.values)
            for name in described.values:
                del remaining[name]
            for name, error in described.errors.items():
                if kind == groups[name] and isinstance(error, UnsupportedVersion):
                    unsupported[name] = error
                if not _is_of_another_type(error):
                    results.errors[name] = error
                    del remaining[name]
                elif not remaining[name]:
                    results.errors[name] = unsupported.get(name) or _absent(name, groups[name])
                    del remaining[name]
    results.values = {name: results.values[name] for name in groups if name in results.values}
    return results


def _types_to_try(kind: str | None) -> list[str]:
    """Return all types, the known one first: the group may have changed its type since."""
    return sorted(_APIS, key=lambda group_type: group_type != kind)


def _describe_as(kind: str, coordinators: Coordinators, names: list[str], deadline_ms: float) -> Results[str, Group]:
    api = _APIS[kind]
    results = coordinators.ask(names, api.request, _read, deadline_ms)
    groups = {name: api.group(group, coordinators.node(name)) for name, group in results.values.items()}
    return Results(groups, results.errors)


def _read(response: Any) -> Iterator[tuple[str, Any]]:
    for group in response.groups:
        if group.error_code:
            name, code = group.group_id, group.error_code
            yield name, response.broker_error(code, group.error_message, request="DescribeGroups", group=name)
        elif group.group_state == _DEAD:  # DescribeGroups up to v5, for a group that does not exist
            yield group.group_id, _absent(group.group_id, None)
        else:
            yield group.group_id, group


def _is_of_another_type(error: KcliError) -> bool:
    return isinstance(error, UnsupportedVersion) or (isinstance(error, BrokerError) and error.code in _NOT_OF_THIS_TYPE)


def _absent(name: str, kind: str | None) -> KcliError:
    if kind is not None and kind not in _APIS:
        return UnsupportedVersion(f"groups of type {kind} cannot be described by this version of kcli", group=name)
    return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, group=name)


def classic_group(described: classic.DescribedGroup, coordinator: Node) -> Group:
    """Return a classic group; subscriptions and assignments are blobs that its consumers encode."""
    members = (_classic_member(member, described.protocol_type == PROTOCOL_TYPE) for member in described.members)
    return Group(
        described.group_id,
        CLASSIC,
        described.group_state,
        coordinator,
        described.protocol_type,
        described.protocol_data,
        members=_sorted(members),
    )


def consumer_group(described: consumer.DescribedGroup, coordinator: Node) -> Group:
    """Return a consumer group (KIP-848); some of its members may use the classic protocol."""
    members = (
        _member(
            member,
            instance_id=member.instance_id,
            topics=tuple(sorted(member.subscribed_topic_names)),
            pattern=member.subscribed_topic_regex or None,
            owned=_named_partitions(member.assignment.topic_partitions),
            target=_named_partitions(member.target_assignment.topic_partitions),
            member_type=_MEMBER_TYPES.get(member.member_type),
        )
        for member in described.members
    )
    return _group(CONSUMER, described, coordinator, members, PROTOCOL_TYPE, described.assignor_name)


def share_group(described: share.DescribedGroup, coordinator: Node) -> Group:
    """Return a share group, whose members share partitions record by record (KIP-932)."""
    members = (
        _member(
            member,
            topics=tuple(sorted(member.subscribed_topic_names)),
            owned=_named_partitions(member.assignment.topic_partitions),
        )
        for member in described.members
    )
    return _group(SHARE, described, coordinator, members, SHARE, described.assignor_name)


def streams_group(described: streams.DescribedGroup, coordinator: Node) -> Group:
    """Return a streams group (KIP-1071); a member owns the partitions that its active tasks read.

    Task N of a subtopology reads partition N of each of its topics. Where a topic has fewer partitions than another one
    this includes partitions that do not exist; `survey` removes them.
    """
    subtopologies = (described.topology.subtopologies or []) if described.topology is not None else []
    reads = {
        part.subtopology_id: (*part.source_topics, *(t.name for t in part.repartition_source_topics))
        for part in subtopologies
    }

    def partitions(tasks: Iterable[streams.TaskIds]) -> tuple[TopicPartition, ...]:
        return _partitions((topic, task.partitions) for task in tasks for topic in reads.get(task.subtopology_id, ()))

    members = (
        _member(
            member,
            instance_id=member.instance_id,
            topics=tuple(sorted({topic for topics in reads.values() for topic in topics})),
            owned=partitions(member.assignment.active_tasks),
            target=partitions(member.target_assignment.active_tasks),
            member_type=CLASSIC if member.is_classic else None,
        )
        for member in described.members
    )
    return _group(STREAMS, described, coordinator, members, STREAMS)


def _member(described: Any, **own: Any) -> GroupMember:
    """Return a member of a group whose broker assigns; `own` are the fields that its type of group has."""
    return GroupMember(
        described.member_id,
        described.client_id,
        _host(described.client_host),
        rack=described.rack_id or None,
        epoch=described.member_epoch,
        **own,
    )


def _group(
    kind: str,
    described: Any,
    coordinator: Node,
    members: Iterable[GroupMember],
    protocol_type: str,
    assignor: str = "",
) -> Group:
    """Return a group of this type whose broker assigns."""
    return Group(
        described.group_id,
        kind,
        described.group_state,
        coordinator,
        protocol_type,
        assignor,
        described.group_epoch,
        described.assignment_epoch,
        _sorted(members),
    )


def _classic_member(described: classic.DescribedGroupMember, is_consumer: bool) -> GroupMember:
    member = GroupMember(
        described.member_id,
        described.client_id,
        _host(described.client_host),
        described.group_instance_id,
        member_type=CLASSIC,
    )
    if not is_consumer:
        return member
    subscription, subscription_error = (
        _decode(decode_subscription, described.member_metadata) if described.member_metadata else (None, None)
    )
    assignment, assignment_error = _decode(decode_assignment, described.member_assignment)
    decoded = subscription or Subscription()
    return member._replace(
        rack=decoded.rack_id or None,
        topics=tuple(sorted(decoded.topics)),
        owned=_partitions((t.topic, t.partitions) for t in assignment.assigned_partitions) if assignment else (),
        claimed=_partitions((t.topic, t.partitions) for t in decoded.owned_partitions),
        claimed_generation=decoded.generation_id,
        error=subscription_error or assignment_error,
    )


def _decode(decode: Callable[[bytes], T], blob: bytes) -> tuple[T | None, ProtocolError | None]:
    try:
        return decode(blob), None
    except ProtocolError as error:
        return None, error


class _NamedPartitions(Protocol):
    topic_name: str
    partitions: list[int]


def _named_partitions(topics: Iterable[_NamedPartitions]) -> tuple[TopicPartition, ...]:
    return _partitions((topic.topic_name, topic.partitions) for topic in topics)


def _partitions(topics: Iterable[tuple[str, list[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))


def _host(described: str) -> str:
    """Return the host without the slash that Java prints before an address: `/10.0.0.1`."""
    return described.removeprefix("/")


def _sorted(members: Iterable[GroupMember]) -> tuple[GroupMember, ...]:
    return tuple(sorted(members, key=lambda member: (member.client_id, member.host, member.id)))


class _DescribeApi(NamedTuple):
    """One API: the request for some groups, and the function that makes a `Group` of one part of its response."""

    request: Callable[[list[str]], Request[Any]]
    group: Callable[[Any, Node], Group]


def _request_classic(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.describe_groups import DescribeGroupsRequest

    return DescribeGroupsRequest(groups=names)


def _request_consumer(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    return ConsumerGroupDescribeRequest(group_ids=names)


def _request_share(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.share_group_describe import ShareGroupDescribeRequest

    return ShareGroupDescribeRequest(group_ids=names)


def _request_streams(names: list[str]) -> Request[Any]:
    from kcli.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    return StreamsGroupDescribeRequest(group_ids=names)


_APIS = {
    CONSUMER: _DescribeApi(_request_consumer, consumer_group),
    CLASSIC: _DescribeApi(_request_classic, classic_group),
    SHARE: _DescribeApi(_request_share, share_group),
    STREAMS: _DescribeApi(_request_streams, streams_group),
}
