"""A member that may have been removed: its partitions are lost, not revoked, and no records of them are returned.

A process is suspended (SIGSTOP, a closed lid, a long garbage collection) beyond its session and resumes with received
records. Kafka's clients return them, although the new owner may have committed offsets after them.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcli.consumer.consumer import Consumer
from kcli.error_codes import ErrorCode as E
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.group.classic_cluster import ClassicCluster, Member
from tests.consumer.group.kip848_cluster import INTERVAL_MS, AssigningCluster

SESSION_MS = 45_000
TP = TopicPartition("t", 0)


def joined(cluster: ClassicCluster, **properties: Any) -> Member:
    """Return a member that owns `t-0` and has read "a"; "b" is produced while it is busy."""
    cluster.topic("t").append("a")
    member = Member(cluster, **properties)
    assert member.poll() == ["a"]
    assert member.callbacks.taken() == [("assigned", [0])]
    member.joins()
    return member


REFUSALS = [
    (ApiKey.JOIN_GROUP, JoinGroupResponse(error_code=E.UNKNOWN_MEMBER_ID)),
    (ApiKey.SYNC_GROUP, SyncGroupResponse(error_code=E.UNKNOWN_MEMBER_ID)),
    (ApiKey.SYNC_GROUP, SyncGroupResponse(error_code=E.ILLEGAL_GENERATION)),
]


@pytest.mark.parametrize(("api", "refusal"), REFUSALS, ids=["join 25", "sync 25", "sync 22"])
def test_a_cooperative_member_removed_during_a_rejoin_has_lost_its_partitions(api: ApiKey, refusal: Any) -> None:
    """`revoked` would mean that the member may still commit them."""
    cluster = ClassicCluster()
    member = joined(cluster, partition_assignment_strategy="cooperative-sticky", enable_auto_commit="true")
    cluster.answer_next(api, lambda _: refusal)
    cluster.rebalances = True
    before = len(cluster.asked(ApiKey.OFFSET_COMMIT))
    member.poll(80)
    assert member.callbacks.taken() == [("lost", [0]), ("assigned", [0])]
    assert {commit.generation_id_or_member_epoch for commit in cluster.asked(ApiKey.OFFSET_COMMIT)[before:]} <= {1, 3}


def stopped_with_records(member: Member) -> None:
    """Let records arrive, and suspend the process before it reads them, for longer than a session."""
    member.cluster.logs[TP].append("b")
    member.cluster.clock.advance(SESSION_MS)


def test_a_suspended_member_that_was_removed_returns_no_records() -> None:
    cluster = ClassicCluster()
    member = joined(cluster)
    stopped_with_records(member)
    cluster.known.clear()
    cluster.committed[TP] = 2  # by the new owner
    assert member.poll(100) == []
    assert member.callbacks.taken() == [("lost", [0]), ("assigned", [0])]


def test_a_suspended_member_continues_after_a_successful_heartbeat() -> None:
    """The broker was suspended as well, or the session of the group is longer."""
    cluster = ClassicCluster()
    member = joined(cluster)
    stopped_with_records(member)
    assert member.poll(100) == ["b"]
    assert (member.callbacks.taken(), member.joins()) == ([], [])


def test_a_response_to_a_heartbeat_from_before_the_suspension_does_not_count() -> None:
    cluster = ClassicCluster()
    member = joined(cluster, heartbeat_interval_ms=3_000)
    cluster.answer_next(ApiKey.HEARTBEAT, lambda _: HeartbeatResponse(), *[lambda _: None] * 50)
    cluster.clock.advance(3_000)
    member.poll(1, timeout_ms=0)  # the heartbeat is sent; its response is read after the suspension
    stopped_with_records(member)
    assert member.poll(20) == []
    inner = member.consumer.membership
    assert inner is not None
    assert inner.may_be_expelled(cluster.clock.now_ms())


def test_no_records_are_returned_after_a_session_without_a_coordinator() -> None:
    """Other members may reach the coordinator."""
    cluster = ClassicCluster()
    member = joined(cluster, session_timeout_ms=6_000)
    cluster.answer_next(ApiKey.HEARTBEAT, *[lambda _: None] * 1_000)
    member.poll(60)  # 3 s: the session is not over yet
    cluster.logs[TP].append("b")
    assert member.poll(10) == ["b"]
    member.poll(40)
    cluster.logs[TP].append("c")
    assert member.poll(40) == []
    assert member.callbacks.taken() == []


def test_a_cooperative_member_reads_during_a_long_pending_join() -> None:
    """The open JoinGroup keeps the member alive."""
    cluster = ClassicCluster()
    member = joined(cluster, partition_assignment_strategy="cooperative-sticky")
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda _: None)
    cluster.rebalances = True
    member.poll(1_000)  # 50 s
    cluster.logs[TP].append("b")
    assert member.poll() == ["b"]
    assert member.callbacks.taken() == []
    stopped_with_records(member)  # "b" again, as a new record
    assert member.poll() == [], "while it was stopped nobody looked after the open JoinGroup"


def test_a_kip848_member_returns_no_records_after_nine_heartbeat_intervals() -> None:
    """KIP-848 does not tell the member the session timeout; by default it is 45 s, with an interval of 5 s."""
    cluster = AssigningCluster()
    cluster.topic("t").append("a")
    cluster.assign(TP)
    client, config = cluster.client(group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
    consumer = Consumer.from_config(config, client, in_background=False)
    lost: list[TopicPartition] = []
    consumer.subscribe(["t"], on_lost=lost.extend)

    def read() -> int:
        return sum(len(columns) for _ in range(20) for columns in consumer.poll(50).values())

    assert read() == 1
    cluster.logs[TP].append("b")
    cluster.clock.advance(8 * INTERVAL_MS)
    assert read() == 1
    cluster.logs[TP].append("c")
    cluster.clock.advance(9 * INTERVAL_MS)
    cluster.fence()
    cluster.committed[TP] = 3
    assert read() == 0
    assert lost == [TP]
