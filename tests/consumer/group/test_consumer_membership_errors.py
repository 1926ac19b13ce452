"""A KIP-848 member and every error, timeout and disconnection: its reaction, and the errors for the application.

Codes are those of Kafka 4.3.1's coordinator, reactions those of Kafka's Java client.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from kcli import Consumer
from kcli.consumer.group.group_membership import NO_GENERATION
from kcli.consumer.group.kip848_protocol import REACTIONS
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, BrokerError, UnsupportedVersion
from kcli.protocol.messages import find_coordinator
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.client.sasl_gate import ALICE, SaslGate
from tests.consumer.group.kip848_cluster import HEARTBEAT, INTERVAL_MS, AssigningCluster, Member, refusal
from tests.lossy_proxy import lossy_proxy
from tests.real_kafka import Kafka

T0, T1 = (TopicPartition("t", number) for number in range(2))
FATAL = [code for code, reaction in REACTIONS.items() if reaction == "fail"]
FENCING = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.fixture
def cluster() -> AssigningCluster:
    cluster = AssigningCluster()
    cluster.topic("t", partitions=2)
    cluster.assign(T0, T1)
    return cluster


@pytest.fixture
def member(cluster: AssigningCluster) -> Member:
    """A member that has joined and owns t-0 and t-1."""
    member = Member(cluster)
    member.poll()
    cluster.requests.clear()
    member.said.clear()
    return member


def answers(code: ErrorCode, message: str | None = None) -> Any:
    return lambda request: refusal(code, message)


def is_full(request: Any) -> bool:
    return request.rebalance_timeout_ms > 0 and request.topic_partitions is not None


def test_one_malformed_answer_is_survived_as_a_cut_connection_is(cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, lambda _request: b"\x7f\0\0\1" + b"\0" * 40)
    member = Member(cluster)
    member.poll(2 * INTERVAL_MS)
    assert member.said == [("assigned", "t-0 t-1")]


# --- fenced


@pytest.mark.parametrize("code", FENCING)
def test_a_fenced_member_has_lost_its_partitions_and_rejoins(
    member: Member, cluster: AssigningCluster, code: ErrorCode
) -> None:
    cluster.answer_next(HEARTBEAT, answers(code))
    member.poll(INTERVAL_MS)
    assert member.said == [("lost", "t-0 t-1"), ("assigned", "t-0 t-1")]
    refused, join, _acknowledgement = cluster.heartbeats()
    assert (refused.member_epoch, join.member_epoch, join.topic_partitions) == (2, 0, [])
    assert is_full(join)
    assert join.member_id == refused.member_id
    assert member.membership.state == "stable"


def test_a_fenced_member_sends_nothing_and_may_not_commit_until_the_application_polls(
    member: Member, cluster: AssigningCluster
) -> None:
    cluster.fence()
    member.work(10 * INTERVAL_MS)
    assert len(cluster.heartbeats()) == 1
    assert (member.membership.state, member.membership.generation) == ("fenced", NO_GENERATION)
    assert member.membership.next_ms() <= cluster.clock.now_ms(), "a poll that waits must not wait any longer"
    assert not member.membership.is_stable()
    member.poll()
    assert member.said == [("lost", "t-0 t-1"), ("assigned", "t-0 t-1")]


@pytest.mark.parametrize("callback", ["commit", "revoked", "assigned"])
def test_a_member_fenced_during_a_reconciliation_loses_the_remaining_partitions(
    member: Member, cluster: AssigningCluster, callback: str
) -> None:
    def slow(_: object) -> None:
        member.on.clear()
        cluster.fence()
        member.work(INTERVAL_MS + 100)

    member.on[callback] = slow
    cluster.assign(T1)
    member.poll(INTERVAL_MS)
    member.poll()
    before = {
        "commit": [("commit", "t-0"), ("lost", "t-0 t-1")],
        "revoked": [("commit", "t-0"), ("revoked", "t-0"), ("lost", "t-1")],
        "assigned": [("commit", "t-0"), ("revoked", "t-0"), ("assigned", ""), ("lost", "t-1")],
    }
    assert member.said == [*before[callback], ("assigned", "t-1")]
    assert (member.membership.state, member.owned()) == ("stable", "t-1")


def test_a_member_fenced_while_leaving_sends_no_last_heartbeat(member: Member, cluster: AssigningCluster) -> None:
    def slow(_: object) -> None:
        cluster.fence()
        member.work(INTERVAL_MS + 100)

    member.on["commit"] = slow
    member.leave()
    assert member.said == [("commit", "t-0 t-1"), ("lost", "t-0 t-1")]
    assert [request.member_epoch for request in cluster.heartbeats()] == [2]
    assert (member.membership.state, member.owned()) == ("out", "")


def test_a_fenced_member_that_leaves_loses_its_partitions(member: Member, cluster: AssigningCluster) -> None:
    cluster.fence()
    member.work(INTERVAL_MS + 100)
    member.leave()
    assert (member.said, member.membership.state) == ([("lost", "t-0 t-1")], "out")


def test_the_lost_callback_may_unsubscribe(member: Member, cluster: AssigningCluster) -> None:
    def enough(_: object) -> None:
        member.leave()
        member.subscription.unsubscribe()

    member.on["lost"] = enough
    cluster.fence()
    member.poll(INTERVAL_MS + 500)
    assert (member.said[0], member.owned(), member.membership.state) == (("lost", "t-0 t-1"), "", "out")
    assert len(cluster.heartbeats()) == 1


def test_a_refused_commit_causes_a_heartbeat_at_once(member: Member, cluster: AssigningCluster) -> None:
    cluster.fence()
    member.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, member.membership.generation)
    member.poll()
    assert member.said == [("lost", "t-0 t-1"), ("assigned", "t-0 t-1")]


def test_a_refused_commit_of_an_earlier_epoch_is_ignored(member: Member, cluster: AssigningCluster) -> None:
    member.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, NO_GENERATION)
    member.poll()
    assert cluster.heartbeats() == []


# --- an application that does not poll


def test_a_member_leaves_after_max_poll_interval_and_rejoins_with_the_next_poll(
    cluster: AssigningCluster,
) -> None:
    member = Member(cluster, max_poll_interval_ms=12_000)
    member.poll()
    member.work(11_000)
    assert cluster.members
    member.work(20_000)
    assert [request.member_epoch for request in cluster.heartbeats()][-1] == -1
    assert (cluster.members, member.membership.state) == ({}, "stale")
    assert "did not poll for 12000 ms" in repr(member.membership)
    member.poll()
    assert member.said == [("assigned", "t-0 t-1"), ("lost", "t-0 t-1"), ("assigned", "t-0 t-1")]
    assert member.membership.state == "stable"


def test_a_callback_longer_than_max_poll_interval_loses_the_membership(cluster: AssigningCluster) -> None:
    member = Member(cluster, max_poll_interval_ms=12_000)
    member.on["assigned"] = lambda _: (member.on.clear(), member.work(13_000))
    member.poll()
    assert member.said[:2] == [("assigned", "t-0 t-1"), ("lost", "t-0 t-1")]


def test_a_long_poll_keeps_the_membership(cluster: AssigningCluster) -> None:
    member = Member(cluster, max_poll_interval_ms=12_000)
    member.poll(60_000)
    assert member.said == [("assigned", "t-0 t-1")]


# --- fatal errors


@pytest.mark.parametrize("code", FATAL)
def test_a_fatal_error_is_raised_at_every_poll(cluster: AssigningCluster, code: ErrorCode) -> None:
    cluster.answer_next(HEARTBEAT, answers(code, "the broker's own words"))
    member = Member(cluster, group_instance_id="i1")
    errors = [member.error(), member.error(10_000)]
    assert all(isinstance(error, BrokerError) and error.code == code for error in errors)
    is_refused = code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert ("group g: READ on the group is denied" if is_refused else "group g, instance i1") in str(errors[0])
    assert ("broker's own words" in str(errors[0])) == (
        code not in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    )
    assert (len(cluster.heartbeats()), member.membership.generation) == (1, NO_GENERATION)


@pytest.mark.parametrize("code", sorted(set(FATAL) - set(FENCING)))
def test_a_failed_member_loses_its_partitions_once(member: Member, cluster: AssigningCluster, code: ErrorCode) -> None:
    cluster.answer_next(HEARTBEAT, answers(code))
    member.error(INTERVAL_MS)
    member.error()
    assert (member.said, member.owned()) == ([("lost", "t-0 t-1")], "")
    member.leave()
    assert (member.membership.state, len(cluster.heartbeats())) == ("out", 1)
    member.poll()
    assert member.owned() == "t-0 t-1", "a member that leaves and subscribes again gets another chance"


def test_an_unknown_error_is_fatal(cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, answers(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert "UNKNOWN_SERVER_ERROR" in str(Member(cluster).error())


def test_a_broker_without_the_api_is_an_error_with_a_remedy(cluster: AssigningCluster) -> None:
    del cluster.spoken[HEARTBEAT]
    member = Member(cluster)
    error = member.error()
    assert isinstance(error, UnsupportedVersion)
    assert "set group.protocol=classic, or use Kafka 4.0 or newer" in str(error)
    assert isinstance(member.error(), UnsupportedVersion)


def test_a_broker_with_v0_does_not_support_patterns(cluster: AssigningCluster) -> None:
    cluster.spoken[HEARTBEAT] = (0, 0)
    assert isinstance(Member(cluster, pattern="t.*").error(), UnsupportedVersion)


def test_a_broker_with_v0_supports_topic_names(cluster: AssigningCluster) -> None:
    cluster.spoken[HEARTBEAT] = (0, 0)
    member = Member(cluster)
    member.poll()
    assert member.owned() == "t-0 t-1"


def test_an_authorization_error_of_the_lookup_is_raised(cluster: AssigningCluster) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    refused = find_coordinator.FindCoordinatorResponse(error_code=code)
    cluster.answer_next(ApiKey.FIND_COORDINATOR, lambda request: refused)
    member = Member(cluster)
    assert [str(member.error()).split(":")[0] for _ in range(2)] == [code.name] * 2


def test_a_topic_authorization_error_is_raised_once_and_retried(member: Member, cluster: AssigningCluster) -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    cluster.answer_next(HEARTBEAT, answers(code, "not t"))
    error = member.error(INTERVAL_MS)
    assert isinstance(error, BrokerError)
    assert error.code == code
    member.poll(1000)
    assert (member.said, member.membership.state) == ([], "stable")


# --- temporary errors


def test_a_loading_coordinator_is_retried_after_a_backoff(cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, *[answers(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 5)
    member = Member(cluster)
    member.poll(300)
    assert len(cluster.heartbeats()) <= 3
    member.poll(5000)
    assert member.owned() == "t-0 t-1"
    assert all(is_full(request) for request in cluster.heartbeats()[:6])


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_moved_coordinator_is_found_again(member: Member, cluster: AssigningCluster, code: ErrorCode) -> None:
    times = []

    def refused_at(request: Any) -> Any:
        times.append(cluster.clock.now_ms())
        return refusal(code)

    def answered_at(request: Any) -> Any:
        times.append(cluster.clock.now_ms())
        return cluster.answer(request.member_id, with_assignment=False)

    cluster.answer_next(HEARTBEAT, refused_at, answered_at)
    member.poll(INTERVAL_MS + 200)
    assert times[1] - times[0] < 50, "a coordinator that is known again need not be spared"
    assert len(cluster.asked(ApiKey.FIND_COORDINATOR)) == 1
    refused, again = cluster.heartbeats()
    assert (is_full(refused), is_full(again), again.member_epoch) == (False, True, 2)
    assert member.said == []


def test_a_lost_coordinator_is_found_again_and_gets_all_fields(member: Member, cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, lambda request: cluster.cut(1))
    member.poll(INTERVAL_MS + 2000)
    again = cluster.heartbeats()[1]
    assert is_full(again)
    assert [it.partitions for it in again.topic_partitions] == [[0, 1]]
    assert (member.said, member.membership.state) == ([], "stable")


def test_a_silent_coordinator_is_looked_up_again_after_the_request_timeout(cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, lambda request: None)
    member = Member(cluster, request_timeout_ms=2000)
    member.poll(1900)
    assert len(cluster.heartbeats()) == 1
    member.poll(3000)
    assert member.owned() == "t-0 t-1"


def test_a_lost_acknowledgement_is_repeated(cluster: AssigningCluster) -> None:
    member = Member(cluster)
    cluster.answer_next(HEARTBEAT, lambda request: cluster.answer(request.member_id, with_assignment=True))
    cluster.members[member.membership.member.identity.member_id] = cluster.epoch
    member.membership.poll(0)
    cluster.answer_next(HEARTBEAT, answers(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    member.poll(3000)
    _join, lost, again = cluster.heartbeats()[:3]
    assert [[it.partitions for it in request.topic_partitions] for request in (lost, again)] == [[[0, 1]]] * 2
    assert member.said == [("assigned", "t-0 t-1")]


def test_a_member_without_brokers_stays_and_continues_when_they_return(
    member: Member, cluster: AssigningCluster
) -> None:
    cluster.lose(1)
    member.poll(20_000)
    assert (member.said, member.owned()) == ([], "t-0 t-1")
    cluster.come_back(1)
    member.poll(5000)
    assert (member.membership.state, cluster.heartbeats()[-1].member_epoch) == ("stable", 2)


def test_a_member_ends_when_its_credentials_are_withdrawn() -> None:
    cluster = AssigningCluster()
    cluster.topic("t").append("a")
    gate = SaslGate(cluster.selector, cluster.spoken, cluster.clock, lifetime_ms=3_000)
    cluster.assign(TopicPartition("t", 0))
    member = Member(cluster, **ALICE)
    member.poll()
    assert member.owned() == "t-0"
    gate.knows_alice = False
    error = member.error(60_000)
    assert isinstance(error, AuthenticationError)
    assert "SASL PLAIN: Authentication failed" in str(error)
    assert cluster.clock.now_ms() < 10_000


@pytest.mark.parametrize("fault", ["cut", "short"])
def test_a_static_member_whose_first_answer_is_lost_joins_nevertheless(any_kafka: Kafka, fault: str) -> None:
    """The broker refuses the repeated join: UNRELEASED_INSTANCE_ID, owned by the member itself."""
    topic = any_kafka.new_topic()
    with lossy_proxy(any_kafka.bootstrap_servers, consumer_group_heartbeat=fault) as proxy:
        settings = {"group_protocol": "consumer", "group_instance_id": "a", "auto_offset_reset": "earliest"}
        with Consumer(topic, bootstrap_servers=proxy.address, group_id=any_kafka.new_name("g"), **settings) as consumer:  # type: ignore[arg-type]
            while not proxy.requests[ApiKey.CONSUMER_GROUP_HEARTBEAT]:
                consumer.poll(10)
            proxy.lost.clear()
            deadline = time.monotonic() + 60
            while not consumer.assignment and time.monotonic() < deadline:
                consumer.poll(100)
            assert consumer.assignment == [TopicPartition(topic, 0)]


def test_an_instance_of_another_member_is_refused_after_an_unanswered_join(cluster: AssigningCluster) -> None:
    cluster.answer_next(HEARTBEAT, lambda _request: b"\x7f\0\0\1" + b"\0" * 40)
    member = Member(cluster, **{"group.instance.id": "a"})
    for _ in range(3):
        cluster.answer_next(HEARTBEAT, answers(ErrorCode.UNRELEASED_INSTANCE_ID))
    assert "UNRELEASED_INSTANCE_ID" in str(member.error(60_000))
    assert [request.member_epoch for request in cluster.heartbeats()][-3:] == [0, -2, 0]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_static_member_joins_after_a_join_that_was_carried_out_in_spite_of_an_error(
    cluster: AssigningCluster, code: ErrorCode
) -> None:
    """Seen with Kafka 4.3.1 on a loaded machine."""
    cluster.answer_next(HEARTBEAT, answers(code))
    cluster.answer_next(HEARTBEAT, answers(ErrorCode.UNRELEASED_INSTANCE_ID))
    member = Member(cluster, **{"group.instance.id": "a"})
    member.poll(5000)
    assert [request.member_epoch for request in cluster.heartbeats()][:4] == [0, 0, -2, 0]
    assert member.said == [("assigned", "t-0 t-1")]
