"""Scenarios of static members, leaving members and administrators, with the outcome of Apache Kafka 4.3.1.

Each runs on the coordinator, on our broker and on Apache Kafka. Numbers are Kafka's error codes.
"""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from tests.broker.group.harness import Connection, Recorder, ask
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


def restarted_static_member_keeps_its_generation_and_fences_the_old_id(broker: Recorder) -> None:
    group, before, after = broker.new_group(), broker.connect(), broker.connect("restarted")
    old, generation = form_group_of_one(before, group, instance="box-1")
    assert old.startswith("box-1-")
    back = ask(after, join(group, instance="box-1"))
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, generation, True)
    assert back.member_id != old
    assert back.leader == back.member_id
    assert ask(after, sync(group, generation, back.member_id, instance="box-1")).assignment == b"all"
    assert ask(before, heartbeat(group, generation, old, "box-1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ask(before, heartbeat(group, generation, old)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(before, join(group, old, instance="box-1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ask(before, join(group, old, instance="box-1"), 6).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ask(before, sync(group, generation, old, instance="box-1")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert commit_error(before, commit(group, generation, old, "box-1")) == 82
    assert ask(before, leave(group, (old, "box-1"))).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ask(after, heartbeat(group, generation, back.member_id, "box-1")).error_code == 0
    assert ask(after, heartbeat(group, generation, back.member_id, "box-2")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    describe(after, group)


def restarted_static_leader_of_old_version_is_not_named_as_leader(broker: Recorder) -> None:
    group, before, after = broker.new_group(), broker.connect(), broker.connect()
    old, generation = form_group_of_one(before, group, instance="box-1")
    for version in (5, 6, 7, 8):
        back = ask(after, join(group, instance="box-1"), version)
        assert (back.error_code, back.generation_id, back.leader, back.members) == (0, generation, old, [])
        old = back.member_id


def restarted_static_follower_joins_without_a_rebalance(broker: Recorder) -> None:
    group, first, second, third = (
        broker.new_group(),
        broker.connect("one"),
        broker.connect("two"),
        broker.connect("three"),
    )
    leader, generation = form_group_of_one(first, group)
    second.send(join(group, instance="box-1"))
    assert second.is_waiting()
    ask(first, join(group, leader))
    follower = second.receive().member_id
    generation += 1
    second.send(sync(group, generation, follower, instance="box-1"))
    assert second.is_waiting()
    ask(first, sync(group, generation, leader, {leader: b"a", follower: b"b"}))
    second.receive()
    back = ask(third, join(group, instance="box-1"))
    assert (back.generation_id, back.leader, back.members, back.skip_assignment) == (generation, leader, [], False)
    assert ask(third, sync(group, generation, back.member_id, instance="box-1")).assignment == b"b"
    assert ask(first, heartbeat(group, generation, leader)).error_code == 0


def static_member_that_changes_the_protocol_starts_a_rebalance(broker: Recorder) -> None:
    group, before, after = broker.new_group(), broker.connect(), broker.connect()
    both = (("range", b""), ("sticky", b""))
    _, generation = form_group_of_one(before, group, instance="box-1", protocols=both)
    back = ask(after, join(group, instance="box-1", protocols=both[::-1]))
    assert (back.generation_id, back.protocol_name) == (generation + 1, "sticky")


def static_member_with_other_topics_joins_without_a_rebalance(broker: Recorder) -> None:
    group, before, after = broker.new_group(), broker.connect(), broker.connect()
    _, generation = form_group_of_one(before, group, instance="box-1")
    back = ask(after, join(group, instance="box-1", protocols=(("range", subscribed_to("bills")),)))
    assert (back.generation_id, back.members[0].metadata) == (generation, subscribed_to("bills"))


def restarted_static_member_fences_a_parked_join(broker: Recorder) -> None:
    group, other, before, after = broker.new_group(), broker.connect("other"), broker.connect(), broker.connect()
    leader, generation = form_group_of_one(other, group)
    before.send(join(group, instance="box-1"))
    assert before.is_waiting()
    after.send(join(group, instance="box-1"))
    assert before.receive().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert after.is_waiting()
    assert ask(other, join(group, leader)).generation_id == generation + 1
    assert after.receive().generation_id == generation + 1


def restarted_static_member_fences_a_parked_sync_and_starts_a_rebalance(broker: Recorder) -> None:
    group, other, before, after = broker.new_group(), broker.connect("other"), broker.connect(), broker.connect()
    leader, generation = form_group_of_one(other, group)
    before.send(join(group, instance="box-1"))
    assert before.is_waiting()
    ask(other, join(group, leader))
    old = before.receive().member_id
    before.send(sync(group, generation + 1, old, instance="box-1"))
    assert before.is_waiting()
    after.send(join(group, instance="box-1"))
    assert before.receive().error_code == ErrorCode.FENCED_INSTANCE_ID
    assert after.is_waiting()
    assert ask(other, heartbeat(group, generation + 1, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    ask(other, join(group, leader))
    assert after.receive().generation_id == generation + 2


def static_member_that_does_not_rejoin_is_kept(broker: Recorder) -> None:
    group, other, static = broker.new_group(), broker.connect("other"), broker.connect()
    leader, _ = form_group_of_one(other, group, rebalance_ms=1500)
    static.send(join(group, instance="box-1", rebalance_ms=1500))
    assert static.is_waiting()
    ask(other, join(group, leader, rebalance_ms=1500))
    static.receive()
    other.send(join(group, leader, protocols=(("range", b""),), rebalance_ms=1500))
    assert other.is_waiting()
    broker.pause(1500)
    assert len(other.receive().members) == 2


def administrator_removes_a_static_member_by_instance_id(broker: Recorder) -> None:
    group, client, admin = broker.new_group(), broker.connect(), broker.connect("admin")
    member, generation = form_group_of_one(client, group, instance="box-1")
    results = ask(admin, leave(group, ("", "box-1"), ("", "box-2"), "x")).members
    assert [m.error_code for m in results] == [0, 25, 25]
    assert ask(client, heartbeat(group, generation, member, "box-1")).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def members_leave(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    assert ask(first, leave("", "x")).error_code == ErrorCode.INVALID_GROUP_ID
    assert [m.error_code for m in ask(first, leave(group, "x", "y")).members] == [25, 25]
    assert ask(first, LeaveGroupRequest(group_id=group, member_id="x"), 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower, generation = form_group_of_two(first, second, group)
    assert [m.error_code for m in ask(second, leave(group, follower, follower)).members] == [0, 25]
    assert ask(first, heartbeat(group, generation, leader)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert ask(first, join(group, leader)).generation_id == generation + 1
    assert ask(first, LeaveGroupRequest(group_id=group, member_id=leader), 2).error_code == 0
    assert ask(first, LeaveGroupRequest(group_id=group, member_id=leader), 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(first, group).group_state == "Empty"
    assert [m.error_code for m in ask(first, leave(group)).members] == []


def leaving_member_completes_the_join_phase(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    leader, follower, generation = form_group_of_two(first, second, group)
    first.send(join(group, leader))
    assert first.is_waiting()
    assert ask(second, leave(group, follower)).error_code == 0
    assert first.receive().generation_id == generation + 1


def parked_join_of_a_removed_member_is_answered(broker: Recorder) -> None:
    group, first, second, admin = (
        broker.new_group(),
        broker.connect("one"),
        broker.connect("two"),
        broker.connect("admin"),
    )
    leader, _, _ = form_group_of_two(first, second, group)
    first.send(join(group, leader))
    assert first.is_waiting()
    assert ask(admin, leave(group, leader)).error_code == 0
    assert first.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def describe(client: Connection, group: str, version: int = 6) -> DescribedGroup:
    response = ask(client, DescribeGroupsRequest(groups=[group]), version)
    return response.groups[0]


def group_is_described_in_every_state(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    request_member_id(first, group, session_ms=1000)
    # Apache Kafka describes groups as far as their records are replicated, and has none of a new group at first.
    while describe(first, group).group_state == "Dead" and broker.forget_last() < 500:
        broker.pause(20)
    assert describe(first, group).group_state == "Empty"
    broker.pause(1100)
    leader, _ = form_group_of_one(first, group)
    stable = describe(first, group)
    assert (stable.group_state, stable.protocol_data, len(stable.members)) == ("Stable", "range", 1)
    assert (stable.members[0].client_id, stable.members[0].client_host) == ("one", "/127.0.0.1")
    assert stable.members[0].member_assignment == b"all"
    follower = start_join(second, group)
    assert second.is_waiting()
    assert describe(first, group).group_state == "PreparingRebalance"
    ask(first, join(group, leader))
    second.receive()
    assert describe(first, group).group_state == "CompletingRebalance"
    ask(first, leave(group, leader, follower))
    assert describe(first, group).group_state == "Empty"
    for version in range(7):
        assert describe(first, group, version).protocol_type == "consumer"


def unknown_group_is_dead_and_an_error_from_v6(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    for version in range(6):
        dead = describe(client, group, version)
        assert (dead.error_code, dead.group_state) == (0, "Dead")
    dead = describe(client, group, 6)
    assert (dead.error_code, dead.group_state) == (69, "Dead")


def authorized_operations_are_returned_when_requested(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    form_group_of_one(client, group)
    for version in (3, 5, 6):
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
        assert ask(client, request, version).groups[0].authorized_operations == 0b1101_0100_1000
        ask(client, DescribeGroupsRequest(groups=["unknown"], include_authorized_operations=True), version)
    assert describe(client, group).authorized_operations == -(2**31)


def only_groups_without_members_are_deleted(broker: Recorder) -> None:
    group, simple, client = broker.new_group(), broker.new_group(), broker.connect()
    member, _ = form_group_of_one(client, group)
    commit_error(client, commit(simple, -1, ""))
    deleted = ask(client, DeleteGroupsRequest(groups_names=[group, simple, "unknown", simple]))
    assert {row.group_id: row.error_code for row in deleted.results} == {group: 68, simple: 0, "unknown": 69}
    ask(client, leave(group, member))
    for version, code in ((0, 0), (1, 69), (2, 69)):
        assert ask(client, DeleteGroupsRequest(groups_names=[group]), version).results[0].error_code == code
    assert describe(client, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def deleted_group_restarts_at_generation_one(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    member, _ = form_group_of_one(client, group)
    ask(client, leave(group, member))
    handed_out = request_member_id(client, group)
    ask(client, DeleteGroupsRequest(groups_names=[group]))
    assert ask(client, join(group, handed_out)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert form_group_of_one(client, group)[1] == 1


def groups_are_listed_by_state_and_type(broker: Recorder) -> None:
    stable, empty, simple, client = broker.new_group(), broker.new_group(), broker.new_group(), broker.connect()
    form_group_of_one(client, stable)
    former_member, _ = form_group_of_one(client, empty)
    ask(client, leave(empty, former_member))
    commit_error(client, commit(simple, -1, ""))

    def found(version: int, states: list[str], types: list[str]) -> set[tuple[str, str, str]]:
        client.send(ListGroupsRequest(states_filter=states, types_filter=types), version)
        response = client.receive()
        assert response.error_code == 0
        mine = {g.group_id: g for g in response.groups if g.group_id in (stable, empty, simple)}
        return {(name, g.group_state, g.group_type) for name, g in mine.items()}

    both = {(empty, "Empty", "classic"), (simple, "Empty", "classic")}
    assert found(5, [], []) == both | {(stable, "Stable", "classic")}
    assert found(5, ["stable"], []) == {(stable, "Stable", "classic")}
    assert found(5, [" EMPTY "], ["Classic"]) == both
    assert found(5, ["no such state"], []) == set()
    assert found(5, [], ["consumer"]) == set()
    assert found(5, [], ["no such type"]) == set()
    assert found(4, ["Stable", "Empty"], []) == {(name, state, "") for name, state, _ in found(5, [], [])}
    assert found(3, [], []) == {(name, "", "") for name in (stable, empty, simple)}


def coordinator_of_groups_is_found(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    form_group_of_one(client, group)  # creates the offsets topic
    for version in range(4):
        found = ask(client, FindCoordinatorRequest(key=group), version)
        assert (found.error_code, found.node_id, found.host) == (0, 1, "127.0.0.1")
    for version in range(4, 7):
        response = ask(client, FindCoordinatorRequest(coordinator_keys=[group, ""]), version)
        assert [(c.key, c.error_code, c.node_id) for c in response.coordinators] == [(group, 0, 1), ("", 0, 1)]


SCENARIOS = [
    scenario
    for name, scenario in sorted(globals().items())
    if getattr(scenario, "__module__", "") == __name__ and name != "describe"
]
