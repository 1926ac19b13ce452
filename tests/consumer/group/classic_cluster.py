"""Fake brokers with one classic group, by Kafka's rules as measured on 4.3.1, for one member and invented others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.messages import heartbeat, join_group, leave_group, offset_commit, sync_group
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster, Log

APIS = {
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.OFFSET_COMMIT: (2, 9),
}
SETTINGS = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": "false"}


class ClassicCluster(FakeCluster):
    """`known`: the last JoinGroup of each member id. `others`: topics of invented members, by id.

    `leader`: another member, which assigns `given` to the member; None: the member leads. `rebalances`: heartbeats
    report a rebalance until the member joins again. `shares`: the assignments of the member as leader, by member id.
    """

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.spoken.update(APIS)
        self.coordinator = 1
        self.generation = 0
        self.known: dict[str, join_group.JoinGroupRequest] = {}
        self.others: dict[str, list[str]] = {}
        self.leader: str | None = None
        self.given: list[TopicPartition] = []
        self.shares: dict[str, list[TopicPartition]] = {}
        self.rebalances = False
        self.skips_assignment = False
        self._members_made = 0

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic."""
        for number in range(partitions):
            self.logs.setdefault(TopicPartition(name, number), Log(1))

    def _find_coordinator(self, node: int, request: Any) -> Any:
        answer = super()._find_coordinator(node, request)
        answer.node_id, answer.host = self.coordinator, self.nodes[self.coordinator]
        return answer

    def _join_group(self, node: int, request: Any) -> Any:
        member_id = request.member_id
        if not member_id:
            self._members_made += 1
            member_id = f"member-{self._members_made}"
            self.known[member_id] = request
            if request.group_instance_id is None:
                return join_group.JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        if member_id not in self.known:
            return join_group.JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.known[member_id] = request
        self.generation += 1
        self.rebalances = False
        members = [
            join_group.JoinGroupResponseMember(
                member_id=id_, metadata=encode_subscription(Subscription(topics=list(topics)))
            )
            for id_, topics in self.others.items()
        ]
        members.append(join_group.JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata))
        return join_group.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader=self.leader or member_id,
            member_id=member_id,
            members=members if self.leader is None else [],
            skip_assignment=self.skips_assignment,
        )

    def _sync_group(self, node: int, request: Any) -> Any:
        code = self._judge(request)
        if code:
            return sync_group.SyncGroupResponse(error_code=code)
        if request.assignments:
            self.shares = {it.member_id: _partitions(it.assignment) for it in request.assignments}
        mine = self.given if self.leader is not None or self.skips_assignment else self.shares[request.member_id]
        return sync_group.SyncGroupResponse(
            protocol_type="consumer", protocol_name=request.protocol_name, assignment=_blob(mine)
        )

    def _judge(self, request: Any) -> int:
        if request.member_id not in self.known:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if request.generation_id == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _heartbeat(self, node: int, request: Any) -> Any:
        code = self._judge(request) or (ErrorCode.REBALANCE_IN_PROGRESS if self.rebalances else ErrorCode.NONE)
        return heartbeat.HeartbeatResponse(error_code=code)

    def _leave_group(self, node: int, request: Any) -> Any:
        for member_id in [request.member_id, *(it.member_id for it in request.members)]:
            self.known.pop(member_id, None)
        return leave_group.LeaveGroupResponse()

    def _offset_commit(self, node: int, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            answers = []
            for it in topic.partitions:
                self.committed[TopicPartition(topic.name, it.partition_index)] = it.committed_offset
                answers.append(offset_commit.OffsetCommitResponsePartition(partition_index=it.partition_index))
            topics.append(offset_commit.OffsetCommitResponseTopic(name=topic.name, partitions=answers))
        return offset_commit.OffsetCommitResponse(topics=topics)


def _blob(partitions: Iterable[TopicPartition]) -> bytes:
    topics = [TopicPartitions(topic=tp.topic, partitions=[tp.partition]) for tp in partitions]
    return encode_assignment(Assignment(assigned_partitions=topics))


def _partitions(blob: bytes) -> list[TopicPartition]:
    assignment = decode_assignment(blob)
    return [TopicPartition(it.topic, number) for it in assignment.assigned_partitions for number in it.partitions]


class CallbackLog:
    """The callbacks of a member, as ("assigned" | "revoked" | "lost", partition numbers)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def taken(self) -> list[tuple[str, list[int]]]:
        """Return the callbacks since the last call."""
        events, self.events = self.events, []
        return events

    def hooks(self) -> dict[str, Any]:
        return {f"on_{what}": self._hook(what) for what in ("assigned", "revoked", "lost")}

    def _hook(self, what: str) -> Any:
        return lambda partitions: self.events.append((what, [tp.partition for tp in partitions]))


class Member:
    """A consumer subscribed to `t`, with its callbacks. Its heartbeats are sent only while it is polled."""

    def __init__(self, cluster: ClassicCluster, *topics: str, pattern: str | None = None, **properties: object) -> None:
        client, config = cluster.client(**{**SETTINGS, **properties})
        self.cluster = cluster
        self.callbacks = CallbackLog()
        self.consumer = Consumer.from_config(config, client, in_background=False)
        self.consumer.subscribe([] if pattern else topics or ["t"], pattern=pattern, **self.callbacks.hooks())

    def poll(self, times: int = 20, timeout_ms: float = 50) -> list[str]:
        """Return the values of all records of some polls."""
        found = []
        for _ in range(times):
            for columns in self.consumer.poll(timeout_ms).values():
                found += [value.decode() for value in columns.values() if value is not None]
        return found

    def joins(self) -> list[Any]:
        """Return the JoinGroups since the last call."""
        asked = self.cluster.asked(ApiKey.JOIN_GROUP)
        self._seen = getattr(self, "_seen", 0)
        new, self._seen = asked[self._seen :], len(asked)
        return new


def subscription_of(join: Any) -> Subscription:
    """Return the subscription of the first assignor in a JoinGroup."""
    return decode_subscription(join.protocols[0].metadata)
