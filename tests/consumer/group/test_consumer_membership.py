"""A KIP-848 member against a fake coordinator, with a manual clock: join, own, leave."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kcli.client.request_future import RequestFuture
from kcli.consumer.group.group_membership import NO_GENERATION
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import find_coordinator
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.consumer.group.kip848_cluster import HEARTBEAT, INTERVAL_MS, AssigningCluster, Member, refusal

T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))


@pytest.fixture
def cluster() -> AssigningCluster:
    cluster = AssigningCluster()
    cluster.topic("t", partitions=4)
    return cluster


@pytest.fixture
def member(cluster: AssigningCluster) -> Member:
    """A member that has joined and owns t-0 and t-1."""
    cluster.assign(T0, T1)
    member = Member(cluster)
    member.poll()
    assert member.owned() == "t-0 t-1"
    cluster.requests.clear()
    member.said.clear()
    return member


def changes(request: Any) -> dict[str, Any]:
    """Return the fields of a heartbeat without those of the identity."""
    said = {
        "rebalance_timeout": request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else None,
        "names": request.subscribed_topic_names,
        "regex": request.subscribed_topic_regex,
        "assignor": request.server_assignor,
        "rack": request.rack_id,
        "owned": None if request.topic_partitions is None else [it.partitions for it in request.topic_partitions],
    }
    return {name: value for name, value in said.items() if value is not None}


# --- joining


def test_the_first_heartbeat_has_all_fields_and_later_ones_only_changes(cluster: AssigningCluster) -> None:
    cluster.assign(T0, T1)
    member = Member(cluster, "t", client_rack="r1", group_remote_assignor="range", max_poll_interval_ms=60_000)
    member.poll(2 * INTERVAL_MS + 500)
    join, acknowledgement, *others = cluster.heartbeats()
    assert (join.group_id, join.member_epoch, join.instance_id) == ("g", 0, None)
    assert changes(join) == {
        "rebalance_timeout": 60_000,
        "names": ["t"],
        "assignor": "range",
        "rack": "r1",
        "owned": [],
    }
    assert (acknowledgement.member_epoch, changes(acknowledgement)) == (2, {"owned": [[0, 1]]})
    assert [changes(request) for request in others] == [{}, {}]


def test_the_member_id_is_generated_once_and_kept(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    member.poll(INTERVAL_MS)
    member.leave()
    member.poll()
    assert len({request.member_id for request in cluster.heartbeats()}) == 1
    assert re.fullmatch("[A-Za-z0-9_-]{22}", cluster.heartbeats()[0].member_id)


def test_assigned_partitions_are_read_after_the_callback(cluster: AssigningCluster) -> None:
    cluster.assign(T0, T3)
    member = Member(cluster)
    member.poll()
    assert member.owned() == "t-0 t-3"
    assert member.said == [("assigned", "t-0 t-3")]
    assert member.membership.generation == (2, cluster.heartbeats()[0].member_id, None)
    assert member.membership.is_stable()


def test_the_callback_runs_for_an_empty_assignment(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    member.poll()
    assert (member.said, member.membership.state) == ([("assigned", "")], "stable")


def test_a_join_response_without_an_assignment_is_an_empty_assignment(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    cluster.members[member.membership.member.identity.member_id] = cluster.epoch
    cluster.answer_next(HEARTBEAT, lambda request: cluster.answer(request.member_id, with_assignment=False))
    member.poll()
    assert (member.said, member.membership.state) == ([("assigned", "")], "stable")


def test_added_partitions_are_acknowledged_in_the_same_poll(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    while member.membership.state != "reconciling":
        member.membership.poll(member.client.clock.now_ms())
        member.client.poll(timeout_ms=10)
    member.membership.poll(member.client.clock.now_ms())
    member.client.poll(timeout_ms=10)
    assert [request.member_epoch for request in cluster.heartbeats()] == [0, 1]


def test_no_heartbeat_is_sent_without_a_subscription(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    member.subscription.unsubscribe()
    member.poll(1000)
    assert (cluster.heartbeats(), member.membership.generation) == ([], NO_GENERATION)


def test_the_broker_sets_the_heartbeat_interval(member: Member, cluster: AssigningCluster) -> None:
    member.poll(10 * INTERVAL_MS)
    assert len(cluster.heartbeats()) == 10


def test_heartbeats_continue_while_the_application_is_busy(member: Member, cluster: AssigningCluster) -> None:
    member.work(10 * INTERVAL_MS)
    assert len(cluster.heartbeats()) == 10


# --- another target


def test_revoked_partitions_are_committed_and_acknowledged_before_new_ones_arrive(
    member: Member, cluster: AssigningCluster
) -> None:
    member.on["commit"] = lambda _: member.said.append(("reads meanwhile", member.owned()))
    member.on["revoked"] = lambda _: member.said.append(("reads meanwhile", member.owned()))
    cluster.assign(T1)
    member.poll(INTERVAL_MS)
    assert member.said == [
        ("commit", "t-0"),
        ("reads meanwhile", "t-0 t-1"),
        ("revoked", "t-0"),
        ("reads meanwhile", "t-0 t-1"),
        ("assigned", ""),
    ]
    assert member.owned() == "t-1"
    asked, acknowledgement = cluster.heartbeats()
    assert changes(asked) == {}
    assert changes(acknowledgement) == {"owned": [[1]]}


def test_a_partition_that_stays_assigned_keeps_its_position(member: Member, cluster: AssigningCluster) -> None:
    member.subscription.seek(T1, 17)
    cluster.assign(T1, T2)
    member.poll(INTERVAL_MS)
    position = member.subscription.state(T1).position
    assert position is not None
    assert position.offset == 17
    assert member.said == [("commit", "t-0"), ("revoked", "t-0"), ("assigned", "t-2")]


def test_a_new_target_is_applied_in_the_next_poll(member: Member, cluster: AssigningCluster) -> None:
    cluster.assign(T0)
    member.work(INTERVAL_MS + 100)
    assert (member.membership.state, member.said, member.owned()) == ("reconciling", [], "t-0 t-1")
    cluster.assign(T1)
    member.work(INTERVAL_MS)
    member.poll()
    assert member.said == [("commit", "t-0"), ("revoked", "t-0"), ("assigned", "")]
    assert (member.membership.state, member.owned()) == ("stable", "t-1")


def test_a_target_that_is_withdrawn_before_the_poll_changes_nothing(member: Member, cluster: AssigningCluster) -> None:
    cluster.assign(T0)
    member.work(INTERVAL_MS + 100)
    cluster.assign(T0, T1)
    member.work(INTERVAL_MS)
    assert member.membership.state == "stable"
    member.poll()
    assert member.said == []


def test_a_target_that_arrives_during_callbacks_starts_another_reconciliation(
    member: Member, cluster: AssigningCluster
) -> None:
    def slow(_: object) -> None:
        member.on.clear()
        cluster.assign(T2)
        member.work(2 * INTERVAL_MS)

    member.on["revoked"] = slow
    cluster.assign(T1)
    member.poll(INTERVAL_MS)
    member.poll()
    assert member.said == [
        *[("commit", "t-0"), ("revoked", "t-0"), ("assigned", "")],
        *[("commit", "t-1"), ("revoked", "t-1"), ("assigned", "t-2")],
    ]
    assert (member.membership.state, member.owned()) == ("stable", "t-2")
    assert [changes(request)["owned"] for request in cluster.heartbeats() if changes(request)] == [[[1]], [[2]]]


@pytest.mark.parametrize("callback", ["commit", "revoked", "assigned"])
def test_an_exception_of_a_callback_is_raised_after_the_reconciliation(
    member: Member, cluster: AssigningCluster, callback: str
) -> None:
    def broken(_: object) -> None:
        raise ValueError("the application's own")

    member.on[callback] = broken
    cluster.assign(T1, T2)
    with pytest.raises(ValueError, match="the application's own"):
        member.poll(INTERVAL_MS)
    assert [what for what, _ in member.said] == ["commit", "revoked", "assigned"]
    member.on.clear()
    member.poll()
    assert (member.membership.state, member.owned()) == ("stable", "t-1 t-2")


# --- topic names


def test_topics_missing_in_the_metadata_are_requested_by_id(cluster: AssigningCluster) -> None:
    cluster.topic("other", partitions=2)
    cluster.assign(T0, TopicPartition("other", 1))
    member = Member(cluster, pattern=".*")
    member.poll(500)
    assert member.owned() == "other-1 t-0"
    assert sorted(member.client.metadata.requested_topics) == ["other", "t"]


def test_a_topic_unknown_to_the_brokers_waits_and_the_others_are_read(cluster: AssigningCluster) -> None:
    cluster.topic("new")
    cluster.hidden_ids.add(cluster.topic_ids["new"])
    cluster.assign(T0, TopicPartition("new", 0))
    member = Member(cluster, "t", "new")
    member.poll(3000)
    assert (member.owned(), member.membership.state) == ("t-0", "reconciling")
    assert len(cluster.asked(HEARTBEAT)) < 5, "it does not hammer the coordinator meanwhile"
    assert "do not know an assigned topic yet" in repr(member.membership)
    cluster.hidden_ids.clear()
    member.poll(3000)
    assert (member.owned(), member.membership.state) == ("new-0 t-0", "stable")
    assert member.said == [("assigned", "t-0"), ("assigned", "new-0")]


def test_a_topic_created_again_is_revoked_and_starts_again(member: Member, cluster: AssigningCluster) -> None:
    member.subscription.seek(T0, 1000)
    cluster.delete("t")
    cluster.topic("t", partitions=4)
    cluster.assign(T0)
    member.poll(INTERVAL_MS + 500)
    assert member.said == [("commit", "t-0 t-1"), ("revoked", "t-0 t-1"), ("assigned", ""), ("assigned", "t-0")]
    assert member.subscription.state(T0).position is None


# --- subscription


def test_a_changed_subscription_is_sent_with_the_next_heartbeat(member: Member, cluster: AssigningCluster) -> None:
    member.subscription.subscribe(["t", "u"])
    member.poll(INTERVAL_MS)
    assert [changes(request) for request in cluster.heartbeats()] == [{"names": ["t", "u"]}]


def test_a_pattern_is_sent_to_the_broker_unchanged(cluster: AssigningCluster) -> None:
    member = Member(cluster, pattern=r"\p{Greek}+|t.*")
    member.poll()
    join = next(it for it in cluster.requests if it.request.API_KEY == HEARTBEAT)
    assert join.version == 1
    assert changes(join.request)["regex"] == r"\p{Greek}+|t.*"
    assert changes(join.request)["names"] == []
    member.subscription.subscribe_server_pattern("u.*")
    member.poll(2 * INTERVAL_MS)
    assert [changes(request) for request in cluster.heartbeats()[2:]] == [{"regex": "u.*"}, {}]


# --- leaving


def test_leaving_commits_revokes_and_sends_the_last_heartbeat(member: Member, cluster: AssigningCluster) -> None:
    member.leave()
    assert member.said == [("commit", "t-0 t-1"), ("revoked", "t-0 t-1")]
    assert [request.member_epoch for request in cluster.heartbeats()] == [-1]
    assert (cluster.members, member.owned(), member.membership.state) == ({}, "", "out")
    member.leave()
    assert len(cluster.heartbeats()) == 1


def test_a_static_member_leaves_with_epoch_minus_2(cluster: AssigningCluster) -> None:
    member = Member(cluster, group_instance_id="i1")
    member.poll()
    member.leave()
    assert [(request.member_epoch, request.instance_id) for request in cluster.heartbeats()] == [
        *[(0, "i1"), (1, "i1"), (-2, "i1")]
    ]


def test_heartbeats_continue_during_the_revocation_of_leaving(member: Member, cluster: AssigningCluster) -> None:
    member.on["revoked"] = lambda _: member.work(3 * INTERVAL_MS)
    member.leave()
    assert [request.member_epoch for request in cluster.heartbeats()] == [2, 2, 2, -1]


def test_a_member_whose_join_is_in_flight_still_leaves(cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, lambda request: None)
    member = Member(cluster, request_timeout_ms=2000)
    member.poll(1000)
    member.leave(3000)
    assert [request.member_epoch for request in cluster.heartbeats()] == [0, -1]


def test_a_member_unknown_to_any_coordinator_leaves_without_a_request(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    member.membership.poll(member.client.clock.now_ms())
    member.leave()
    assert cluster.heartbeats() == []


def test_leaving_without_a_coordinator_ends_at_the_deadline(member: Member, cluster: AssigningCluster) -> None:
    cluster.lose(1)
    member.poll()
    before_ms = member.client.clock.now_ms()
    member.leave(2000)
    assert member.client.clock.now_ms() - before_ms <= 2001
    assert (member.membership.state, member.owned()) == ("out", "")


def test_leaving_ends_at_the_deadline_while_the_coordinator_is_unknown(
    member: Member, cluster: AssigningCluster
) -> None:
    nobody = find_coordinator.FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.answer_next(ApiKey.FIND_COORDINATOR, *[lambda request: nobody] * 100)
    member.lookup.mark_unknown("the test wants it")
    before_ms = member.client.clock.now_ms()
    member.leave(2000)
    assert member.client.clock.now_ms() - before_ms == pytest.approx(2000, abs=1)
    assert (member.membership.state, member.owned(), cluster.heartbeats()) == ("out", "", [])


def test_a_revocation_may_take_longer_than_max_poll_interval(cluster: AssigningCluster) -> None:
    cluster.assign(T0)
    member = Member(cluster, max_poll_interval_ms=12_000)
    member.poll()
    member.on["revoked"] = lambda _: member.work(20_000)
    member.leave()
    assert member.said == [("assigned", "t-0"), ("commit", "t-0"), ("revoked", "t-0")]
    assert [request.member_epoch for request in cluster.heartbeats()] == [0, 2, 2, 2, 2, 2, -1]


def test_a_response_to_an_earlier_membership_is_ignored(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[RequestFuture[Any]] = []

    def send(*_: object, **__: object) -> RequestFuture[Any]:
        sent.append(RequestFuture())
        return sent[-1]

    monkeypatch.setattr(member.client, "send", send)
    member.membership.request_rejoin("the test wants it")
    member.membership.poll(member.client.clock.now_ms())
    member.leave(0)
    member.membership.poll(member.client.clock.now_ms())
    earlier, _farewell, _join = sent
    earlier.complete(refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert member.membership.state == "joining"


def test_a_member_can_rejoin_after_leaving(member: Member, cluster: AssigningCluster) -> None:
    member.leave()
    member.poll()
    assert [request.member_epoch for request in cluster.heartbeats()][:2] == [-1, 0]
    assert member.owned() == "t-0 t-1"


def test_an_exception_of_a_callback_does_not_prevent_leaving(member: Member, cluster: AssigningCluster) -> None:
    def broken(_: object) -> None:
        raise ValueError("the application's own")

    member.on["revoked"] = broken
    with pytest.raises(ValueError, match="own"):
        member.leave()
    assert cluster.members == {}


@pytest.mark.parametrize("callback", ["commit", "revoked"])
def test_an_interrupted_leave_can_be_repeated(member: Member, cluster: AssigningCluster, callback: str) -> None:
    def interrupted(_: object) -> None:
        member.on.clear()
        raise KeyboardInterrupt

    member.on[callback] = interrupted
    with pytest.raises(KeyboardInterrupt):
        member.leave()
    assert member.membership.generation.id == 2, "it may still commit"
    member.leave()
    assert (cluster.members, member.owned(), member.membership.state) == ({}, "", "out")


@pytest.mark.parametrize("callback", ["revoked", "assigned"])
def test_a_callback_may_unsubscribe(member: Member, cluster: AssigningCluster, callback: str) -> None:
    def enough(_: object) -> None:
        member.leave()
        member.subscription.unsubscribe()

    member.on[callback] = enough
    cluster.assign(T1)
    member.poll(INTERVAL_MS + 500)
    assert (cluster.members, member.owned(), member.membership.state) == ({}, "", "out")
    assert member.said[-1][0] in ("revoked", callback)


def test_a_wakeup_does_not_prevent_the_last_heartbeat(member: Member, cluster: AssigningCluster) -> None:
    member.client.wakeup()
    member.leave()
    assert (cluster.members, member.membership.state) == ({}, "out")


def test_metadata_of_unassigned_topics_is_no_longer_requested(cluster: AssigningCluster) -> None:
    cluster.topic("u")
    cluster.assign(T0, TopicPartition("u", 0))
    member = Member(cluster, pattern=".*")
    member.poll(500)
    cluster.delete("u")
    cluster.assign(T0)
    member.poll(INTERVAL_MS + 100)
    assert (member.owned(), member.client.metadata.requested_topics) == ("t-0", ["t"])


def test_a_response_after_leaving_is_ignored(member: Member, cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, lambda request: refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    member.membership.request_rejoin("the test wants it")
    member.membership.poll(member.client.clock.now_ms())
    member.leave()
    assert member.membership.state == "out"
    member.poll()
    assert member.owned() == "t-0 t-1"


def test_a_member_without_partitions_may_get_some_for_two_heartbeat_intervals(cluster: AssigningCluster) -> None:
    cluster.assign()
    member = Member(cluster)
    member.poll(1_000)
    membership, clock = member.membership, member.client.clock
    assert (membership.state, member.owned()) == ("stable", "")
    assert membership.may_get_first_partitions(clock.now_ms())
    assert not membership.may_get_first_partitions(clock.now_ms() + 2 * membership.member.heartbeat_interval_ms)
    cluster.assign(TopicPartition("t", 0))
    member.poll(10_000)
    assert not membership.may_get_first_partitions(clock.now_ms())


def test_an_unanswered_heartbeat_is_repeated_over_another_connection_within_the_session(
    member: Member, cluster: AssigningCluster
) -> None:
    """Nine intervals are the session that brokers have by default; a half-open connection must not outlast it."""
    member.poll(1_000)
    interval_ms = member.membership.member.heartbeat_interval_ms
    member.poll(interval_ms)
    sent = len(cluster.heartbeats())
    cluster.answer_next(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda _: None)
    connections = len(cluster.selector.peers)
    member.poll(7 * interval_ms)
    assert len(cluster.heartbeats()) >= sent + 2
    assert len(cluster.selector.peers) > connections
    assert member.said == []
