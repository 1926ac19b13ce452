"""A fake broker that assigns partitions (KIP-848), and one member without a thread, stepped by hand.

The coordinator knows one member. A test calls `assign`; the next heartbeat response contains the assignment. Other
responses are those of Kafka 4.3.1, measured: unknown members 25, wrong epochs 110.
"""

from __future__ import annotations

import uuid
from typing import Any

from kcli.consumer.group.consumer_membership import ConsumerMembership
from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
from kcli.consumer.group.group_membership import RebalanceHooks
from kcli.consumer.subscription import SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError
from kcli.protocol.messages import consumer_group_heartbeat as chb
from kcli.protocol.messages import metadata
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.cluster import FakeCluster

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
INTERVAL_MS = 5000


class AssigningCluster(FakeCluster):
    """`epoch` is that of the group; `members` has the epoch of each member that has joined."""

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.spoken[HEARTBEAT] = (0, 1)
        self.spoken[ApiKey.METADATA] = (0, 13)
        self.epoch = 1
        self.members: dict[str, int] = {}
        self.target: list[TopicPartition] = []
        self.hidden_ids: set[uuid.UUID] = set()

    def assign(self, *partitions: TopicPartition) -> None:
        """Set the assignment of the member."""
        self.target = list(partitions)
        self.epoch += 1

    def fence(self) -> None:
        """Forget all members."""
        self.members.clear()

    def heartbeats(self) -> list[Any]:
        return self.asked(HEARTBEAT)

    def answer(self, member_id: str, *, with_assignment: bool) -> chb.ConsumerGroupHeartbeatResponse:
        """Return a successful response; the assignment is included only if `with_assignment`."""
        return chb.ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=chb.Assignment(topic_partitions=self._by_id()) if with_assignment else None,
        )

    def _by_id(self) -> list[chb.TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for tp in self.target:
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        return [
            chb.TopicPartitions(topic_id=self.topic_ids[name], partitions=numbers) for name, numbers in by_topic.items()
        ]

    def _consumer_group_heartbeat(self, node: int, request: Any) -> Any:
        member, epoch = request.member_id, request.member_epoch
        if epoch < 0:
            self.members.pop(member, None)
            return chb.ConsumerGroupHeartbeatResponse(member_id=member, member_epoch=epoch)
        if epoch == 0:
            self.members[member] = self.epoch
            return self.answer(member, with_assignment=True)
        if member not in self.members:
            return refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if epoch != self.members[member]:
            return refusal(ErrorCode.FENCED_MEMBER_EPOCH)
        result = self.members[member] != self.epoch or request.rebalance_timeout_ms >= 0
        self.members[member] = self.epoch
        return self.answer(member, with_assignment=result)

    def _metadata(self, node: int, request: Any) -> Any:
        if request.topics and request.topics[0].name is None:
            names = {topic_id: name for name, topic_id in self.topic_ids.items() if topic_id not in self.hidden_ids}
            return metadata.MetadataResponse(
                topics=[
                    metadata.MetadataResponseTopic(
                        name=names.get(it.topic_id),
                        topic_id=it.topic_id,
                        error_code=0 if it.topic_id in names else ErrorCode.UNKNOWN_TOPIC_ID,
                    )
                    for it in request.topics
                ]
            )
        return super()._metadata(node, request)


def refusal(code: ErrorCode, message: str | None = None) -> chb.ConsumerGroupHeartbeatResponse:
    return chb.ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


class Member:
    """One member, with its callbacks in `said`: ("assigned", "t-0 t-1") and so on."""

    def __init__(self, cluster: AssigningCluster, *topics: str, pattern: str | None = None, **properties: Any) -> None:
        self.cluster = cluster
        named = {"group_id": "g", "group_protocol": "consumer", "client_rack": "", **properties}
        self.client, config = cluster.client(**named)
        self.subscription = SubscriptionState()
        if pattern is None:
            self.subscription.subscribe(topics or ["t"])
        else:
            self.subscription.subscribe_server_pattern(pattern)
        self.said: list[tuple[str, str]] = []
        self.on: dict[str, Any] = {}
        hooks = RebalanceHooks(*(self._hook(what) for what in ("assigned", "revoked", "lost", "commit")))
        self.lookup = CoordinatorLookup(self.client, "g")
        self.membership = ConsumerMembership(
            self.client, self.lookup, self.subscription, config, hooks, in_background=False
        )

    def _hook(self, what: str) -> Any:
        def call(partitions: list[TopicPartition]) -> None:
            self.said.append((what, " ".join(map(str, partitions))))
            if what in self.on:
                self.on[what](partitions)

        return call

    def poll(self, ms: float = 100) -> None:
        """Poll as a consumer does, without records, for this time."""
        clock = self.client.clock
        deadline_ms = clock.now_ms() + ms
        while True:
            now_ms = clock.now_ms()
            self.membership.poll(now_ms)
            if now_ms >= deadline_ms:
                return
            until_ms = min(deadline_ms, max(self.membership.next_ms(), now_ms + 1))
            self.client.poll(timeout_ms=until_ms - now_ms)

    def error(self, ms: float = 100) -> KcliError:
        """Return the exception of `poll`."""
        try:
            self.poll(ms)
        except KcliError as error:
            return error
        raise AssertionError("nothing was raised")

    def work(self, ms: float, beat_every_ms: float = 100) -> None:
        """Let time pass without a poll, while the heartbeat thread runs."""
        clock = self.client.clock
        deadline_ms = clock.now_ms() + ms
        while clock.now_ms() < deadline_ms:
            self.membership.member.beat(clock.now_ms())
            self.client.poll(timeout_ms=min(beat_every_ms, deadline_ms - clock.now_ms()))

    def owned(self) -> str:
        return " ".join(map(str, sorted(self.subscription.partitions())))

    def leave(self, ms: float = 1000) -> None:
        self.membership.leave("done", self.client.clock.now_ms() + ms)
