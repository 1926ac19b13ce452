"""What only a clock moved by hand and a store that fails can show of the coordinator."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.group.lab import DirectLab, ask
from tests.broker.group.requests import (
    enter,
    heartbeat,
    join,
    leave,
    new_id,
    settle_alone,
    settle_two,
    subscribed_to,
    sync,
)

# ---- time ----


def test_default_first_round_takes_three_seconds() -> None:
    lab = DirectLab(group_initial_rebalance_delay_ms="3000")
    client = lab.connect()
    enter(client, "g")
    lab.pause(2999)
    assert client.is_waiting()
    lab.pause(1)
    assert client.receive().generation_id == 1


def test_ten_consumers_started_together_meet_in_one_round() -> None:
    lab = DirectLab(group_initial_rebalance_delay_ms="3000")
    clients = [lab.connect(f"c{n}") for n in range(10)]
    for client in clients:
        enter(client, "g", rebalance_ms=60_000)
        lab.pause(500)
    lab.pause(6000)
    assert [client.receive().generation_id for client in clients] == [1] * 10


def test_first_round_is_not_put_off_for_ever() -> None:
    lab = DirectLab(group_initial_rebalance_delay_ms="3000")
    clients = [lab.connect(f"c{n}") for n in range(20)]
    for client in clients[:-1]:
        enter(client, "g", rebalance_ms=10_000)
        lab.pause(600)
    assert clients[0].receive().generation_id == 1  # after 10 s, though somebody came every 600 ms
    assert lab.clock.now_ms() < 12_000


def test_new_member_that_waits_too_long_for_its_first_round_is_dropped_after_five_minutes() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, generation = settle_alone(first, "g", session_ms=1_800_000, rebalance_ms=1_800_000)
    enter(second, "g")
    lab.pause(299_999)
    assert second.is_waiting()
    lab.pause(1)
    assert second.receive().error_code == 25
    assert ask(first, heartbeat("g", generation, leader)).error_code == 27


def test_session_does_not_run_while_a_known_member_waits() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, "g", session_ms=6000, rebalance_ms=60_000)
    first.send(join("g", leader, session_ms=6000, rebalance_ms=60_000))
    for _ in range(5):
        lab.pause(5000)
        assert ask(second, heartbeat("g", generation, follower)).error_code == 27
    ask(second, join("g", follower))
    assert first.receive().generation_id == generation + 1


def test_longest_rebalance_timeout_of_the_members_counts() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, _, _ = settle_two(first, second, "g", rebalance_ms=9000, session_ms=60_000)
    first.send(join("g", leader, rebalance_ms=100))
    lab.pause(8999)
    assert first.is_waiting()
    lab.pause(1)
    assert len(first.receive().members) == 1


def test_old_version_has_the_session_timeout_for_both() -> None:
    lab = DirectLab()
    client = lab.connect()
    joined = ask(client, join("g", session_ms=7000), 0)
    ask(client, sync("g", 1, joined.member_id, {joined.member_id: b""}))
    record = lab.store.last("g")
    assert record is not None
    assert (record.members[0].session_timeout, record.members[0].rebalance_timeout) == (7000, 7000)


def test_absent_static_members_alone_do_not_make_a_generation() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    _, generation = settle_alone(first, "g", instance="box-1", rebalance_ms=2000, session_ms=60_000)
    newcomer = enter(second, "g")
    ask(lab.connect(), leave("g", newcomer))
    assert second.receive().error_code == 25
    lab.pause(20_000)
    assert lab.state("g") == "PreparingRebalance"
    lab.pause(40_000)
    assert lab.state("g") == "Empty"
    assert generation == 1


def test_nothing_is_left_to_happen_when_everybody_is_gone() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, follower, _ = settle_two(first, second, "g")
    abandoned = new_id(lab.connect(), "g")
    ask(first, leave("g", leader, follower, abandoned))
    assert lab.state("g") == "Empty"
    assert len(lab.timer) == 0


def test_deleting_a_group_forgets_the_ids_it_handed_out() -> None:
    lab = DirectLab()
    client = lab.connect()
    new_id(client, "g")
    assert ask(client, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert len(lab.timer) == 0
    assert lab.store.last("g") is None


def test_member_that_asks_again_on_a_new_connection_frees_the_old_one() -> None:
    """Real Kafka never answers the old one."""
    lab = DirectLab()
    first, second, again = lab.connect("one"), lab.connect("two"), lab.connect("again")
    leader, follower, generation = settle_two(first, second, "g")
    first.send(join("g", leader))
    again.send(join("g", leader))
    assert first.receive().error_code == 27
    ask(second, join("g", follower))
    assert again.receive().generation_id == generation + 1
    second.send(sync("g", generation + 1, follower))
    again.send(sync("g", generation + 1, follower))
    assert second.receive().error_code == 27
    ask(first, sync("g", generation + 1, leader, {follower: b"b"}))
    assert again.receive().assignment == b"b"


# ---- what is stored ----


def test_generation_is_stored_before_anybody_gets_its_assignment() -> None:
    lab = DirectLab()
    client = lab.connect("reader")
    member, generation = settle_alone(client, "g", session_ms=7000, rebalance_ms=8000)
    record = lab.store.last("g")
    assert record is not None
    assert (record.protocol_type, record.protocol, record.leader) == ("consumer", "range", member)
    assert record.generation == generation
    assert record.current_state_timestamp == lab.clock.wall_ms()
    (stored,) = record.members
    assert (stored.member_id, stored.client_id, stored.client_host) == (member, "reader", "/127.0.0.1")
    assert (stored.session_timeout, stored.rebalance_timeout) == (7000, 8000)
    assert (stored.subscription, stored.assignment) == (subscribed_to("orders"), b"all")


def test_new_and_emptied_groups_are_stored() -> None:
    lab = DirectLab()
    client = lab.connect()
    new_id(client, "g")
    record = lab.store.last("g")
    assert record is not None
    assert (record.generation, record.protocol_type, record.members) == (0, "", [])
    member, generation = settle_alone(client, "h")
    ask(client, leave("h", member))
    record = lab.store.last("h")
    assert record is not None
    assert (record.generation, record.protocol_type, record.protocol) == (generation + 1, "consumer", None)
    assert (record.leader, record.members) == (None, [])


def test_members_survive_a_restart_of_the_broker() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, "g", session_ms=6000)
    before = ask(first, DescribeGroupsRequest(groups=["g"]))
    lab.restart()
    assert ask(first, DescribeGroupsRequest(groups=["g"])) == before
    assert ask(second, heartbeat("g", generation, follower)).error_code == 0
    assert ask(second, sync("g", generation, follower)).assignment == b"b"
    lab.pause(6000)  # the leader did not come back
    assert ask(second, heartbeat("g", generation, follower)).error_code in (25, 27)
    assert ask(first, heartbeat("g", generation, leader)).error_code == 25


def test_static_member_is_known_after_a_restart() -> None:
    lab = DirectLab()
    before, after = lab.connect(), lab.connect()
    old, generation = settle_alone(before, "g", instance="box-1")
    lab.restart()
    back = ask(after, join("g", instance="box-1"))
    assert back.generation_id == generation
    assert ask(before, heartbeat("g", generation, old, "box-1")).error_code == 82
    lab.restart()
    assert ask(after, heartbeat("g", generation, back.member_id, "box-1")).error_code == 0


def test_restored_group_above_the_size_limit_rebalances_and_leaves_the_last_ones_out() -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, "g")
    lab.config = lab.config.with_properties({"group.max.size": "1"})
    lab.restart()
    assert ask(first, heartbeat("g", generation, leader)).error_code == 27
    second.send(join("g", follower))
    refused = ask(first, join("g", leader))
    assert refused.error_code == 81
    assert [m.member_id for m in second.receive().members] == [follower]


def test_record_of_old_kafka_without_a_rebalance_timeout() -> None:
    lab = DirectLab()
    settle_alone(lab.connect(), "g", session_ms=7000)
    record = lab.store.last("g")
    assert record is not None
    record.members[0].rebalance_timeout = -1
    record.current_state_timestamp = -1
    lab.groups.restore("g", record)
    facts = lab.groups.facts("g")
    assert facts is not None
    assert (facts.state, facts.protocol_type, facts.subscribed_topics) == ("Stable", "consumer", {"orders"})
    assert facts.state_timestamp_ms == -1


# ---- a store that refuses ----

REFUSALS = [
    (ErrorCode.NOT_ENOUGH_REPLICAS, 15),
    (ErrorCode.REQUEST_TIMED_OUT, 15),
    (ErrorCode.KAFKA_STORAGE_ERROR, 16),
    (ErrorCode.MESSAGE_TOO_LARGE, -1),
    (ErrorCode.CORRUPT_MESSAGE, 2),
]


@pytest.mark.parametrize(("stored", "told"), REFUSALS)
def test_assignment_that_cannot_be_stored_is_given_to_nobody(stored: ErrorCode, told: int) -> None:
    lab = DirectLab()
    first, second = lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, "g")
    first.send(join("g", leader))
    ask(second, join("g", follower))
    first.receive()
    second.send(sync("g", generation + 1, follower))
    lab.store.refuse_with = stored
    refused = ask(first, sync("g", generation + 1, leader, {follower: b"x"}))
    assert (refused.error_code, refused.assignment) == (told, b"")
    assert second.receive().error_code == told
    lab.store.refuse_with = ErrorCode.NONE
    first.send(join("g", leader))
    assert ask(second, join("g", follower)).generation_id == generation + 2


def test_group_that_cannot_be_stored_is_not_made() -> None:
    lab = DirectLab()
    lab.store.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    refused = ask(lab.connect(), join("g"))
    assert (refused.error_code, refused.member_id) == (16, "")
    assert lab.groups.group_ids() == []


def test_static_member_whose_new_id_cannot_be_stored_stays_the_old_one() -> None:
    lab = DirectLab()
    before, after = lab.connect(), lab.connect()
    old, generation = settle_alone(before, "g", instance="box-1")
    lab.store.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    refused = ask(after, join("g", instance="box-1"))
    assert (refused.error_code, refused.member_id) == (16, "")
    assert ask(before, heartbeat("g", generation, old, "box-1")).error_code == 0
    lab.pause(20_000)
    assert ask(before, heartbeat("g", generation, old, "box-1")).error_code == 25


def test_group_that_cannot_be_deleted_stays() -> None:
    lab = DirectLab()
    client = lab.connect()
    new_id(client, "g")
    lab.store.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    assert ask(client, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 56
    assert lab.groups.group_ids() == ["g"]


# ---- what the offset store asks ----


def test_facts_of_groups() -> None:
    lab = DirectLab()
    client = lab.connect()
    assert lab.groups.facts("g") is None
    lab.groups.restore("simple", None)
    simple = lab.groups.facts("simple")
    assert simple is not None
    assert (simple.state, simple.protocol_type, simple.subscribed_topics) == ("Empty", None, None)
    member, _ = settle_alone(client, "g")
    lab.pause(5000)
    ask(client, leave("g", member))
    emptied = lab.groups.facts("g")
    assert emptied is not None
    assert (emptied.state, emptied.protocol_type, emptied.subscribed_topics) == ("Empty", "consumer", frozenset())
    assert emptied.state_timestamp_ms == lab.clock.wall_ms()


def test_expired_group_is_forgotten_and_one_with_members_is_not() -> None:
    lab = DirectLab()
    lab.groups.restore("simple", None)
    lab.groups.forget("simple")
    assert lab.groups.facts("simple") is None
    settle_alone(lab.connect(), "g")
    with pytest.raises(ValueError, match="Stable"):
        lab.groups.forget("g")


def test_coordinators_of_other_things_are_refused_for_good() -> None:
    lab = DirectLab()
    client = lab.connect()
    transactional = ask(client, FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1)).coordinators[0]
    assert (transactional.error_code, transactional.node_id) == (53, -1)
    assert ask(client, FindCoordinatorRequest(key="tx", key_type=1), 2).error_code == 53
    assert ask(client, FindCoordinatorRequest(coordinator_keys=["s"], key_type=2)).coordinators[0].error_code == 42
