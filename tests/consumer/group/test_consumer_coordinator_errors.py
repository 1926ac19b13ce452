"""Every error code of JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the reaction of a classic member."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.consumer.group.classic_protocol import Reaction, reaction_to
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, BrokerError
from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.client.sasl_gate import ALICE, SaslGate
from tests.consumer.group.classic_cluster import ClassicCluster, Member, subscription_of

E = ErrorCode
ANSWERS: dict[ApiKey, Any] = {
    ApiKey.JOIN_GROUP: JoinGroupResponse,
    ApiKey.SYNC_GROUP: SyncGroupResponse,
    ApiKey.HEARTBEAT: HeartbeatResponse,
    ApiKey.LEAVE_GROUP: LeaveGroupResponse,
}


def two_partitions(nodes: int = 1) -> ClassicCluster:
    cluster = ClassicCluster(nodes)
    cluster.topic("t", partitions=2).append("a")
    return cluster


def refuse(cluster: ClassicCluster, api: ApiKey, *codes: ErrorCode) -> None:
    """Answer the next requests of this API with this code."""
    cluster.answer_next(api, *[lambda _, code=code: ANSWERS[api](error_code=code) for code in codes])


def settled(cluster: ClassicCluster, **properties: object) -> Member:
    """Return a cooperative member with both partitions, so that lost and revoked partitions differ."""
    member = Member(cluster, partition_assignment_strategy="cooperative-sticky", **properties)
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    member.joins()
    return member


OTHER_REQUEST = b"\x7f\0\0\1" + b"\0" * 40


@pytest.mark.parametrize(
    "api",
    [
        *(ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT),
        *(ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.LIST_OFFSETS, ApiKey.FETCH, ApiKey.METADATA),
    ],
    ids=lambda key: key.name,
)
def test_one_malformed_answer_is_survived_as_a_cut_connection_is(api: ApiKey) -> None:
    cluster = two_partitions()
    cluster.answer_next(api, lambda _request: OTHER_REQUEST)
    member = Member(cluster)
    assert member.poll(100) == ["a"]
    member.consumer.commit()
    assert cluster.committed == {TopicPartition("t", 0): 1, TopicPartition("t", 1): 0}
    assert not cluster._scripts[api]


# --- join


@pytest.mark.parametrize("code", [E.COORDINATOR_LOAD_IN_PROGRESS, E.REBALANCE_IN_PROGRESS])
def test_a_join_is_retried_after_a_temporary_error(code: ErrorCode) -> None:
    cluster = two_partitions()
    refuse(cluster, ApiKey.JOIN_GROUP, code)
    member = Member(cluster)
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    assert [join.member_id for join in member.joins()] == ["", "", "member-1"]
    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 1


@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
def test_a_join_is_sent_to_the_new_coordinator(code: ErrorCode) -> None:
    cluster = two_partitions(nodes=2)
    refuse(cluster, ApiKey.JOIN_GROUP, code)
    member = Member(cluster)
    cluster.answer_next(ApiKey.FIND_COORDINATOR, lambda it: cluster._find_coordinator(1, it), _moves(cluster, 2))
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    nodes = [it.node for it in cluster.requests if it.request.API_KEY == ApiKey.JOIN_GROUP]
    assert nodes == [1, 2, 2]


def _moves(cluster: ClassicCluster, node: int) -> Any:
    def found(request: Any) -> Any:
        cluster.coordinator = node
        return cluster._find_coordinator(1, request)

    return found


def test_an_unknown_member_joins_as_a_new_member() -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.JOIN_GROUP, E.UNKNOWN_MEMBER_ID)
    cluster.rebalances = True
    member.poll(100)
    assert member.callbacks.taken() == [("lost", [0, 1]), ("assigned", [0, 1])]
    assert [join.member_id for join in member.joins()] == ["member-1", "", "member-2"]


FATAL_FOR_JOIN = [
    E.INCONSISTENT_GROUP_PROTOCOL,
    E.INVALID_SESSION_TIMEOUT,
    E.INVALID_GROUP_ID,
    E.GROUP_AUTHORIZATION_FAILED,
    E.GROUP_MAX_SIZE_REACHED,
    E.UNSUPPORTED_VERSION,
    E.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.parametrize("code", FATAL_FOR_JOIN)
def test_a_refused_join_is_raised_and_retried_by_a_later_poll(code: ErrorCode) -> None:
    cluster = two_partitions()
    refuse(cluster, ApiKey.JOIN_GROUP, code)
    member = Member(cluster)
    with pytest.raises(
        BrokerError, match=rf"{code.name}.*(group billing: READ .*request JoinGroup|request JoinGroup, group billing)"
    ) as refused:
        member.poll()
    assert refused.value.code is code
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]


# --- sync


@pytest.mark.parametrize(
    ("code", "ids", "coordinators"),
    [
        (E.REBALANCE_IN_PROGRESS, ["member-1", "member-1"], 1),
        (E.COORDINATOR_LOAD_IN_PROGRESS, ["member-1", "member-1"], 1),
        (E.NOT_COORDINATOR, ["member-1", "member-1"], 2),
        (E.COORDINATOR_NOT_AVAILABLE, ["member-1", "member-1"], 2),
    ],
)
def test_a_failed_sync_causes_a_rejoin_as_the_same_member(code: ErrorCode, ids: list[str], coordinators: int) -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.SYNC_GROUP, code)
    cluster.rebalances = True
    member.poll(100)
    assert member.callbacks.taken() == [("assigned", [])]
    joins = member.joins()
    assert [join.member_id for join in joins] == ids
    assert [subscription_of(join).generation_id for join in joins] == [1, 2]
    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == coordinators


@pytest.mark.parametrize(
    ("code", "ids"),
    [(E.ILLEGAL_GENERATION, ["member-1", "member-1"]), (E.UNKNOWN_MEMBER_ID, ["member-1", "", "member-2"])],
)
def test_a_sync_for_an_ended_generation_loses_the_partitions(code: ErrorCode, ids: list[str]) -> None:
    """As in Java, the member id is kept when only the generation is wrong, so that the group does not wait for the old
    id.
    """
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.SYNC_GROUP, code)
    cluster.rebalances = True
    member.poll(100)
    assert member.callbacks.taken() == [("lost", [0, 1]), ("assigned", [0, 1])]
    joins = member.joins()
    assert [join.member_id for join in joins] == ids
    assert subscription_of(joins[1]).owned_partitions == []
    assert subscription_of(joins[1]).generation_id == -1


@pytest.mark.parametrize("code", [E.GROUP_AUTHORIZATION_FAILED, E.INCONSISTENT_GROUP_PROTOCOL, E.UNKNOWN_SERVER_ERROR])
def test_a_refused_sync_is_raised(code: ErrorCode) -> None:
    cluster = two_partitions()
    refuse(cluster, ApiKey.SYNC_GROUP, code)
    member = Member(cluster)
    with pytest.raises(BrokerError, match=rf"{code.name}.*request SyncGroup"):
        member.poll()
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]


def test_a_sync_response_for_another_assignor_is_raised() -> None:
    cluster = two_partitions()
    cluster.answer_next(ApiKey.SYNC_GROUP, lambda _: SyncGroupResponse(protocol_name="sticky"))
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        Member(cluster).poll()


# --- heartbeats


def test_heartbeats_are_sent_by_interval_while_the_member_polls() -> None:
    cluster = two_partitions()
    member = settled(cluster, heartbeat_interval_ms=1000)
    before = len(cluster.asked(ApiKey.HEARTBEAT))
    member.poll(1, timeout_ms=10_000)
    beats = cluster.asked(ApiKey.HEARTBEAT)[before:]
    assert 9 <= len(beats) <= 11
    assert {(it.generation_id, it.member_id, it.group_id) for it in beats} == {(1, "member-1", "billing")}


def test_a_rebalance_in_a_heartbeat_response_causes_a_rejoin() -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.HEARTBEAT, E.REBALANCE_IN_PROGRESS)
    member.poll(100)
    assert member.callbacks.taken() == [("assigned", [])]
    assert [join.reason for join in member.joins()] == ["the group is rebalancing"]


@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
def test_a_heartbeat_is_sent_to_the_new_coordinator_without_a_rejoin(code: ErrorCode) -> None:
    cluster = two_partitions(nodes=2)
    member = settled(cluster)
    refuse(cluster, ApiKey.HEARTBEAT, code)
    cluster.coordinator = 2
    member.poll(100)
    assert member.callbacks.taken() == []
    assert member.joins() == []
    assert [it.node for it in cluster.requests if it.request.API_KEY == ApiKey.HEARTBEAT][:2] == [1, 2]


@pytest.mark.parametrize(
    ("code", "ids"), [(E.ILLEGAL_GENERATION, ["member-1"]), (E.UNKNOWN_MEMBER_ID, ["", "member-2"])]
)
def test_a_removed_member_has_lost_its_partitions_and_rejoins(code: ErrorCode, ids: list[str]) -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.HEARTBEAT, code)
    member.poll(100)
    assert member.callbacks.taken() == [("lost", [0, 1]), ("assigned", [0, 1])]
    assert [join.member_id for join in member.joins()] == ids


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT])
def test_a_fenced_member_raises_at_every_poll_and_does_not_rejoin(api: ApiKey) -> None:
    cluster = two_partitions()
    member = Member(cluster, group_instance_id="i")
    if api == ApiKey.HEARTBEAT:
        member.poll()
    refuse(cluster, api, E.FENCED_INSTANCE_ID)
    for _ in range(3):
        with pytest.raises(BrokerError, match=r"FENCED_INSTANCE_ID.*member i"):
            member.poll(100)
    assert len(member.joins()) == 1
    lost = [("assigned", [0, 1]), ("lost", [0, 1])] if api == ApiKey.HEARTBEAT else []
    assert member.callbacks.taken() == lost


def test_an_authorization_error_of_a_heartbeat_is_raised_and_the_member_stays() -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.HEARTBEAT, E.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match=r"GROUP_AUTHORIZATION_FAILED.*request Heartbeat"):
        member.poll(100)
    member.poll(100)
    assert member.joins() == []


@pytest.mark.parametrize("code", [E.UNKNOWN_SERVER_ERROR, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_heartbeat_is_retried_soon_after_another_error(code: ErrorCode) -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.HEARTBEAT, code)
    member.poll(80)  # the interval is 3 s, the backoff a tenth of one
    assert len(cluster.asked(ApiKey.HEARTBEAT)) >= 2
    assert (member.callbacks.taken(), member.joins()) == ([], [])


def test_a_heartbeat_response_of_an_older_generation_is_ignored() -> None:
    cluster = two_partitions()
    member = settled(cluster)
    inner = member.consumer.membership
    assert inner is not None
    inner.commit_refused(E.UNKNOWN_MEMBER_ID, inner.generation._replace(id=0))
    member.poll()
    assert (member.callbacks.taken(), member.joins()) == ([], [])


def test_a_silent_coordinator_is_looked_up_again_after_the_session_timeout() -> None:
    cluster = two_partitions()
    member = settled(cluster, session_timeout_ms=6000)
    cluster.answer_next(ApiKey.HEARTBEAT, lambda _: None)
    member.poll(200)
    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 2
    assert member.joins() == []
    assert len(cluster.asked(ApiKey.HEARTBEAT)) >= 2


def test_a_disconnected_coordinator_is_replaced() -> None:
    cluster = two_partitions(nodes=2)
    cluster.logs = {tp: log for tp, log in cluster.logs.items() if not log.lead(2)}  # type: ignore[func-returns-value]
    member = settled(cluster)
    cluster.coordinator = 2
    cluster.lose(1)
    member.poll(200)
    assert (member.callbacks.taken(), member.joins()) == ([], [])
    assert cluster.requests[-1].node == 2


def test_a_connection_lost_during_a_pending_join_is_retried() -> None:
    cluster = two_partitions()
    member = settled(cluster)
    cluster.answer_next(ApiKey.JOIN_GROUP, lambda _: None)
    cluster.rebalances = True
    member.poll(80)
    cluster.cut(1)
    member.poll(100)
    assert member.callbacks.taken() == [("assigned", [])]
    assert [join.member_id for join in member.joins()] == ["member-1", "member-1"]


# --- the application


def test_a_member_leaves_after_max_poll_interval_without_a_poll() -> None:
    """KIP-62, with the calls of the heartbeat thread made by hand."""
    cluster = two_partitions()
    member = settled(cluster, max_poll_interval_ms=10_000)
    inner: Any = member.consumer.membership
    cluster.clock.advance(10_001)
    inner._member.beat(cluster.clock.now_ms())
    member.poll(100)
    leave_heartbeat = cluster.asked(ApiKey.LEAVE_GROUP)[0].members[0]
    assert (leave_heartbeat.member_id, leave_heartbeat.reason) == ("member-1", "the application did not poll for 10 s")
    assert member.callbacks.taken() == [("lost", [0, 1]), ("assigned", [0, 1])]
    assert [join.member_id for join in member.joins()] == ["", "member-2"]


def test_a_poll_longer_than_max_poll_interval_keeps_the_member() -> None:
    cluster = two_partitions()
    member = settled(cluster, max_poll_interval_ms=2_000)
    member.poll(1, timeout_ms=10_000)
    assert cluster.asked(ApiKey.LEAVE_GROUP) == []


# --- leave, find coordinator, commit


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.NOT_COORDINATOR, E.GROUP_AUTHORIZATION_FAILED])
def test_leaving_ignores_the_error_code_of_the_response(code: ErrorCode) -> None:
    cluster = two_partitions()
    member = settled(cluster)
    refuse(cluster, ApiKey.LEAVE_GROUP, code)
    member.consumer.close()
    assert member.callbacks.taken() == [("revoked", [0, 1])]
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1


def test_leaving_ends_at_the_deadline() -> None:
    cluster = two_partitions()
    member = settled(cluster)
    cluster.answer_next(ApiKey.LEAVE_GROUP, lambda _: None)
    before_ms = cluster.clock.now_ms()
    member.consumer.close(timeout_ms=500)
    assert cluster.clock.now_ms() - before_ms == pytest.approx(500, abs=50)


@pytest.mark.parametrize("code", [E.GROUP_AUTHORIZATION_FAILED, E.INVALID_GROUP_ID])
def test_a_fatal_error_of_the_lookup_is_raised(code: ErrorCode) -> None:
    cluster = two_partitions()
    cluster.answer_next(ApiKey.FIND_COORDINATOR, lambda _: FindCoordinatorResponse(error_code=code))
    member = Member(cluster)
    with pytest.raises(BrokerError, match=rf"{code.name}.*request FindCoordinator"):
        member.poll()
    member.poll()
    assert member.callbacks.taken() == [("assigned", [0, 1])]


def test_a_missing_coordinator_is_looked_up_with_increasing_backoff() -> None:
    cluster = two_partitions()
    refusal = FindCoordinatorResponse(error_code=E.COORDINATOR_NOT_AVAILABLE)
    cluster.answer_next(ApiKey.FIND_COORDINATOR, *[lambda _: refusal] * 4)
    member = Member(cluster)
    member.poll(100)
    assert member.callbacks.taken() == [("assigned", [0, 1])]
    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 5


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (E.REBALANCE_IN_PROGRESS, [("assigned", [])]),
        (E.ILLEGAL_GENERATION, [("lost", [0, 1]), ("assigned", [0, 1])]),
        (E.UNKNOWN_MEMBER_ID, [("lost", [0, 1]), ("assigned", [0, 1])]),
        (E.OFFSET_METADATA_TOO_LARGE, []),
    ],
)
def test_a_refused_commit_changes_the_membership(code: ErrorCode, result: list[Any]) -> None:
    member = settled(two_partitions())
    inner = member.consumer.membership
    assert inner is not None
    inner.commit_refused(code, inner.generation)
    member.poll()
    assert member.callbacks.taken() == result


# --- the table


def test_every_code_has_one_reaction_for_each_api() -> None:
    for api in (*ANSWERS, ApiKey.OFFSET_COMMIT):
        assert all(isinstance(reaction_to(api, code), Reaction) for code in ErrorCode.all())
        assert reaction_to(api, E.NONE) is Reaction.CONTINUE


def test_unknown_codes_are_raised_for_join_and_sync_only() -> None:
    strange = E.SECURITY_DISABLED
    assert {api for api in ANSWERS if reaction_to(api, strange) is Reaction.RAISE} == {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
    }


# --- no time passes without a pause


def test_a_fatal_error_of_the_lookup_waits_for_the_next_poll_without_a_heartbeat_at_every_moment() -> None:
    """The heartbeat thread called `beat` without a pause until the application polled."""
    cluster = two_partitions()
    member = settled(cluster)
    membership, client = member.consumer.membership, member.consumer._client
    assert membership is not None
    lookup = membership._lookup  # type: ignore[attr-defined]
    lookup.mark_unknown("for this test")
    refused = FindCoordinatorResponse(error_code=E.GROUP_AUTHORIZATION_FAILED)
    cluster.answer_next(ApiKey.FIND_COORDINATOR, lambda _: refused)
    beat = membership._member.beat  # type: ignore[attr-defined]
    awaited = beat(cluster.clock.now_ms()).awaited
    assert client.poll(until=awaited, timeout_ms=1_000)
    assert beat(cluster.clock.now_ms()).next_ms > cluster.clock.now_ms() + 1_000
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        member.poll(1)


def test_a_member_ends_when_its_credentials_are_withdrawn() -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    gate = SaslGate(cluster.selector, cluster.spoken, cluster.clock, lifetime_ms=3_000)

    member = Member(cluster, **ALICE)
    assert member.poll() == ["a"]
    gate.knows_alice = False
    with pytest.raises(AuthenticationError, match="SASL PLAIN: Authentication failed"):
        member.consumer.poll(60_000)
    assert cluster.clock.now_ms() < 6_000
    member.consumer.close()
