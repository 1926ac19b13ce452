"""A KIP-848 group on a live broker whose members only send heartbeats, one by one.

The assignment interval is zero, so the coordinator computes the assignment within the heartbeat that causes it. The
session is long: a member sends a heartbeat only when the test asks for it, or until the group is stable.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from uuid import UUID

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.routing import ask_coordinator
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kcli.structs import TopicPartition
from tests.interop.groups.group_configs import LONGEST_SESSION_S, configure_group, session_of

PATIENCE_MS = 20_000
LEAVE = -1


class LiveGroup:
    """A group; `assignor` is the broker's name of the assignor. Members choose their ids (KIP-1082)."""

    def __init__(self, client: ConsumerNetworkClient, group: str, assignor: str) -> None:
        self.client = client
        self.group = group
        self.assignor = assignor
        self.topics: dict[str, list[str]] = {}
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, list[TopicPartitions]] = {}
        configure_group(client, group, {"consumer.assignment.interval.ms": "0", **session_of(LONGEST_SESSION_S)})

    def join(self, member: str, topics: Iterable[str], instance: str | None = None) -> None:
        self.topics[member] = sorted(topics)
        self._epochs[member] = 0
        self._owned[member] = []
        self._beat(
            ConsumerGroupHeartbeatRequest(
                instance_id=instance,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=self.topics[member],
                server_assignor=self.assignor,
            ),
            member,
        )

    def subscribe(self, member: str, topics: Iterable[str]) -> None:
        self.topics[member] = sorted(topics)
        self._beat(ConsumerGroupHeartbeatRequest(subscribed_topic_names=self.topics[member]), member)

    def leave(self, member: str) -> None:
        self._epochs[member] = LEAVE
        self._beat(ConsumerGroupHeartbeatRequest(), member)
        del self.topics[member]

    def leave_all(self) -> None:
        for member in list(self.topics):
            self.leave(member)

    def at_rest(self, after_epoch: int = -1) -> DescribedGroup:
        """Return the group when its target has the newest epoch, and that epoch is newer than the given one."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while True:
            described = self.describe()
            if described.assignment_epoch == described.group_epoch > after_epoch:
                return described
            assert time.monotonic() < deadline, described
            for member in self.topics:
                self._beat(ConsumerGroupHeartbeatRequest(), member)

    def describe(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group])
        (described,) = ask_coordinator(self.client, self.group, request, self._soon()).groups
        assert not described.error_code, described
        return described

    def _beat(self, request: ConsumerGroupHeartbeatRequest, member: str) -> None:
        """Send a heartbeat with these fields; the member owns what it was last assigned."""
        request.group_id, request.member_id, request.member_epoch = self.group, member, self._epochs[member]
        request.topic_partitions = self._owned[member]
        answer = ask_coordinator(self.client, self.group, request, self._soon())
        assert not answer.error_code, answer
        self._epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            self._owned[member] = answer.assignment.topic_partitions

    def _soon(self) -> float:
        return self.client.clock.now_ms() + PATIENCE_MS


def targets(described: DescribedGroup) -> dict[str, tuple[TopicPartition, ...]]:
    """Return the target of each member; members and partitions in the order of the coordinator."""
    return {
        member.member_id: tuple(
            TopicPartition(topic.topic_name, p)
            for topic in member.target_assignment.topic_partitions
            for p in topic.partitions
        )
        for member in described.members
    }


def topic_ids(described: DescribedGroup) -> dict[str, UUID]:
    """Return the ids of the assigned topics."""
    return {
        topic.topic_name: topic.topic_id
        for member in described.members
        for topic in member.target_assignment.topic_partitions
    }
