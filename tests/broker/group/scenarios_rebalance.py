"""Scenarios of joins, syncs, heartbeats and timeouts, with the outcome of Apache Kafka 4.3.1.

Each runs on the coordinator, on our broker and on Apache Kafka. Numbers are Kafka's error codes.
"""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from tests.broker.group.harness import Recorder, ask
from tests.broker.group.requests import (
    commit,
    commit_error,
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


def join_without_member_id_returns_one_to_join_with(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect("reader")
    refused = ask(client, join(group))
    assert (refused.error_code, refused.generation_id) == (79, -1)
    assert refused.member_id.startswith("reader-")
    joined = ask(client, join(group, refused.member_id))
    assert (joined.error_code, joined.member_id, joined.leader) == (0, refused.member_id, refused.member_id)
    assert [(m.member_id, m.metadata) for m in joined.members] == [(refused.member_id, subscribed_to("orders"))]


def member_of_old_version_joins_without_an_id_round_trip(broker: Recorder) -> None:
    for version in range(4):
        joined = ask(broker.connect("reader"), join(broker.new_group()), version)
        assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 1, joined.leader)


def client_id_may_be_null_or_empty(broker: Recorder) -> None:
    for client_id in (None, ""):
        refused = ask(broker.connect(client_id), join(broker.new_group()))
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED


def join_is_refused(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    assert ask(client, join("")).error_code == ErrorCode.INVALID_GROUP_ID
    assert ask(client, join(group, session_ms=99)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert ask(client, join(group, session_ms=1_800_001)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert ask(client, join(group, "unknown-member")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(client, join(group, protocols=())).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ask(client, join(group, protocol_type="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member, _ = form_group_of_one(client, group)
    assert ask(client, join(group, "unknown-member")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(client, join(group, protocols=())).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ask(client, join(group, protocol_type="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (
        ask(client, join(group, protocols=(("roundrobin", b""),))).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert ask(client, join(group, member, protocol_type="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ask(client, join(group, member, instance="static")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for version in range(10):
        assert ask(client, join(group, "unknown-member"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert ask(client, join("", "x"), version).error_code == ErrorCode.INVALID_GROUP_ID
        assert ask(client, join(group, protocols=()), version).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def pending_member_id_is_refused_for_a_static_member(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    member = request_member_id(client, group)
    assert ask(client, join(group, member, instance="static")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ask(client, join(group, member)).error_code == 0


def unused_pending_member_id_delays_the_rebalance_until_it_expires(broker: Recorder) -> None:
    group, client, lost = broker.new_group(), broker.connect(), broker.connect()
    member, generation = form_group_of_one(client, group)
    request_member_id(lost, group, session_ms=1500)
    client.send(join(group, member))  # a join of the leader always starts a rebalance
    assert client.is_waiting()
    broker.pause(1500)
    assert client.receive().generation_id == generation + 1


def pending_member_id_that_leaves_does_not_delay_the_rebalance(broker: Recorder) -> None:
    group, client, going = broker.new_group(), broker.connect(), broker.connect()
    member, generation = form_group_of_one(client, group)
    never_used = request_member_id(going, group)
    client.send(join(group, member))
    assert client.is_waiting()
    assert ask(going, leave(group, never_used)).members[0].error_code == 0
    assert client.receive().generation_id == generation + 1


def heartbeats_return_rebalance_in_progress(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect(), broker.connect()
    leader, generation = form_group_of_one(first, group)
    assert ask(first, heartbeat(group, generation, leader)).error_code == 0
    follower = start_join(second, group)
    assert second.is_waiting()
    # in PreparingRebalance
    assert ask(first, heartbeat(group, generation, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert ask(first, join(group, leader)).generation_id == generation + 1
    assert second.receive().generation_id == generation + 1
    assert ask(first, heartbeat(group, generation + 1, leader)).error_code == 0  # CompletingRebalance
    assert ask(second, heartbeat(group, generation + 1, follower)).error_code == 0


def heartbeat_is_refused(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    assert ask(client, heartbeat("", 1, "x")).error_code == ErrorCode.INVALID_GROUP_ID
    assert ask(client, heartbeat(group, 1, "x")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(client, heartbeat(broker.new_group(), -1, "")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member, generation = form_group_of_one(client, group)
    for version in range(5):
        assert ask(client, heartbeat(group, generation, member), version).error_code == 0
        assert ask(client, heartbeat(group, generation - 1, member), version).error_code == ErrorCode.ILLEGAL_GENERATION
        assert ask(client, heartbeat(group, generation + 1, member), version).error_code == ErrorCode.ILLEGAL_GENERATION
        assert ask(client, heartbeat(group, generation, "x"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(client, heartbeat(group, generation, member, "unknown")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def sync_is_refused(broker: Recorder) -> None:
    group, client, other = broker.new_group(), broker.connect(), broker.connect()
    assert ask(client, sync("", 1, "x")).error_code == ErrorCode.INVALID_GROUP_ID
    assert ask(client, sync(group, 1, "x")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member, generation = form_group_of_one(client, group)
    assert ask(client, sync(group, generation + 1, member)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert ask(client, sync(group, generation, "x")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        ask(client, sync(group, generation, member, protocol="sticky")).error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert (
        ask(client, sync(group, generation, member, protocol_type="connect")).error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert (
        ask(client, sync(group, generation, member, protocol=None)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert (
        ask(client, sync(group, generation, member, protocol_type=None)).error_code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    for version in range(6):
        again = ask(client, sync(group, generation, member), version)
        assert (again.error_code, again.assignment) == (0, b"all")
        assert ask(client, sync(group, 7, member), version).error_code == ErrorCode.ILLEGAL_GENERATION
    start_join(other, group)
    assert other.is_waiting()
    assert ask(client, sync(group, generation, member)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def each_member_gets_its_part_of_the_leaders_assignment(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group)
    assert ask(second, sync(group, generation, follower)).assignment == b"b"
    assert ask(first, sync(group, generation, leader)).assignment == b"a"
    assert ask(second, sync(group, generation, follower, {leader: b"x", follower: b"x"})).assignment == b"b"


def member_missing_in_the_assignment_gets_an_empty_one(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    member = request_member_id(client, group)
    generation = ask(client, join(group, member)).generation_id
    assert ask(client, sync(group, generation, member, {"other": b"x"})).assignment == b""


def unchanged_follower_rejoins_without_a_rebalance(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group)
    again = ask(second, join(group, follower))
    assert (again.generation_id, again.leader, again.members) == (generation, leader, [])
    assert ask(first, heartbeat(group, generation, leader)).error_code == 0


def follower_with_changed_topics_starts_a_rebalance(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group)
    second.send(join(group, follower, protocols=(("range", subscribed_to("bills")),)))
    assert second.is_waiting()
    assert ask(first, heartbeat(group, generation, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = ask(first, join(group, leader))
    assert {m.member_id: m.metadata for m in joined.members} == {
        leader: subscribed_to("orders"),
        follower: subscribed_to("bills"),
    }
    assert second.receive().generation_id == generation + 1


def repeated_join_gets_the_same_response(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    member = request_member_id(client, group)
    joined = ask(client, join(group, member))
    again = ask(client, join(group, member))
    assert (again.generation_id, again.members) == (joined.generation_id, joined.members)


def changed_metadata_before_the_assignment_starts_a_new_rebalance(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group)
    second.send(join(group, follower, protocols=(("range", b""),)))
    assert second.is_waiting()
    ask(first, join(group, leader))
    second.receive()
    second.send(sync(group, generation + 1, follower))
    assert second.is_waiting()
    first.send(join(group, leader, protocols=(("range", b""),)))
    assert second.receive().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    second.send(join(group, follower))
    assert first.receive().generation_id == second.receive().generation_id == generation + 2


def members_vote_for_the_protocol(broker: Recorder) -> None:
    group, clients = broker.new_group(), [broker.connect(f"c{n}") for n in range(3)]
    wishes = (("range", b""), ("sticky", b"")), (("sticky", b""), ("range", b"")), (("sticky", b""), ("range", b""))
    joined = [start_join(clients[0], group, protocols=wishes[0])]
    assert clients[0].receive().protocol_name == "range"
    joined += [start_join(client, group, protocols=wish) for client, wish in zip(clients[1:], wishes[1:], strict=True)]
    assert all(client.is_waiting() for client in clients[1:])
    clients[0].send(join(group, joined[0], protocols=wishes[0]))
    assert {client.receive().protocol_name for client in clients} == {"sticky"}


def member_without_heartbeats_is_removed(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    member, generation = form_group_of_one(client, group, session_ms=2000)
    broker.pause(1100)
    assert ask(client, heartbeat(group, generation, member)).error_code == 0
    broker.pause(1100)
    assert ask(client, heartbeat(group, generation, member)).error_code == 0
    broker.pause(3000)
    assert ask(client, heartbeat(group, generation, member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(client, join(group, member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def member_that_does_not_rejoin_is_removed(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group, rebalance_ms=1500)
    first.send(join(group, leader, rebalance_ms=1500))
    assert first.is_waiting()
    assert ask(second, heartbeat(group, generation, follower)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.is_waiting()
    broker.pause(1500)
    assert [m.member_id for m in first.receive().members] == [leader]
    assert ask(second, heartbeat(group, generation, follower)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def member_that_does_not_sync_is_removed(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group, rebalance_ms=1500)
    first.send(join(group, leader, rebalance_ms=1500))
    assert first.is_waiting()
    assert ask(second, join(group, follower, rebalance_ms=1500)).error_code == 0
    first.receive()
    assert ask(first, sync(group, generation + 1, leader, {leader: b"a"})).assignment == b"a"
    broker.pause(2200)
    assert ask(second, heartbeat(group, generation + 1, follower)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(first, heartbeat(group, generation + 1, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def expired_leader_is_replaced(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, generation = form_group_of_one(first, group, session_ms=1000)
    follower = start_join(second, group)
    assert second.is_waiting()
    broker.pause(1100)
    joined = second.receive()
    assert (joined.leader, joined.generation_id) == (follower, generation + 1)
    assert ask(first, heartbeat(group, generation, leader)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def commits_require_a_member_of_the_generation(broker: Recorder) -> None:
    group, client, other = broker.new_group(), broker.connect(), broker.connect()
    assert commit_error(client, commit(broker.new_group(), 1, "x")) == 69
    assert commit_error(client, commit(broker.new_group(), 1, "x"), 8) == 22
    assert commit_error(client, commit(broker.new_group(), -1, "")) == 0
    member, generation = form_group_of_one(client, group)
    assert commit_error(client, commit(group, generation, member)) == 0
    assert commit_error(client, commit(group, generation + 1, member)) == 22
    assert commit_error(client, commit(group, -1, member)) == 22
    assert commit_error(client, commit(group, generation, "x")) == 25
    assert commit_error(client, commit(group, generation, member, "unknown")) == 25
    assert commit_error(client, commit(group, -1, "")) == 25
    start_join(other, group)
    assert other.is_waiting()
    assert commit_error(client, commit(group, generation, member)) == 0  # PreparingRebalance: before joining again
    ask(client, join(group, member))
    assert commit_error(client, commit(group, generation, member)) == 22
    assert commit_error(client, commit(group, generation + 1, member)) == 27  # CompletingRebalance
    assert commit_error(client, commit(group, -1, "")) == 25
    assert ask(client, leave(group, member)).error_code == 0


def commit_counts_as_a_heartbeat(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    member, generation = form_group_of_one(client, group, session_ms=2000)
    for _ in range(3):
        broker.pause(800)
        assert commit_error(client, commit(group, generation, member)) == 0


SCENARIOS = [
    scenario for name, scenario in sorted(globals().items()) if getattr(scenario, "__module__", "") == __name__
]
