"""What members of a group live through, with the outcome that Kafka 4.3.1 has: joining, syncing, heartbeats, time-outs.

Each story runs on our coordinator, on our broker and on Apache's. Numbers are Kafka's error codes.
"""

from __future__ import annotations

from tests.broker.group.lab import Notebook, ask
from tests.broker.group.requests import (
    commit,
    commit_error,
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


def member_without_id_is_given_one_to_come_back_with(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect("reader")
    refused = ask(client, join(group))
    assert (refused.error_code, refused.generation_id) == (79, -1)
    assert refused.member_id.startswith("reader-")
    joined = ask(client, join(group, refused.member_id))
    assert (joined.error_code, joined.member_id, joined.leader) == (0, refused.member_id, refused.member_id)
    assert [(m.member_id, m.metadata) for m in joined.members] == [(refused.member_id, subscribed_to("orders"))]


def member_of_old_version_joins_at_once(lab: Notebook) -> None:
    for version in range(4):
        joined = ask(lab.connect("reader"), join(lab.new_group()), version)
        assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 1, joined.leader)


def clients_may_have_no_name(lab: Notebook) -> None:
    for client_id in (None, ""):
        refused = ask(lab.connect(client_id), join(lab.new_group()))
        assert refused.error_code == 79


def join_is_refused(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    assert ask(client, join("")).error_code == 24
    assert ask(client, join(group, session_ms=99)).error_code == 26
    assert ask(client, join(group, session_ms=1_800_001)).error_code == 26
    assert ask(client, join(group, "never-heard-of")).error_code == 25
    assert ask(client, join(group, protocols=())).error_code == 23
    assert ask(client, join(group, protocol_type="")).error_code == 23
    member, _ = settle_alone(client, group)
    assert ask(client, join(group, "never-heard-of")).error_code == 25
    assert ask(client, join(group, protocols=())).error_code == 23
    assert ask(client, join(group, protocol_type="connect")).error_code == 23
    assert ask(client, join(group, protocols=(("roundrobin", b""),))).error_code == 23
    assert ask(client, join(group, member, protocol_type="connect")).error_code == 23
    assert ask(client, join(group, member, instance="static")).error_code == 25
    for version in range(10):
        assert ask(client, join(group, "never-heard-of"), version).error_code == 25
        assert ask(client, join("", "x"), version).error_code == 24
        assert ask(client, join(group, protocols=()), version).error_code == 23


def handed_out_id_is_for_dynamic_members(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    member = new_id(client, group)
    assert ask(client, join(group, member, instance="static")).error_code == -1
    assert ask(client, join(group, member)).error_code == 0


def handed_out_id_that_never_comes_back_holds_up_the_round(lab: Notebook) -> None:
    group, client, lost = lab.new_group(), lab.connect(), lab.connect()
    member, generation = settle_alone(client, group)
    new_id(lost, group, session_ms=1500)
    client.send(join(group, member))  # the leader may always call a round
    assert client.is_waiting()
    lab.pause(1500)
    assert client.receive().generation_id == generation + 1


def handed_out_id_that_leaves_holds_up_nobody(lab: Notebook) -> None:
    group, client, going = lab.new_group(), lab.connect(), lab.connect()
    member, generation = settle_alone(client, group)
    never_used = new_id(going, group)
    client.send(join(group, member))
    assert client.is_waiting()
    assert ask(going, leave(group, never_used)).members[0].error_code == 0
    assert client.receive().generation_id == generation + 1


def heartbeats_tell_of_the_round(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect(), lab.connect()
    leader, generation = settle_alone(first, group)
    assert ask(first, heartbeat(group, generation, leader)).error_code == 0
    follower = enter(second, group)
    assert second.is_waiting()
    assert ask(first, heartbeat(group, generation, leader)).error_code == 27  # PreparingRebalance
    assert ask(first, join(group, leader)).generation_id == generation + 1
    assert second.receive().generation_id == generation + 1
    assert ask(first, heartbeat(group, generation + 1, leader)).error_code == 0  # CompletingRebalance
    assert ask(second, heartbeat(group, generation + 1, follower)).error_code == 0


def heartbeat_is_refused(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    assert ask(client, heartbeat("", 1, "x")).error_code == 24
    assert ask(client, heartbeat(group, 1, "x")).error_code == 25
    assert ask(client, heartbeat(lab.new_group(), -1, "")).error_code == 25
    member, generation = settle_alone(client, group)
    for version in range(5):
        assert ask(client, heartbeat(group, generation, member), version).error_code == 0
        assert ask(client, heartbeat(group, generation - 1, member), version).error_code == 22
        assert ask(client, heartbeat(group, generation + 1, member), version).error_code == 22
        assert ask(client, heartbeat(group, generation, "x"), version).error_code == 25
    assert ask(client, heartbeat(group, generation, member, "unheard")).error_code == 25


def sync_is_refused(lab: Notebook) -> None:
    group, client, other = lab.new_group(), lab.connect(), lab.connect()
    assert ask(client, sync("", 1, "x")).error_code == 24
    assert ask(client, sync(group, 1, "x")).error_code == 25
    member, generation = settle_alone(client, group)
    assert ask(client, sync(group, generation + 1, member)).error_code == 22
    assert ask(client, sync(group, generation, "x")).error_code == 25
    assert ask(client, sync(group, generation, member, protocol="sticky")).error_code == 23
    assert ask(client, sync(group, generation, member, protocol_type="connect")).error_code == 23
    assert ask(client, sync(group, generation, member, protocol=None)).error_code == 23
    assert ask(client, sync(group, generation, member, protocol_type=None)).error_code == 23
    for version in range(6):
        again = ask(client, sync(group, generation, member), version)
        assert (again.error_code, again.assignment) == (0, b"all")
        assert ask(client, sync(group, 7, member), version).error_code == 22
    enter(other, group)
    assert other.is_waiting()
    assert ask(client, sync(group, generation, member)).error_code == 27


def leader_assigns_and_everybody_gets_its_part(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, group)
    assert ask(second, sync(group, generation, follower)).assignment == b"b"
    assert ask(first, sync(group, generation, leader)).assignment == b"a"
    assert ask(second, sync(group, generation, follower, {leader: b"x", follower: b"x"})).assignment == b"b"


def member_that_the_leader_forgot_gets_nothing(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    member = new_id(client, group)
    generation = ask(client, join(group, member)).generation_id
    assert ask(client, sync(group, generation, member, {"somebody": b"x"})).assignment == b""


def follower_joins_again_without_a_round(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, group)
    again = ask(second, join(group, follower))
    assert (again.generation_id, again.leader, again.members) == (generation, leader, [])
    assert ask(first, heartbeat(group, generation, leader)).error_code == 0


def follower_that_reads_other_topics_starts_a_round(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, group)
    second.send(join(group, follower, protocols=(("range", subscribed_to("bills")),)))
    assert second.is_waiting()
    assert ask(first, heartbeat(group, generation, leader)).error_code == 27
    told = ask(first, join(group, leader))
    assert {m.member_id: m.metadata for m in told.members} == {
        leader: subscribed_to("orders"),
        follower: subscribed_to("bills"),
    }
    assert second.receive().generation_id == generation + 1


def lost_answer_to_a_join_is_given_again(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    member = new_id(client, group)
    joined = ask(client, join(group, member))
    again = ask(client, join(group, member))
    assert (again.generation_id, again.members) == (joined.generation_id, joined.members)


def change_of_mind_before_the_assignment_starts_over(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, group)
    second.send(join(group, follower, protocols=(("range", b""),)))
    assert second.is_waiting()
    ask(first, join(group, leader))
    second.receive()
    second.send(sync(group, generation + 1, follower))
    assert second.is_waiting()
    first.send(join(group, leader, protocols=(("range", b""),)))
    assert second.receive().error_code == 27
    second.send(join(group, follower))
    assert first.receive().generation_id == second.receive().generation_id == generation + 2


def members_vote_for_the_protocol(lab: Notebook) -> None:
    group, clients = lab.new_group(), [lab.connect(f"c{n}") for n in range(3)]
    wishes = (("range", b""), ("sticky", b"")), (("sticky", b""), ("range", b"")), (("sticky", b""), ("range", b""))
    joined = [enter(clients[0], group, protocols=wishes[0])]
    assert clients[0].receive().protocol_name == "range"
    joined += [enter(client, group, protocols=wish) for client, wish in zip(clients[1:], wishes[1:], strict=True)]
    assert all(client.is_waiting() for client in clients[1:])
    clients[0].send(join(group, joined[0], protocols=wishes[0]))
    assert {client.receive().protocol_name for client in clients} == {"sticky"}


def silent_member_is_dropped(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    member, generation = settle_alone(client, group, session_ms=2000)
    lab.pause(1100)
    assert ask(client, heartbeat(group, generation, member)).error_code == 0
    lab.pause(1100)
    assert ask(client, heartbeat(group, generation, member)).error_code == 0
    lab.pause(3000)
    assert ask(client, heartbeat(group, generation, member)).error_code == 25
    assert ask(client, join(group, member)).error_code == 25


def member_that_does_not_join_again_is_left_behind(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, group, rebalance_ms=1500)
    first.send(join(group, leader, rebalance_ms=1500))
    assert first.is_waiting()
    assert ask(second, heartbeat(group, generation, follower)).error_code == 27
    assert first.is_waiting()
    lab.pause(1500)
    assert [m.member_id for m in first.receive().members] == [leader]
    assert ask(second, heartbeat(group, generation, follower)).error_code == 25


def member_that_does_not_sync_is_left_behind(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, follower, generation = settle_two(first, second, group, rebalance_ms=1500)
    first.send(join(group, leader, rebalance_ms=1500))
    assert first.is_waiting()
    assert ask(second, join(group, follower, rebalance_ms=1500)).error_code == 0
    first.receive()
    assert ask(first, sync(group, generation + 1, leader, {leader: b"a"})).assignment == b"a"
    lab.pause(2200)
    assert ask(second, heartbeat(group, generation + 1, follower)).error_code == 25
    assert ask(first, heartbeat(group, generation + 1, leader)).error_code == 27


def group_is_freed_from_a_leader_that_vanished(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    leader, generation = settle_alone(first, group, session_ms=1000)
    follower = enter(second, group)
    assert second.is_waiting()
    lab.pause(1100)
    joined = second.receive()
    assert (joined.leader, joined.generation_id) == (follower, generation + 1)
    assert ask(first, heartbeat(group, generation, leader)).error_code == 25


def commits_are_for_members(lab: Notebook) -> None:
    group, client, other = lab.new_group(), lab.connect(), lab.connect()
    assert commit_error(client, commit(lab.new_group(), 1, "x")) == 69
    assert commit_error(client, commit(lab.new_group(), 1, "x"), 8) == 22
    assert commit_error(client, commit(lab.new_group(), -1, "")) == 0
    member, generation = settle_alone(client, group)
    assert commit_error(client, commit(group, generation, member)) == 0
    assert commit_error(client, commit(group, generation + 1, member)) == 22
    assert commit_error(client, commit(group, -1, member)) == 22
    assert commit_error(client, commit(group, generation, "x")) == 25
    assert commit_error(client, commit(group, generation, member, "unheard")) == 25
    assert commit_error(client, commit(group, -1, "")) == 25
    enter(other, group)
    assert other.is_waiting()
    assert commit_error(client, commit(group, generation, member)) == 0  # PreparingRebalance: before joining again
    ask(client, join(group, member))
    assert commit_error(client, commit(group, generation, member)) == 22
    assert commit_error(client, commit(group, generation + 1, member)) == 27  # CompletingRebalance
    assert commit_error(client, commit(group, -1, "")) == 25
    assert ask(client, leave(group, member)).error_code == 0


def commit_counts_as_a_heartbeat(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    member, generation = settle_alone(client, group, session_ms=2000)
    for _ in range(3):
        lab.pause(800)
        assert commit_error(client, commit(group, generation, member)) == 0


STORIES = [story for name, story in sorted(globals().items()) if getattr(story, "__module__", "") == __name__]
