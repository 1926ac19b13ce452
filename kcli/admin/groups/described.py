"""What coordinators tell of groups, each type in its own message, put into the one shape of `model`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from kcli.admin.groups.model import CLASSIC, CONSUMER, SHARE, STREAMS, Group, GroupMember
from kcli.errors import ProtocolError
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_assignment, decode_subscription
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.messages import consumer_group_describe as consumer
    from kcli.protocol.messages import describe_groups as classic
    from kcli.protocol.messages import share_group_describe as share
    from kcli.protocol.messages import streams_group_describe as streams

T = TypeVar("T")

_MEMBER_TYPES = {0: CLASSIC, 1: CONSUMER}


def classic_group(told: classic.DescribedGroup, coordinator: Node) -> Group:
    """A group whose members agree among themselves: subscriptions and assignments are blobs of consumers' making."""
    members = (_classic_member(member, told.protocol_type == PROTOCOL_TYPE) for member in told.members)
    return Group(
        told.group_id,
        CLASSIC,
        told.group_state,
        coordinator,
        told.protocol_type,
        told.protocol_data,
        members=_sorted(members),
    )


def consumer_group(told: consumer.DescribedGroup, coordinator: Node) -> Group:
    """A group whose broker assigns (KIP-848), with members of the classic protocol among the others perhaps."""
    members = (
        GroupMember(
            member.member_id,
            member.client_id,
            _host(member.client_host),
            member.instance_id,
            member.rack_id or None,
            tuple(sorted(member.subscribed_topic_names)),
            member.subscribed_topic_regex or None,
            _named_partitions(member.assignment.topic_partitions),
            _named_partitions(member.target_assignment.topic_partitions),
            epoch=member.member_epoch,
            member_type=_MEMBER_TYPES.get(member.member_type),
        )
        for member in told.members
    )
    return Group(
        told.group_id,
        CONSUMER,
        told.group_state,
        coordinator,
        PROTOCOL_TYPE,
        told.assignor_name,
        told.group_epoch,
        told.assignment_epoch,
        _sorted(members),
    )


def share_group(told: share.DescribedGroup, coordinator: Node) -> Group:
    """A group whose members share partitions record by record (KIP-932)."""
    members = (
        GroupMember(
            member.member_id,
            member.client_id,
            _host(member.client_host),
            rack=member.rack_id or None,
            topics=tuple(sorted(member.subscribed_topic_names)),
            owned=_named_partitions(member.assignment.topic_partitions),
            epoch=member.member_epoch,
        )
        for member in told.members
    )
    return Group(
        told.group_id,
        SHARE,
        told.group_state,
        coordinator,
        SHARE,
        told.assignor_name,
        told.group_epoch,
        told.assignment_epoch,
        _sorted(members),
    )


def streams_group(told: streams.DescribedGroup, coordinator: Node) -> Group:
    """An application of Kafka Streams (KIP-1071), whose members own tasks: what its active tasks read is owned.

    Task N of a subtopology reads partition N of each of its topics, so of a topic with fewer partitions than another
    one a member is shown to own what is not there: `survey` knows and leaves it out.
    """
    subtopologies = (told.topology.subtopologies or []) if told.topology is not None else []
    reads = {
        it.subtopology_id: (*it.source_topics, *(t.name for t in it.repartition_source_topics)) for it in subtopologies
    }

    def partitions(tasks: Iterable[streams.TaskIds]) -> tuple[TopicPartition, ...]:
        return _partitions((topic, it.partitions) for it in tasks for topic in reads.get(it.subtopology_id, ()))

    members = (
        GroupMember(
            member.member_id,
            member.client_id,
            _host(member.client_host),
            member.instance_id,
            member.rack_id or None,
            tuple(sorted({topic for topics in reads.values() for topic in topics})),
            owned=partitions(member.assignment.active_tasks),
            target=partitions(member.target_assignment.active_tasks),
            epoch=member.member_epoch,
            member_type=CLASSIC if member.is_classic else None,
        )
        for member in told.members
    )
    return Group(
        told.group_id,
        STREAMS,
        told.group_state,
        coordinator,
        STREAMS,
        epoch=told.group_epoch,
        target_epoch=told.assignment_epoch,
        members=_sorted(members),
    )


def _classic_member(told: classic.DescribedGroupMember, is_consumer: bool) -> GroupMember:
    member = GroupMember(
        told.member_id,
        told.client_id,
        _host(told.client_host),
        told.group_instance_id,
        member_type=CLASSIC,
    )
    if not is_consumer:
        return member
    subscription, broken = _read(decode_subscription, told.member_metadata) if told.member_metadata else (None, None)
    assignment, broken_too = _read(decode_assignment, told.member_assignment)
    subscribed = subscription or Subscription()
    return member._replace(
        rack=subscribed.rack_id or None,
        topics=tuple(sorted(subscribed.topics)),
        owned=_partitions((t.topic, t.partitions) for t in assignment.assigned_partitions) if assignment else (),
        claimed=_partitions((t.topic, t.partitions) for t in subscribed.owned_partitions),
        claimed_generation=subscribed.generation_id,
        error=broken or broken_too,
    )


def _read(decode: Callable[[bytes], T], blob: bytes) -> tuple[T | None, ProtocolError | None]:
    try:
        return decode(blob), None
    except ProtocolError as problem:
        return None, problem


class _NamedPartitions(Protocol):
    topic_name: str
    partitions: list[int]


def _named_partitions(topics: Iterable[_NamedPartitions]) -> tuple[TopicPartition, ...]:
    return _partitions((topic.topic_name, topic.partitions) for topic in topics)


def _partitions(topics: Iterable[tuple[str, list[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))


def _host(told: str) -> str:
    """Brokers print an address the way Java does: "/10.0.0.1", a host name before the slash or nothing."""
    return told.removeprefix("/")


def _sorted(members: Iterable[GroupMember]) -> tuple[GroupMember, ...]:
    return tuple(sorted(members, key=lambda member: (member.client_id, member.host, member.id)))
