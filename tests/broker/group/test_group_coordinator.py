"""GroupCoordinator under a manual clock: timeouts, stored records, restarts, and failing appends."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.group.harness import CoordinatorHarness, ask
from tests.broker.group.requests import (
    form_group_of_one,
    form_group_of_two,
    heartbeat,
    join,
    leave,
    request_member_id,
    start_join,
    subscribed_to,
    sync,
)

# ---- time ----


def test_initial_rebalance_takes_the_configured_delay() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms="3000")
    client = harness.connect()
    start_join(client, "g")
    harness.pause(2999)
    assert client.is_waiting()
    harness.pause(1)
    assert client.receive().generation_id == 1


def test_ten_consumers_started_together_cause_one_rebalance() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms="3000")
    clients = [harness.connect(f"c{n}") for n in range(10)]
    for client in clients:
        start_join(client, "g", rebalance_ms=60_000)
        harness.pause(500)
    harness.pause(6000)
    assert [client.receive().generation_id for client in clients] == [1] * 10


def test_initial_rebalance_ends_although_members_keep_joining() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms="3000")
    clients = [harness.connect(f"c{n}") for n in range(20)]
    for client in clients[:-1]:
        start_join(client, "g", rebalance_ms=10_000)
        harness.pause(600)
    assert clients[0].receive().generation_id == 1  # after 10 s, although a member joined every 600 ms
    assert harness.clock.now_ms() < 12_000


def test_parked_new_member_is_removed_after_five_minutes() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, generation = form_group_of_one(first, "g", session_ms=1_800_000, rebalance_ms=1_800_000)
    start_join(second, "g")
    harness.pause(299_999)
    assert second.is_waiting()
    harness.pause(1)
    assert second.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(first, heartbeat("g", generation, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_session_of_a_parked_known_member_does_not_expire() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, follower, generation = form_group_of_two(first, second, "g", session_ms=6000, rebalance_ms=60_000)
    first.send(join("g", leader, session_ms=6000, rebalance_ms=60_000))
    for _ in range(5):
        harness.pause(5000)
        assert ask(second, heartbeat("g", generation, follower)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ask(second, join("g", follower))
    assert first.receive().generation_id == generation + 1


def test_join_phase_lasts_the_largest_rebalance_timeout() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, _, _ = form_group_of_two(first, second, "g", rebalance_ms=9000, session_ms=60_000)
    first.send(join("g", leader, rebalance_ms=100))
    harness.pause(8999)
    assert first.is_waiting()
    harness.pause(1)
    assert len(first.receive().members) == 1


def test_join_v0_uses_the_session_timeout_as_rebalance_timeout() -> None:
    harness = CoordinatorHarness()
    client = harness.connect()
    joined = ask(client, join("g", session_ms=7000), 0)
    ask(client, sync("g", 1, joined.member_id, {joined.member_id: b""}))
    record = harness.store.last("g")
    assert record is not None
    assert (record.members[0].session_timeout, record.members[0].rebalance_timeout) == (7000, 7000)


def test_absent_static_members_alone_do_not_start_a_generation() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    _, generation = form_group_of_one(first, "g", instance="box-1", rebalance_ms=2000, session_ms=60_000)
    newcomer = start_join(second, "g")
    ask(harness.connect(), leave("g", newcomer))
    assert second.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    harness.pause(20_000)
    assert harness.state("g") == "PreparingRebalance"
    harness.pause(40_000)
    assert harness.state("g") == "Empty"
    assert generation == 1


def test_empty_group_has_no_deadlines() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, follower, _ = form_group_of_two(first, second, "g")
    abandoned = request_member_id(harness.connect(), "g")
    ask(first, leave("g", leader, follower, abandoned))
    assert harness.state("g") == "Empty"
    assert len(harness.timer) == 0


def test_deleted_group_has_no_pending_member_ids() -> None:
    harness = CoordinatorHarness()
    client = harness.connect()
    request_member_id(client, "g")
    assert ask(client, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert len(harness.timer) == 0
    assert harness.store.last("g") is None


def test_repeated_request_on_a_new_connection_answers_the_old_one() -> None:
    """Apache Kafka never responses the old request."""
    harness = CoordinatorHarness()
    first, second, again = harness.connect("one"), harness.connect("two"), harness.connect("again")
    leader, follower, generation = form_group_of_two(first, second, "g")
    first.send(join("g", leader))
    again.send(join("g", leader))
    assert first.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ask(second, join("g", follower))
    assert again.receive().generation_id == generation + 1
    second.send(sync("g", generation + 1, follower))
    again.send(sync("g", generation + 1, follower))
    assert second.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ask(first, sync("g", generation + 1, leader, {follower: b"b"}))
    assert again.receive().assignment == b"b"


# ---- stored records ----


def test_generation_is_stored_with_members_and_assignments() -> None:
    harness = CoordinatorHarness()
    client = harness.connect("reader")
    member, generation = form_group_of_one(client, "g", session_ms=7000, rebalance_ms=8000)
    record = harness.store.last("g")
    assert record is not None
    assert (record.protocol_type, record.protocol, record.leader) == ("consumer", "range", member)
    assert record.generation == generation
    assert record.current_state_timestamp == harness.clock.wall_ms()
    (stored,) = record.members
    assert (stored.member_id, stored.client_id, stored.client_host) == (member, "reader", "/127.0.0.1")
    assert (stored.session_timeout, stored.rebalance_timeout) == (7000, 8000)
    assert (stored.subscription, stored.assignment) == (subscribed_to("orders"), b"all")


def test_new_and_emptied_groups_are_stored() -> None:
    harness = CoordinatorHarness()
    client = harness.connect()
    request_member_id(client, "g")
    record = harness.store.last("g")
    assert record is not None
    assert (record.generation, record.protocol_type, record.members) == (0, "", [])
    member, generation = form_group_of_one(client, "h")
    ask(client, leave("h", member))
    record = harness.store.last("h")
    assert record is not None
    assert (record.generation, record.protocol_type, record.protocol) == (generation + 1, "consumer", None)
    assert (record.leader, record.members) == (None, [])


def test_members_survive_a_restart_of_the_broker() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, follower, generation = form_group_of_two(first, second, "g", session_ms=6000)
    before = ask(first, DescribeGroupsRequest(groups=["g"]))
    harness.restart()
    assert ask(first, DescribeGroupsRequest(groups=["g"])) == before
    assert ask(second, heartbeat("g", generation, follower)).error_code == 0
    assert ask(second, sync("g", generation, follower)).assignment == b"b"
    harness.pause(6000)  # the leader sends no heartbeat
    assert ask(second, heartbeat("g", generation, follower)).error_code in (25, 27)
    assert ask(first, heartbeat("g", generation, leader)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_is_known_after_a_restart() -> None:
    harness = CoordinatorHarness()
    before, after = harness.connect(), harness.connect()
    old, generation = form_group_of_one(before, "g", instance="box-1")
    harness.restart()
    back = ask(after, join("g", instance="box-1"))
    assert back.generation_id == generation
    assert ask(before, heartbeat("g", generation, old, "box-1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    harness.restart()
    assert ask(after, heartbeat("g", generation, back.member_id, "box-1")).error_code == 0


def test_restored_group_above_group_max_size_removes_the_last_members_to_rejoin() -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, follower, generation = form_group_of_two(first, second, "g")
    harness.config = harness.config.with_properties({"group.max.size": "1"})
    harness.restart()
    assert ask(first, heartbeat("g", generation, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    second.send(join("g", follower))
    refused = ask(first, join("g", leader))
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [m.member_id for m in second.receive().members] == [follower]


def test_record_without_a_rebalance_timeout_is_restored() -> None:
    harness = CoordinatorHarness()
    form_group_of_one(harness.connect(), "g", session_ms=7000)
    record = harness.store.last("g")
    assert record is not None
    record.members[0].rebalance_timeout = -1
    record.current_state_timestamp = -1
    harness.groups.restore("g", record)
    facts = harness.groups.facts("g")
    assert facts is not None
    assert (facts.state, facts.protocol_type, facts.subscribed_topics) == ("Stable", "consumer", {"orders"})
    assert facts.state_timestamp_ms == -1


# ---- failing appends ----

REFUSALS = [
    (ErrorCode.NOT_ENOUGH_REPLICAS, 15),
    (ErrorCode.REQUEST_TIMED_OUT, 15),
    (ErrorCode.KAFKA_STORAGE_ERROR, 16),
    (ErrorCode.MESSAGE_TOO_LARGE, -1),
    (ErrorCode.CORRUPT_MESSAGE, 2),
]


@pytest.mark.parametrize(("stored", "expected"), REFUSALS)
def test_assignment_that_cannot_be_stored_is_not_distributed(stored: ErrorCode, expected: int) -> None:
    harness = CoordinatorHarness()
    first, second = harness.connect("one"), harness.connect("two")
    leader, follower, generation = form_group_of_two(first, second, "g")
    first.send(join("g", leader))
    ask(second, join("g", follower))
    first.receive()
    second.send(sync("g", generation + 1, follower))
    harness.store.refuse_with = stored
    refused = ask(first, sync("g", generation + 1, leader, {follower: b"x"}))
    assert (refused.error_code, refused.assignment) == (expected, b"")
    assert second.receive().error_code == expected
    harness.store.refuse_with = ErrorCode.NONE
    first.send(join("g", leader))
    assert ask(second, join("g", follower)).generation_id == generation + 2


def test_group_that_cannot_be_stored_is_not_created() -> None:
    harness = CoordinatorHarness()
    harness.store.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    refused = ask(harness.connect(), join("g"))
    assert (refused.error_code, refused.member_id) == (16, "")
    assert harness.groups.group_ids() == []


def test_static_member_keeps_its_old_id_when_the_new_one_cannot_be_stored() -> None:
    harness = CoordinatorHarness()
    before, after = harness.connect(), harness.connect()
    old, generation = form_group_of_one(before, "g", instance="box-1")
    harness.store.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    refused = ask(after, join("g", instance="box-1"))
    assert (refused.error_code, refused.member_id) == (16, "")
    assert ask(before, heartbeat("g", generation, old, "box-1")).error_code == 0
    harness.pause(20_000)
    assert ask(before, heartbeat("g", generation, old, "box-1")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_that_cannot_be_deleted_is_kept() -> None:
    harness = CoordinatorHarness()
    client = harness.connect()
    request_member_id(client, "g")
    harness.store.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    assert ask(client, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert harness.groups.group_ids() == ["g"]


# ---- the interface for the offset store ----


def test_facts_of_simple_and_emptied_groups() -> None:
    harness = CoordinatorHarness()
    client = harness.connect()
    assert harness.groups.facts("g") is None
    harness.groups.restore("simple", None)
    simple = harness.groups.facts("simple")
    assert simple is not None
    assert (simple.state, simple.protocol_type, simple.subscribed_topics) == ("Empty", None, None)
    member, _ = form_group_of_one(client, "g")
    harness.pause(5000)
    ask(client, leave("g", member))
    emptied = harness.groups.facts("g")
    assert emptied is not None
    assert (emptied.state, emptied.protocol_type, emptied.subscribed_topics) == ("Empty", "consumer", frozenset())
    assert emptied.state_timestamp_ms == harness.clock.wall_ms()


def test_only_groups_without_members_can_be_forgotten() -> None:
    harness = CoordinatorHarness()
    harness.groups.restore("simple", None)
    harness.groups.forget("simple")
    assert harness.groups.facts("simple") is None
    form_group_of_one(harness.connect(), "g")
    with pytest.raises(ValueError, match="Stable"):
        harness.groups.forget("g")


def test_only_the_coordinator_of_share_groups_is_refused() -> None:
    harness = CoordinatorHarness()
    client = harness.connect()
    transactional = ask(client, FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1)).coordinators[0]
    assert (transactional.error_code, transactional.node_id) == (0, 1)
    assert ask(client, FindCoordinatorRequest(key="tx", key_type=1), 2).error_code == 0
    assert (
        ask(client, FindCoordinatorRequest(coordinator_keys=["s"], key_type=2)).coordinators[0].error_code
        == ErrorCode.INVALID_REQUEST
    )
