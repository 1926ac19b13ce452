"""Offset commits against a fake coordinator: the stored offsets, and the reaction to each error code.

The reactions are those of Kafka's Java client (ConsumerCoordinator and, for KIP-848, CommitRequestManager); the codes
of a broker were measured on Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.consumer.group.commit_requests import REACTIONS, Reaction
from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
from kcli.consumer.group.group_membership import NO_GENERATION, Generation, Membership
from kcli.consumer.group.offset_commits import OffsetCommits
from kcli.consumer.offset_fetcher import fetch_committed
from kcli.consumer.subscription import SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CommitFailed, KcliError, TimeoutExpired, WakeupError
from kcli.protocol.messages import find_coordinator, offset_commit
from kcli.protocol.registry import ApiKey
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.consumer.cluster import FakeCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
AT_5 = {T0: OffsetAndMetadata(5)}
GENERATION = Generation(7, "me", "range")


class Coordinator(FakeCluster):
    """A cluster whose node 1 stores offsets; `stored` has them with epoch and metadata."""

    def __init__(self) -> None:
        super().__init__(2)
        self.spoken[ApiKey.OFFSET_COMMIT] = (2, 9)
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self.topic("t", 2)
        self.topic("u")

    def _offset_commit(self, node: int, request: Any) -> Any:
        for topic in request.topics:
            for it in topic.partitions:
                stored = OffsetAndMetadata(it.committed_offset, it.committed_leader_epoch, it.committed_metadata)
                self.stored[TopicPartition(topic.name, it.partition_index)] = stored
        return answer(request)


def answer(request: Any, **codes: ErrorCode) -> offset_commit.OffsetCommitResponse:
    """The same code for every partition, or by topic."""
    return offset_commit.OffsetCommitResponse(
        topics=[
            offset_commit.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    offset_commit.OffsetCommitResponsePartition(
                        partition_index=it.partition_index, error_code=codes.get(topic.name, codes.get("every", 0))
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def refuse(code: ErrorCode) -> Callable[[Any], Any]:
    return lambda request: answer(request, every=code)


class Member:
    """A membership whose state the test sets."""

    def __init__(self, generation: Generation = GENERATION, instance_id: str | None = None) -> None:
        self.generation = generation
        self.instance_id = instance_id
        self.stable = True
        self.refused: list[tuple[ErrorCode, Generation]] = []
        self.state = "stable"

    def is_stable(self) -> bool:
        return self.stable

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        self.refused.append((code, generation))


class World:
    """A coordinator, a client, and the commits of one consumer."""

    def __init__(self, member: Member | None = None, **properties: Any) -> None:
        self.cluster = Coordinator()
        given = {"group_id": "g", "enable_auto_commit": "false", "retry_backoff_ms": "100", **properties}
        self.client, self.config = self.cluster.client(**given)
        self.member = member
        self.subscription = SubscriptionState()
        if member is None:
            self.subscription.assign([T0, T1, U0])
        else:
            self.subscription.subscribe(["t", "u"])
            self.subscription._states = _states([T0, T1, U0])
        self.lookup = CoordinatorLookup(self.client, "g")
        self.commits = OffsetCommits(self.client, self.lookup, self.membership, self.subscription, self.config)
        self.callbacks: list[tuple[str, KcliError | None]] = []

    def membership(self) -> Membership | None:
        return self.member  # type: ignore[return-value]

    def at(self, **positions: int) -> None:
        """Set the positions of t-0, t-1 and u-0."""
        for name, offset in positions.items():
            self.subscription.seek(TopicPartition(name[0], int(name[1])), offset, epoch=3)

    def in_ms(self, ms: float) -> float:
        return self.cluster.clock.now_ms() + ms

    def commit(self, offsets: Any = AT_5, timeout_ms: float = 10_000) -> None:
        self.commits.commit_sync(offsets, self.in_ms(timeout_ms))

    def refusal(self, offsets: Any = AT_5, timeout_ms: float = 10_000) -> KcliError:
        with pytest.raises(KcliError) as caught:
            self.commit(offsets, timeout_ms)
        return caught.value

    def later(self, name: str, offsets: Any = AT_5) -> None:
        self.commits.commit_async(offsets, lambda _, error: self.callbacks.append((name, error)))

    def poll(self, ms: float = 0) -> None:
        """Poll as a consumer does: the commits, then the network."""
        until_ms = self.in_ms(ms)
        while True:
            self.commits.poll(self.cluster.clock.now_ms())
            now_ms = self.cluster.clock.now_ms()
            if now_ms >= until_ms:
                return
            self.client.poll(timeout_ms=max(0.0, min(until_ms, max(self.commits.next_ms(), now_ms + 1)) - now_ms))

    def refuse(self, *codes: ErrorCode) -> None:
        self.cluster.answer_next(ApiKey.OFFSET_COMMIT, *map(refuse, codes))

    @property
    def asked(self) -> list[Any]:
        return self.cluster.asked(ApiKey.OFFSET_COMMIT)

    @property
    def lookups(self) -> int:
        return len(self.cluster.asked(ApiKey.FIND_COORDINATOR))


def _states(partitions: list[TopicPartition]) -> Any:
    by_hand = SubscriptionState()
    by_hand.assign(partitions)
    return by_hand._states


# --- stored offsets


def test_a_commit_without_membership_has_no_generation() -> None:
    world = World()
    offsets = {T0: OffsetAndMetadata(5, 2, "by hand"), U0: OffsetAndMetadata(0)}
    world.commit(offsets)
    assert world.cluster.stored == offsets
    [request] = world.asked
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")


def test_a_member_commits_with_its_generation() -> None:
    world = World(Member(instance_id="static"))
    world.commit()
    [request] = world.asked
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (7, "me", "static")


def test_the_default_offsets_are_the_consumed_positions_with_their_epochs() -> None:
    world = World()
    world.at(t0=7, u0=1)  # t-1 has no position yet
    world.commit(None)
    assert world.cluster.stored == {T0: OffsetAndMetadata(7, 3), U0: OffsetAndMetadata(1, 3)}


def test_without_positions_no_commit_is_sent() -> None:
    world = World()
    world.commit(None)
    world.commit({})
    assert world.asked == []


def test_a_negative_offset_is_an_error() -> None:
    """Kafka 4.3.1 stores it (measured)."""
    with pytest.raises(ValueError, match="must not be negative; got -5 for t-0"):
        World().commit({T0: OffsetAndMetadata(-5)})


def test_a_commit_uses_the_version_of_an_old_broker_and_no_topic_ids() -> None:
    world = World()
    world.cluster.spoken[ApiKey.OFFSET_COMMIT] = (2, 10)
    world.commit()
    assert {it.version for it in world.cluster.requests if it.request.API_KEY == ApiKey.OFFSET_COMMIT} == {9}
    world = World()
    world.cluster.spoken[ApiKey.OFFSET_COMMIT] = (2, 5)
    world.commit({T0: OffsetAndMetadata(5, 2)})
    assert world.cluster.stored == {T0: OffsetAndMetadata(5, -1)}


# --- error codes


@pytest.mark.parametrize("code", [code for code, what in REACTIONS.items() if what is Reaction.RETRY])
def test_some_codes_are_retried_at_the_same_coordinator(code: ErrorCode) -> None:
    world = World()
    world.refuse(code, code)
    world.commit()
    assert (len(world.asked), world.lookups) == (3, 1)
    assert world.cluster.stored == AT_5
    assert world.cluster.clock.now_ms() >= 200


@pytest.mark.parametrize("code", [code for code, what in REACTIONS.items() if what is Reaction.FIND])
def test_some_codes_are_retried_after_a_new_lookup(code: ErrorCode) -> None:
    world = World()
    world.refuse(code)
    world.cluster.answer_next(
        ApiKey.FIND_COORDINATOR,
        lambda _: find_coordinator.FindCoordinatorResponse(node_id=1, host="10.0.0.1", port=9092),
        lambda _: find_coordinator.FindCoordinatorResponse(node_id=2, host="10.0.0.2", port=9092),
    )
    world.commit()
    assert [it.node for it in world.cluster.requests if it.request.API_KEY == ApiKey.OFFSET_COMMIT] == [1, 2]
    assert world.cluster.stored == AT_5


def test_a_lost_connection_is_retried_after_a_new_lookup() -> None:
    world = World()

    def cut(request: Any) -> None:
        world.cluster.cut(1)

    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, cut)
    world.commit()
    assert world.lookups == 2
    assert world.cluster.stored == AT_5


def test_the_last_refusal_is_reported_at_the_deadline() -> None:
    world = World()
    world.refuse(*[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100)
    error = world.refusal(timeout_ms=2_000)
    assert isinstance(error, TimeoutExpired)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(error)
    assert 2_000 <= world.cluster.clock.now_ms() < 2_200


def test_a_silent_coordinator_is_a_timeout() -> None:
    world = World()
    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, lambda _: None)
    error = world.refusal(timeout_ms=1_000)
    assert isinstance(error, TimeoutExpired)
    assert "the commit of group g" in str(error)


def test_a_missing_coordinator_is_reported_with_its_reason() -> None:
    world = World()
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.cluster.answer_next(
        ApiKey.FIND_COORDINATOR, *[lambda _: find_coordinator.FindCoordinatorResponse(error_code=code)] * 100
    )
    error = world.refusal(timeout_ms=3_000)
    assert isinstance(error, TimeoutExpired)
    assert "the coordinator of group g was not found before the timeout: COORDINATOR_NOT_AVAILABLE" in str(error)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_commit_for_an_ended_generation_fails_and_informs_the_membership(code: ErrorCode) -> None:
    world = World(Member())
    world.refuse(code)
    error = world.refusal()
    assert isinstance(error, CommitFailed)
    assert "max.poll.interval.ms" in str(error)
    assert not error.retriable
    assert error.evidence["code"] == code.name
    assert world.member is not None
    assert world.member.refused == [(code, GENERATION)]
    assert len(world.asked) == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]
)
def test_a_refusal_for_an_earlier_generation_is_only_a_rebalance(code: ErrorCode) -> None:
    member = Member()
    world = World(member)

    def rejoining(request: Any) -> Any:
        member.generation, member.stable = Generation(8, "me", "range"), False
        return answer(request, every=code)

    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, rejoining)
    error = world.refusal()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.refused == [(code, GENERATION)]


def test_a_rebalance_is_raised_without_waiting() -> None:
    """Only a poll of the caller ends the rebalance."""
    world = World(Member())
    world.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
    error = world.refusal()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert "poll until the rebalance ends" in str(error)
    assert world.member is not None
    assert world.member.refused == [(ErrorCode.REBALANCE_IN_PROGRESS, GENERATION)]


def test_no_commit_is_sent_during_a_rebalance() -> None:
    """The next generation may begin at any moment, and in it the partitions could belong to others."""
    world = World(Member())
    assert world.member is not None
    world.member.stable = False
    error = world.refusal()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.asked == []


def test_a_removed_member_cannot_commit() -> None:
    world = World(Member(NO_GENERATION))
    assert isinstance(world.refusal(), CommitFailed)
    assert world.asked == []


def test_a_fenced_instance_is_raised() -> None:
    world = World(Member(instance_id="static"))
    world.refuse(ErrorCode.FENCED_INSTANCE_ID)
    error = world.refusal()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.FENCED_INSTANCE_ID
    assert world.member is not None
    assert world.member.refused == [(ErrorCode.FENCED_INSTANCE_ID, GENERATION)]


def test_a_commit_without_membership_to_a_group_with_members_is_explained() -> None:
    """Kafka 4.3.1 answers UNKNOWN_MEMBER_ID (measured)."""
    world = World()
    world.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    error = world.refusal()
    assert isinstance(error, CommitFailed)
    assert "the group has members, and only members may commit" in str(error)


def test_all_refused_topics_are_named() -> None:
    world = World()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, lambda request: answer(request, t=refused, u=refused))
    error = world.refusal({T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(1), U0: OffsetAndMetadata(1)})
    assert isinstance(error, BrokerError)
    assert (error.code, error.evidence["topics"]) == (refused, "t, u")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_fatal_code_is_raised_at_once(code: ErrorCode) -> None:
    world = World(Member())
    world.refuse(code)
    error = world.refusal()
    assert isinstance(error, BrokerError)
    assert error.code == code
    assert len(world.asked) == 1
    assert world.member is not None
    assert world.member.refused == []


def test_the_most_severe_refusal_is_raised_with_its_partitions() -> None:
    world = World(Member())
    codes = {"t": ErrorCode.OFFSET_METADATA_TOO_LARGE, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, lambda request: answer(request, **codes))
    error = world.refusal({T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(1), U0: OffsetAndMetadata(1)})
    assert isinstance(error, BrokerError)
    assert (error.code, error.evidence["partitions"]) == (ErrorCode.OFFSET_METADATA_TOO_LARGE, "t-0, t-1")


def test_a_partition_missing_in_the_response_is_an_error() -> None:
    world = World()
    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, lambda _: offset_commit.OffsetCommitResponse())
    error = world.refusal()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_every_code_has_a_reaction_or_is_raised() -> None:
    """With each error code once: no commit hangs, and none counts as stored."""
    for code in ErrorCode.all():
        if code == ErrorCode.NONE:
            continue
        world = World(Member())
        world.refuse(*[code] * 30)
        assert isinstance(world.refusal(timeout_ms=500), KcliError), code
        again = REACTIONS.get(code) in (Reaction.RETRY, Reaction.FIND)
        assert (len(world.asked) > 1) == again, code


# --- KIP-848


def test_a_commit_with_a_stale_epoch_is_sent_again_with_the_new_one() -> None:
    member = Member()
    world = World(member)

    def bumped(request: Any) -> Any:
        member.generation = Generation(8, "me")
        return answer(request, every=ErrorCode.STALE_MEMBER_EPOCH)

    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, bumped)
    world.commit()
    assert [request.generation_id_or_member_epoch for request in world.asked] == [7, 8]


def test_a_stale_epoch_without_a_newer_one_fails_the_commit() -> None:
    world = World(Member())
    world.refuse(ErrorCode.STALE_MEMBER_EPOCH)
    assert isinstance(world.refusal(), CommitFailed)


def test_a_stale_commit_of_a_revoked_partition_fails() -> None:
    member = Member()
    world = World(member)

    def moved(request: Any) -> Any:
        member.generation = Generation(8, "me")
        world.subscription.unassign(T0)
        return answer(request, every=ErrorCode.STALE_MEMBER_EPOCH)

    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, moved)
    assert isinstance(world.refusal(), CommitFailed)


# --- asynchronous


def test_callbacks_run_in_order_in_the_callers_poll() -> None:
    world = World()
    for name in "abc":
        world.later(name)
    world.client.poll(timeout_ms=100)
    assert world.callbacks == []
    world.poll(500)
    assert world.callbacks == [("a", None), ("b", None), ("c", None)]


def test_an_asynchronous_commit_is_not_retried() -> None:
    world = World()
    world.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.later("a")
    world.later("b")
    world.poll(1_000)
    (first, error), second = world.callbacks
    assert (first, second) == ("a", ("b", None))
    assert error is not None
    assert error.retriable
    assert len(world.asked) == 2


def test_waiting_commits_are_sent_in_order_before_a_synchronous_one() -> None:
    world = World()
    world.later("a", {T0: OffsetAndMetadata(1)})
    world.later("b", {T0: OffsetAndMetadata(2)})
    world.commit({T0: OffsetAndMetadata(3)})
    assert world.callbacks == [("a", None), ("b", None)]
    assert [request.topics[0].partitions[0].committed_offset for request in world.asked] == [1, 2, 3]


def test_asynchronous_commits_fail_at_the_request_timeout_without_a_coordinator() -> None:
    world = World(request_timeout_ms="2000")
    world.cluster.answer_next(
        ApiKey.FIND_COORDINATOR,
        *[lambda _: find_coordinator.FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 100,
    )
    world.later("a")
    world.poll(1_900)
    assert world.callbacks == []
    world.poll(200)
    [(_, error)] = world.callbacks
    assert isinstance(error, TimeoutExpired)


def test_an_authorization_error_fails_waiting_commits_at_once() -> None:
    world = World()
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.cluster.answer_next(
        ApiKey.FIND_COORDINATOR, lambda _: find_coordinator.FindCoordinatorResponse(error_code=code)
    )
    world.later("a")
    world.poll(500)
    [(_, error)] = world.callbacks
    assert isinstance(error, BrokerError)
    assert error.code == code


def test_an_empty_commit_waits_for_earlier_commits() -> None:
    """As commitSync of the Java client does with empty offsets."""
    world = World()
    world.later("a")
    world.commit({})
    assert world.callbacks == [("a", None)]


def test_a_callback_may_commit() -> None:
    world = World()
    world.commits.commit_async(AT_5, lambda offsets, error: world.commit({T1: OffsetAndMetadata(9)}))
    world.poll(500)
    assert world.cluster.stored == {**AT_5, T1: OffsetAndMetadata(9)}


# --- automatic


def test_consumed_positions_are_committed_by_interval() -> None:
    world = World(enable_auto_commit="true", auto_commit_interval_ms="1000")
    world.at(t0=7)
    world.poll(900)
    assert world.asked == []
    world.poll(200)
    assert world.cluster.stored == {T0: OffsetAndMetadata(7, 3)}
    world.at(t0=8)
    world.poll(3_000)
    assert len(world.asked) in (3, 4)
    assert world.cluster.stored == {T0: OffsetAndMetadata(8, 3)}


def test_a_retriable_automatic_commit_is_repeated_soon() -> None:
    world = World(enable_auto_commit="true", auto_commit_interval_ms="60000")
    world.at(t0=7)
    world.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.poll(61_000)
    assert world.cluster.stored == {T0: OffsetAndMetadata(7, 3)}
    assert world.commits.last_error is None


def test_nothing_is_committed_automatically_during_a_rebalance() -> None:
    world = World(Member(), enable_auto_commit="true", auto_commit_interval_ms="1000")
    world.at(t0=7)
    assert world.member is not None
    world.member.stable = False
    world.poll(5_000)
    assert world.asked == []
    world.member.stable = True
    world.poll(1_500)
    assert world.cluster.stored == {T0: OffsetAndMetadata(7, 3)}


def test_consumed_positions_are_committed_before_a_revocation() -> None:
    world = World(Member(), enable_auto_commit="true")
    world.at(t0=7, t1=8)
    world.commits.before_revocation([T1], world.in_ms(5_000))
    assert world.cluster.stored == {T0: OffsetAndMetadata(7, 3), T1: OffsetAndMetadata(8, 3)}


def test_without_automatic_commits_a_revocation_commits_nothing() -> None:
    world = World(Member())
    world.at(t0=7)
    world.commits.before_revocation([T0], world.in_ms(5_000))
    world.commits.close(world.in_ms(5_000))
    assert world.asked == []


def test_a_deleted_topic_does_not_delay_a_rebalance() -> None:
    """As in CommitRequestManager: UNKNOWN_TOPIC_OR_PARTITION is retriable, but not here."""
    world = World(Member(), enable_auto_commit="true")
    world.at(t0=7)
    world.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    world.commits.before_revocation([T0], world.in_ms(60_000))
    assert world.cluster.clock.now_ms() < 1_000
    assert isinstance(world.commits.last_error, BrokerError)


def test_a_stale_epoch_before_a_revocation_is_retried_until_the_new_epoch() -> None:
    member = Member()
    world = World(member, enable_auto_commit="true")
    world.at(t0=7)

    def bump(request: Any) -> Any:
        member.generation = Generation(8, "me")
        return answer(request, every=ErrorCode.STALE_MEMBER_EPOCH)

    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, refuse(ErrorCode.STALE_MEMBER_EPOCH), bump)
    world.commits.before_revocation([T0], world.in_ms(5_000))
    assert [request.generation_id_or_member_epoch for request in world.asked] == [7, 7, 8]
    assert world.commits.last_error is None


def test_an_error_before_a_revocation_is_stored_not_raised() -> None:
    world = World(Member(), enable_auto_commit="true")
    world.at(t0=7)
    world.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    world.commits.before_revocation([T0], world.in_ms(5_000))
    assert isinstance(world.commits.last_error, CommitFailed)
    assert "UNKNOWN_MEMBER_ID" in repr(world.commits)


def test_a_wakeup_is_raised() -> None:
    world = World(Member(), enable_auto_commit="true")
    world.at(t0=7)
    world.client.wakeup()
    with pytest.raises(WakeupError):
        world.commits.before_revocation([T0], world.in_ms(5_000))


def test_close_commits_the_consumed_positions_and_waits_for_other_commits() -> None:
    world = World(enable_auto_commit="true")
    world.at(t0=7)
    world.later("a", {T1: OffsetAndMetadata(1)})
    world.commits.close(world.in_ms(5_000))
    assert world.cluster.stored == {T0: OffsetAndMetadata(7, 3), T1: OffsetAndMetadata(1)}
    assert world.callbacks == [("a", None)]


def test_close_runs_the_callbacks_of_unanswered_commits() -> None:
    world = World()
    world.cluster.answer_next(ApiKey.OFFSET_COMMIT, lambda _: None)
    world.later("a")
    world.commits.close(world.in_ms(1_000))
    [(_, error)] = world.callbacks
    assert isinstance(error, TimeoutExpired)
    assert 1_000 <= world.cluster.clock.now_ms() < 1_100


# --- committed offsets


def test_committed_offsets_can_be_fetched() -> None:
    world = World()
    world.cluster.committed[T0] = 5
    found = fetch_committed(world.client, world.lookup, "g", [T0, T1], world.in_ms(1_000))
    assert found == {T0: OffsetAndMetadata(5), T1: None}
    assert fetch_committed(world.client, world.lookup, "g", [], 0) == {}
