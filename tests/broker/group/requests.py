"""Requests of consumer group members, with the fields that scenarios depend on, and steps made of several requests."""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode
from kcli.protocol.consumer_protocol import Subscription, encode_subscription
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.structs import OFFSETS_TOPIC
from tests.broker.group.harness import Connection, ask


def subscribed_to(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=list(topics)), 0)


def join(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = (("range", subscribed_to("orders")),),
    protocol_type: str = "consumer",
    session_ms: int = 20_000,
    rebalance_ms: int = 20_000,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


def sync(
    group: str,
    generation: int,
    member_id: str,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol: str | None = "range",
    protocol_type: str | None = "consumer",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
    )


def heartbeat(group: str, generation: int, member_id: str, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave(group: str, *members: str | tuple[str, str]) -> LeaveGroupRequest:
    """Build a LeaveGroup of members by id, or of static ones as (id or "", instance)."""
    named = [(m, None) if isinstance(m, str) else m for m in members]
    return LeaveGroupRequest(
        group_id=group, members=[MemberIdentity(member_id=m, group_instance_id=instance) for m, instance in named]
    )


def commit(group: str, generation: int, member_id: str, instance: str | None = None) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=[OffsetCommitRequestTopic(name=OFFSETS_TOPIC, partitions=[row])],  # a topic that every broker has
    )


def commit_error(connection: Connection, request: OffsetCommitRequest, version: int = 9) -> int:
    return ask(connection, request, version).topics[0].partitions[0].error_code


def request_member_id(connection: Connection, group: str, **fields: Any) -> str:
    """Return the member id that MEMBER_ID_REQUIRED contains."""
    response = ask(connection, join(group, **fields))
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return response.member_id


def start_join(connection: Connection, group: str, **fields: Any) -> str:
    """Get a member id and send JoinGroup with it, without waiting for the response; return the id."""
    member_id = request_member_id(connection, group, **fields)
    connection.send(join(group, member_id, **fields))
    return member_id


def form_group_of_one(connection: Connection, group: str, **fields: Any) -> tuple[str, int]:
    """Become the only member of a Stable group; return the member id and the generation."""
    if fields.get("instance") is None:
        start_join(connection, group, **fields)
    else:
        connection.send(join(group, **fields))
    joined = connection.receive()
    assert joined.error_code == 0
    protocol = joined.protocol_name
    given = {joined.member_id: b"all"}
    request = sync(group, joined.generation_id, joined.member_id, given, protocol=protocol)
    assert ask(connection, request).error_code == 0
    return joined.member_id, joined.generation_id


def form_group_of_two(first: Connection, second: Connection, group: str, **fields: Any) -> tuple[str, str, int]:
    """Become the two members of a Stable group, `first` as leader; return both ids and the generation."""
    leader, generation = form_group_of_one(first, group, **fields)
    follower = start_join(second, group, **fields)
    assert second.is_waiting()
    assert ask(first, heartbeat(group, generation, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    generation = ask(first, join(group, leader, **fields)).generation_id
    assert second.receive().generation_id == generation
    second.send(sync(group, generation, follower))
    assert second.is_waiting()
    assert ask(first, sync(group, generation, leader, {leader: b"a", follower: b"b"})).assignment == b"a"
    assert second.receive().assignment == b"b"
    return leader, follower, generation
