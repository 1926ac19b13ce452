"""A member that may not be one any more: what was its own is lost, not revoked, and nothing of it is handed out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.broker.embedded import EmbeddedBroker
from kcli.client.config import ConsumerConfig
from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.structs import TopicPartition

SETTINGS = {"group.id": "billing", "auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}
BOTH = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


class Member:
    """A cooperative member that writes down what it is told."""

    def __init__(self, broker: EmbeddedBroker, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        strategy = {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 1_000}
        at = {"bootstrap.servers": broker.bootstrap_servers}
        self.consumer = Consumer(ConsumerConfig.from_properties({**at, **SETTINGS, **strategy, **named}))
        self.told: list[tuple[str, list[TopicPartition]]] = []
        self.consumer.subscribe(
            ["orders"],
            on_assigned=lambda partitions: self.told.append(("assigned", partitions)),
            on_revoked=lambda partitions: self.told.append(("revoked", partitions)),
            on_lost=lambda partitions: self.told.append(("lost", partitions)),
        )

    def poll_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, f"{self.told} {self.consumer!r}"
            self.consumer.poll(50)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100) as broker:
        broker.create_topic("orders", 2)
        yield broker


REFUSALS = [
    ("JoinGroup", JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)),
    ("SyncGroup", SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)),
    ("SyncGroup", SyncGroupResponse(error_code=ErrorCode.ILLEGAL_GENERATION)),
]


@pytest.mark.parametrize(("api", "refusal"), REFUSALS, ids=["join 25", "sync 25", "sync 22"])
def test_a_cooperative_member_put_out_while_it_rejoins_has_lost_its_partitions(
    broker: EmbeddedBroker, api: str, refusal: Any
) -> None:
    """They belong to others by now: nothing of them may be committed, which `revoked` would promise."""
    member = Member(broker)
    try:
        member.poll_until(lambda: member.told == [("assigned", BOTH)])
        broker.intercept(api, lambda request, context: refusal, times=1)
        assert member.consumer.membership is not None
        member.consumer.membership.request_rejoin("the test wants it")
        member.poll_until(lambda: len(member.told) > 2)
        assert member.told == [("assigned", BOTH), ("lost", BOTH), ("assigned", BOTH)]
    finally:
        member.consumer.close()
