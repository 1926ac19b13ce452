"""What members live through under `group.max.size=2` and `group.initial.rebalance.delay.ms=1000`, as on Kafka 4.3.1."""

from __future__ import annotations

from tests.broker.group.lab import Notebook, ask
from tests.broker.group.requests import enter, heartbeat, join, leave, new_id


def first_round_waits_for_others(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    ids = [enter(first, group)]
    lab.pause(600)
    ids.append(enter(second, group))
    lab.pause(600)  # a second after the first, but somebody came
    assert first.is_waiting()
    lab.pause(1000)
    assert sorted(m.member_id for m in first.receive().members) == sorted(ids)
    assert second.receive().generation_id == 1


def first_round_waits_no_longer_than_the_rebalance_timeout(lab: Notebook) -> None:
    group, first, second = lab.new_group(), lab.connect("one"), lab.connect("two")
    enter(first, group, rebalance_ms=1300)
    lab.pause(600)
    enter(second, group, rebalance_ms=1300)
    lab.pause(1000)
    assert len(first.receive().members) == 2
    second.receive()


def first_round_of_an_emptied_group_waits_again(lab: Notebook) -> None:
    group, client = lab.new_group(), lab.connect()
    for generation in (1, 3):
        member = enter(client, group)
        assert client.is_waiting()
        lab.pause(1000)
        assert client.receive().generation_id == generation
        ask(client, leave(group, member))


def member_that_leaves_the_first_round_leaves_an_empty_group(lab: Notebook) -> None:
    group, client, admin = lab.new_group(), lab.connect(), lab.connect()
    member = enter(client, group)
    assert client.is_waiting()
    ask(admin, leave(group, member))
    assert client.receive().error_code == 25
    lab.pause(1200)
    enter(client, group)
    lab.pause(1200)
    assert client.receive().generation_id == 2


def full_group_takes_nobody(lab: Notebook) -> None:
    group, clients = lab.new_group(), [lab.connect(f"c{n}") for n in range(3)]
    ids = [enter(client, group) for client in clients[:2]]
    assert all(client.is_waiting() for client in clients[:2])
    refused = ask(clients[2], join(group))
    assert (refused.error_code, refused.member_id) == (81, "")
    lab.pause(2000)
    for client in clients[:2]:
        assert client.receive().error_code == 0
    assert ask(clients[2], join(group)).error_code == 81
    assert ask(clients[0], heartbeat(group, 1, ids[0])).error_code == 0


def handed_out_id_does_not_keep_a_place(lab: Notebook) -> None:
    group, clients = lab.new_group(), [lab.connect(f"c{n}") for n in range(3)]
    handed_out = [new_id(client, group) for client in clients]
    for client, member in zip(clients[:2], handed_out, strict=False):
        client.send(join(group, member))
        assert client.is_waiting()
    refused = ask(clients[2], join(group, handed_out[2]))
    assert (refused.error_code, refused.member_id) == (81, "")
    lab.pause(2200)
    assert [client.receive().error_code for client in clients[:2]] == [0, 0]


STORIES = [story for name, story in sorted(globals().items()) if getattr(story, "__module__", "") == __name__]
