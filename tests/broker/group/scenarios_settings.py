"""Scenarios with `group.max.size=2` and `group.initial.rebalance.delay.ms=1000`, with the outcome of Kafka 4.3.1."""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from tests.broker.group.harness import Recorder, ask
from tests.broker.group.requests import heartbeat, join, leave, request_member_id, start_join


def initial_rebalance_waits_for_more_members(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    ids = [start_join(first, group)]
    broker.pause(600)
    ids.append(start_join(second, group))
    broker.pause(600)  # the initial delay has elapsed, but a new member extended it
    assert first.is_waiting()
    broker.pause(1000)
    assert sorted(m.member_id for m in first.receive().members) == sorted(ids)
    assert second.receive().generation_id == 1


def initial_rebalance_waits_at_most_the_rebalance_timeout(broker: Recorder) -> None:
    group, first, second = broker.new_group(), broker.connect("one"), broker.connect("two")
    start_join(first, group, rebalance_ms=1300)
    broker.pause(600)
    start_join(second, group, rebalance_ms=1300)
    broker.pause(1000)
    assert len(first.receive().members) == 2
    second.receive()


def initial_rebalance_of_an_emptied_group_waits_again(broker: Recorder) -> None:
    group, client = broker.new_group(), broker.connect()
    for generation in (1, 3):
        member = start_join(client, group)
        assert client.is_waiting()
        broker.pause(1000)
        assert client.receive().generation_id == generation
        ask(client, leave(group, member))


def member_that_leaves_during_the_initial_rebalance_leaves_an_empty_group(broker: Recorder) -> None:
    group, client, admin = broker.new_group(), broker.connect(), broker.connect()
    member = start_join(client, group)
    assert client.is_waiting()
    ask(admin, leave(group, member))
    assert client.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.pause(1200)
    start_join(client, group)
    broker.pause(1200)
    assert client.receive().generation_id == 2


def full_group_refuses_new_members(broker: Recorder) -> None:
    group, clients = broker.new_group(), [broker.connect(f"c{n}") for n in range(3)]
    ids = [start_join(client, group) for client in clients[:2]]
    assert all(client.is_waiting() for client in clients[:2])
    refused = ask(clients[2], join(group))
    assert (refused.error_code, refused.member_id) == (81, "")
    broker.pause(2000)
    for client in clients[:2]:
        assert client.receive().error_code == 0
    assert ask(clients[2], join(group)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ask(clients[0], heartbeat(group, 1, ids[0])).error_code == 0


def pending_member_id_does_not_reserve_a_place(broker: Recorder) -> None:
    group, clients = broker.new_group(), [broker.connect(f"c{n}") for n in range(3)]
    handed_out = [request_member_id(client, group) for client in clients]
    for client, member in zip(clients[:2], handed_out, strict=False):
        client.send(join(group, member))
        assert client.is_waiting()
    refused = ask(clients[2], join(group, handed_out[2]))
    assert (refused.error_code, refused.member_id) == (81, "")
    broker.pause(2200)
    assert [client.receive().error_code for client in clients[:2]] == [0, 0]


SCENARIOS = [
    scenario for name, scenario in sorted(globals().items()) if getattr(scenario, "__module__", "") == __name__
]
