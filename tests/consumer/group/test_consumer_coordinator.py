"""A classic member against fake brokers: join, lead, rejoin, leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, UnsupportedVersion, WakeupError
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.group.classic_cluster import ClassicCluster, Member, subscription_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def two_partitions() -> ClassicCluster:
    cluster = ClassicCluster()
    cluster.topic("t", partitions=2).append("a", "b")
    return cluster


# --- join


def test_a_new_member_is_given_an_id_and_joins_with_it() -> None:
    """KIP-394: brokers answer a first JoinGroup with an id and error 79."""
    member = Member(two_partitions())
    assert member.poll() == ["a", "b"]
    assert [join.member_id for join in member.joins()] == ["", "member-1"]
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    assert member.consumer.group_metadata() == ("billing", 1, "member-1", None)


def test_metrics_of_a_member_count_joins_heartbeats_commits_and_rebalances() -> None:
    member = Member(two_partitions())
    member.poll()
    member.consumer.commit()
    metrics = member.consumer.metrics()["consumer-coordinator-metrics"]
    assert (metrics["join-total"], metrics["sync-total"], metrics["rebalance-total"]) == (2, 1, 1)
    assert (metrics["commit-total"], metrics["assigned-partitions"]) == (1, 2)
    assert metrics["last-rebalance-seconds-ago"] >= 0
    assert metrics["last-heartbeat-seconds-ago"] == -1


def test_the_leader_also_assigns_topics_that_it_does_not_subscribe_to() -> None:
    cluster = two_partitions()
    cluster.topic("u", partitions=1)
    cluster.others = {"other": ["t", "u"]}
    Member(cluster).poll()
    assert cluster.shares == {"member-1": [T0], "other": [T1, TopicPartition("u", 0)]} or cluster.shares == {
        "member-1": [T1],
        "other": [T0, TopicPartition("u", 0)],
    }


def test_a_follower_takes_its_assignment() -> None:
    cluster = two_partitions()
    cluster.leader, cluster.given = "another-member", [T1]
    member = Member(cluster)
    member.poll()
    assert member.callbacks.taken() == [("assigned", [1])]
    assert cluster.asked(ApiKey.SYNC_GROUP)[0].assignments == []


def test_a_join_has_the_fields_of_the_java_client() -> None:
    cluster = two_partitions()
    member = Member(cluster, session_timeout_ms=7000, max_poll_interval_ms=90_000, client_rack="r1")
    member.poll()
    join = member.joins()[-1]
    assert (join.session_timeout_ms, join.rebalance_timeout_ms, join.protocol_type) == (7000, 90_000, "consumer")
    assert [protocol.name for protocol in join.protocols] == ["range", "cooperative-sticky"]
    result = subscription_of(join)
    assert (result.topics, result.owned_partitions, result.generation_id, result.rack_id) == (["t"], [], -1, "r1")


def test_a_returning_static_leader_assigns_nothing_but_watches() -> None:
    """KIP-814: the group is stable, and its leader has restarted."""
    cluster = two_partitions()
    cluster.skips_assignment, cluster.given = True, [T0]
    member = Member(cluster, group_instance_id="i", metadata_max_age_ms=500)
    member.poll()
    assert cluster.asked(ApiKey.SYNC_GROUP)[0].assignments == []
    assert member.callbacks.taken() == [("assigned", [0])]
    cluster.skips_assignment = False
    cluster.grow("t", 3)
    member.poll(40)
    assert member.callbacks.taken() == [("revoked", [0]), ("assigned", [0, 1, 2])]


def test_an_old_broker_accepts_a_join_without_a_member_id() -> None:
    cluster = two_partitions()
    cluster.spoken.update({ApiKey.JOIN_GROUP: (0, 1), ApiKey.SYNC_GROUP: (0, 0), ApiKey.LEAVE_GROUP: (0, 1)})
    cluster.known["m"] = Member(two_partitions()).consumer  # type: ignore[assignment]  # an id the broker knows
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda join: cluster._join_group(1, _with_id(join, "m")))
    member = Member(cluster)
    assert member.poll() == ["a", "b"]
    member.consumer.close()
    assert cluster.asked(ApiKey.LEAVE_GROUP)[0].member_id == "m"


def _with_id(join: object, member_id: str) -> object:
    join.member_id = member_id  # type: ignore[attr-defined]
    return join


def test_an_old_broker_does_not_support_static_members() -> None:
    cluster = two_partitions()
    cluster.spoken[ApiKey.JOIN_GROUP] = (0, 4)
    with pytest.raises(UnsupportedVersion, match="JoinGroup"):
        Member(cluster, group_instance_id="i").poll()


def test_an_unsupported_assignor_of_the_group_is_raised() -> None:
    cluster = two_partitions()
    odd = JoinGroupResponse(generation_id=1, protocol_name="odd", leader="member-1", member_id="member-1")
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda join: cluster._join_group(1, join), lambda _: odd)
    with pytest.raises(BrokerError, match=r"INCONSISTENT_GROUP_PROTOCOL.*'odd'"):
        Member(cluster).poll()


def test_a_group_of_another_protocol_type_is_an_error() -> None:
    cluster = two_partitions()
    foreign = JoinGroupResponse(generation_id=1, protocol_type="connect", protocol_name="x", member_id="member-1")
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda join: cluster._join_group(1, join), lambda _: foreign)
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        Member(cluster).poll()


def test_assignor_names_are_checked_before_any_request() -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy: 'fair' is not a known assignor"):
        Member(two_partitions(), partition_assignment_strategy="range,fair")
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy is empty"):
        Member(two_partitions(), partition_assignment_strategy=",")


def test_an_unauthorized_topic_is_raised() -> None:
    cluster = two_partitions()
    answer = cluster._metadata_topic

    def refuse(name: str) -> object:
        found = answer(name)
        found.error_code, found.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []
        return found

    cluster._metadata_topic = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: topic t: DESCRIBE on the topic is denied"):
        Member(cluster).poll()


# --- rejoin


@pytest.mark.parametrize("strategy", ["range", "range,cooperative-sticky"])
def test_an_eager_member_revokes_all_partitions_before_it_rejoins(strategy: str) -> None:
    """One assignor of the list that is not cooperative makes the member eager, as in Java."""
    cluster = two_partitions()
    member = Member(cluster, partition_assignment_strategy=strategy)
    member.poll()
    member.joins()
    cluster.rebalances = True
    member.poll(100)
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1])]
    assert [subscription_of(join).owned_partitions for join in member.joins()] == [[]]


def test_a_cooperative_member_keeps_reading_and_revokes_only_what_the_assignment_takes() -> None:
    """KIP-429: the revoked partitions are free for others in the next rebalance, for which the member rejoins."""
    cluster = two_partitions()
    member = Member(cluster, partition_assignment_strategy="cooperative-sticky")
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    cluster.leader, cluster.given, cluster.rebalances = "another-member", [T0], True
    member.joins()
    member.poll(100)
    assert member.callbacks.taken() == [("revoked", [1]), ("assigned", []), ("assigned", [])]
    first, second = (subscription_of(join) for join in member.joins())
    assert [(it.topic, it.partitions) for it in first.owned_partitions] == [("t", [0, 1])]
    assert [(it.topic, it.partitions) for it in second.owned_partitions] == [("t", [0])]
    assert (first.generation_id, second.generation_id) == (1, 2)


def test_a_changed_subscription_causes_a_rejoin() -> None:
    cluster = two_partitions()
    cluster.topic("u").append("from u")
    member = Member(cluster)
    member.poll()
    member.callbacks.taken()
    member.consumer.subscribe(["u"], **member.callbacks.hooks())
    assert member.poll() == ["from u"]
    assert member.callbacks.taken() == [("revoked", [0, 1]), ("assigned", [0])]


def test_a_cooperative_member_revokes_unsubscribed_topics_before_it_rejoins() -> None:
    cluster = two_partitions()
    cluster.topic("u")
    member = Member(cluster, "t", "u", partition_assignment_strategy="cooperative-sticky")
    member.poll()
    member.joins()
    member.consumer.subscribe(["u"], **member.callbacks.hooks())
    member.poll()
    assert member.callbacks.taken()[1:] == [("revoked", [0, 1]), ("assigned", [])]
    assert [it.topic for it in subscription_of(member.joins()[0]).owned_partitions] == ["u"]


def test_the_leader_rejoins_for_new_partitions() -> None:
    cluster = two_partitions()
    member = Member(cluster, metadata_max_age_ms=500)
    member.poll()
    cluster.grow("t", 3)
    member.poll(40)
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0, 1, 2])]
    assert member.joins()[-1].reason == "topics of the group have changed"


def test_a_follower_ignores_new_partitions() -> None:
    cluster = two_partitions()
    cluster.leader, cluster.given = "another-member", [T0]
    member = Member(cluster, metadata_max_age_ms=500)
    member.poll()
    cluster.grow("t", 3)
    member.poll(40)
    assert member.callbacks.taken() == [("assigned", [0])]


def test_a_pattern_matches_topics_created_later() -> None:
    cluster = two_partitions()
    cluster.topic("other")
    member = Member(cluster, pattern="t.*", metadata_max_age_ms=500)
    member.poll()
    assert subscription_of(member.joins()[-1]).topics == ["t"]
    cluster.topic("t2")
    member.poll(40)
    assert subscription_of(member.joins()[-1]).topics == ["t", "t2"]
    assert sorted(member.consumer.subscription.partitions()) == [T0, T1, TopicPartition("t2", 0)]


def test_an_assigned_topic_that_matches_the_pattern_is_accepted_before_it_is_in_the_metadata() -> None:
    """The leader has newer metadata, with a topic that this member does not know yet."""
    cluster = two_partitions()
    cluster.leader, cluster.given = "another-member", [T0]
    member = Member(cluster, pattern="t.*")
    member.poll()
    cluster.topic("t2").append("from t2")
    cluster.given, cluster.rebalances = [T0, TopicPartition("t2", 0)], True
    member.joins()
    assert member.poll(100) == ["a", "b", "from t2"]
    assert member.callbacks.taken() == [("assigned", [0]), ("revoked", [0]), ("assigned", [0, 0])]
    assert len(member.joins()) == 1


def test_an_assignment_of_an_unsubscribed_topic_is_not_applied() -> None:
    cluster = two_partitions()
    cluster.topic("u")
    cluster.leader, cluster.given = "another-member", [TopicPartition("u", 0)]
    member = Member(cluster)
    member.poll()
    assert member.callbacks.taken() == []
    assert "does not match" in member.joins()[-1].reason


# --- callbacks


def test_an_exception_of_a_callback_is_raised_by_poll_after_the_rebalance() -> None:
    cluster = two_partitions()
    member = Member(cluster)
    member.poll()

    def fail(_: object) -> None:
        raise RuntimeError("the caller's own")

    member.consumer.subscribe(["t"], on_revoked=fail, on_assigned=member.callbacks.hooks()["on_assigned"])
    cluster.rebalances = True
    with pytest.raises(RuntimeError, match="the caller's own"):
        member.poll(100)
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("assigned", [0, 1])]


def _offset(offset: int) -> object:
    from kcli.structs import OffsetAndMetadata

    return OffsetAndMetadata(offset)


# --- leaving


def test_close_revokes_the_partitions_and_leaves_with_a_reason() -> None:
    cluster = two_partitions()
    member = Member(cluster)
    member.poll()
    member.consumer.close()
    member.consumer.close()
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1])]
    farewells = cluster.asked(ApiKey.LEAVE_GROUP)
    assert [(it.members[0].member_id, it.members[0].reason) for it in farewells] == [
        ("member-1", "the consumer is being closed")
    ]


def test_a_static_member_does_not_leave() -> None:
    """KIP-345: it may return before its session ends."""
    cluster = two_partitions()
    member = Member(cluster, group_instance_id="i")
    member.poll()
    member.consumer.close()
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert cluster.asked(ApiKey.LEAVE_GROUP) == []


def test_a_member_with_a_pending_join_leaves_at_once() -> None:
    """A request after the unanswered JoinGroup on the same connection would wait for it."""
    cluster = two_partitions()
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda join: cluster._join_group(1, join), lambda _: None)
    member = Member(cluster)
    member.poll(5)
    before_ms = cluster.clock.now_ms()
    member.consumer.close()
    assert cluster.clock.now_ms() - before_ms < 1_000
    assert [it.members[0].member_id for it in cluster.asked(ApiKey.LEAVE_GROUP)] == ["member-1"]


def test_a_member_that_leaves_during_a_pending_join_still_commits() -> None:
    """A cooperative member has partitions then, and has read on. Brokers accept commits until all have joined."""
    cluster = two_partitions()
    member = Member(cluster, partition_assignment_strategy="cooperative-sticky", enable_auto_commit="true")
    assert member.poll() == ["a", "b"]
    cluster.committed.clear()
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda _: None)
    cluster.rebalances = True
    member.poll(80)
    member.consumer.close()
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert cluster.committed[T0] == 2
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1


def test_a_member_removed_during_a_pending_join_has_lost_its_partitions() -> None:
    cluster = two_partitions()
    member = Member(cluster, partition_assignment_strategy="cooperative-sticky", enable_auto_commit="true")
    member.poll()
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda _: None)
    cluster.rebalances = True
    member.poll(80)
    cluster.answer_next(ApiKey.OFFSET_COMMIT, *[_refused_with(ErrorCode.ILLEGAL_GENERATION)] * 2)
    member.consumer.close()
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("lost", [0, 1])]


def _refused_with(code: ErrorCode) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=it.partition_index, error_code=code)
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    return answer


def test_subscribe_and_assign_are_possible_after_unsubscribe() -> None:
    cluster = two_partitions()
    member = Member(cluster)
    member.poll()
    member.consumer.unsubscribe()
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1
    member.consumer.subscribe(["t"], **member.callbacks.hooks())
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    member.consumer.unsubscribe()
    member.consumer.assign([T0])
    assert member.poll(10) == ["a", "b"]


@pytest.mark.parametrize("session_ms", [10_000, 45_000])
def test_a_half_open_connection_to_the_coordinator_is_replaced_within_the_session(session_ms: int) -> None:
    """The network drops everything on one connection, without a reset. Found for sessions below request.timeout.ms."""
    cluster = two_partitions()
    member = Member(cluster, session_timeout_ms=session_ms)
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    respond = cluster.selector.respond
    join, heartbeat = (int(api).to_bytes(2, "big") for api in (ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT))
    coordinator = next(it for it in cluster.selector.peers if any(frame[:2] == join for frame in it.received))
    heard: list[float] = []

    def drop(peer: Any, frame: bytes) -> None:
        if peer is not coordinator:
            if frame[:2] == heartbeat:
                heard.append(cluster.clock.now_ms())
            respond(peer, frame)  # type: ignore[misc]

    cluster.selector.respond = drop
    began_ms = cluster.clock.now_ms()
    member.poll(times=40, timeout_ms=session_ms / 20)
    assert heard[0] < began_ms + session_ms - 1_000
    assert member.callbacks.taken() == []
    assert len(cluster.asked(ApiKey.JOIN_GROUP)) == 2


def test_reading_to_the_end_waits_for_the_first_partitions_of_a_cooperative_member() -> None:
    """The first assignment of a new member is empty while others revoke; the iteration ended at once."""
    cluster = two_partitions()
    cluster.leader = "other"
    member = Member(cluster, partition_assignment_strategy="cooperative-sticky")

    def give() -> None:
        cluster.rebalances, cluster.given = True, [T0]

    cluster.selector.at(2_000, give)
    assert [record.value for record in member.consumer.records(to_end=True)] == [b"a", b"b"]
    assert member.callbacks.taken() == [("assigned", []), ("assigned", [0])]


@pytest.mark.parametrize(
    ("strategy", "longest_ms"), [("cooperative-sticky", 7_000), ("range", 1_000)], ids=["cooperative", "eager"]
)
def test_reading_to_the_end_ends_for_a_member_that_gets_no_partitions(strategy: str, longest_ms: float) -> None:
    cluster = two_partitions()
    cluster.leader = "other"
    member = Member(cluster, partition_assignment_strategy=strategy)
    assert list(member.consumer.records(to_end=True)) == []
    assert member.callbacks.taken() == [("assigned", [])]
    assert cluster.clock.now_ms() <= longest_ms


def test_an_empty_subscription_unsubscribes() -> None:
    member = Member(two_partitions())
    member.poll()
    member.consumer.subscribe([])
    assert member.callbacks.taken() == [("assigned", [0, 1]), ("revoked", [0, 1])]


def test_a_wakeup_does_not_prevent_leaving() -> None:
    cluster = two_partitions()
    member = Member(cluster)
    member.poll()
    member.consumer.wakeup()
    with pytest.raises(WakeupError):
        member.consumer.unsubscribe()
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1


def test_unstable_committed_offsets_are_retried() -> None:
    """KIP-447: stable offsets are requested; a broker without support gets the older version."""
    cluster = two_partitions()
    cluster.committed = {T0: 1}
    assert Member(cluster).poll() == ["b"]
    assert [it.require_stable for it in cluster.asked(ApiKey.OFFSET_FETCH)] == [True]
    old = two_partitions()
    old.committed = {T0: 1}
    old.spoken[ApiKey.OFFSET_FETCH] = (1, 6)
    assert Member(old).poll() == ["b"]
    assert [it.require_stable for it in old.asked(ApiKey.OFFSET_FETCH)] == [False]
