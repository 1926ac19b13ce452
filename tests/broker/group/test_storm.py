"""Fifty members that come, go and vanish at random: what must hold in every generation."""

from __future__ import annotations

import random

import pytest

from tests.broker.group.lab import DirectConnection, DirectLab, ask
from tests.broker.group.requests import heartbeat, join, leave, sync

pytestmark = pytest.mark.slow

PARTITIONS = [bytes([n]) for n in range(7)]


class Consumer:
    """Follows the protocol as clients do: joins when told to, syncs, heartbeats. `vanish` ends it without a word."""

    def __init__(self, lab: DirectLab, generations: dict[int, list[bytes]]) -> None:
        self._lab = lab
        self._generations = generations
        self._client: DirectConnection = lab.connect("c")
        self._asked = ""
        self.member_id = ""
        self.generation = -1
        self._join()

    def _join(self) -> None:
        self._client.send(join("g", self.member_id, session_ms=6000, rebalance_ms=6000))
        self._asked = "join"

    def step(self) -> None:
        if self._asked == "":
            error = ask(self._client, heartbeat("g", self.generation, self.member_id)).error_code
            if error:
                self._begin_again(error)
        elif not self._client.is_waiting():
            answer, asked = self._client.receive(), self._asked
            self._asked = ""
            if answer.error_code:
                self.member_id = answer.member_id if answer.error_code == 79 else self.member_id
                self._begin_again(answer.error_code)
            elif asked == "join":
                self._joined(answer)
            elif answer.assignment:
                self._generations.setdefault(self.generation, []).extend(bytes([b]) for b in answer.assignment)

    def _joined(self, answer: object) -> None:
        assert answer.generation_id > self.generation  # type: ignore[attr-defined]
        self.generation = answer.generation_id  # type: ignore[attr-defined]
        ids = [m.member_id for m in answer.members]  # type: ignore[attr-defined]
        plan = {member: b"".join(PARTITIONS[n :: len(ids)]) for n, member in enumerate(ids)}
        self._client.send(sync("g", self.generation, self.member_id, plan))
        self._asked = "sync"

    def _begin_again(self, error: int) -> None:
        assert error in (22, 25, 27, 79)
        if error == 25:
            self.member_id = ""
        self._join()

    def leave(self) -> None:
        if self.member_id:
            ask(self._lab.connect(), leave("g", self.member_id))


@pytest.mark.parametrize("seed", range(5))
def test_no_partition_has_two_owners_and_the_group_comes_to_rest(seed: int) -> None:
    chance, lab = random.Random(seed), DirectLab(group_initial_rebalance_delay_ms="500")
    generations: dict[int, list[bytes]] = {}
    living: list[Consumer] = []
    for _ in range(400):
        dice = chance.random()
        if dice < 0.2 and len(living) < 50:
            living.append(Consumer(lab, generations))
        elif dice < 0.3 and living:
            living.pop(chance.randrange(len(living))).leave()
        elif dice < 0.35 and living:
            living.pop(chance.randrange(len(living)))  # vanishes
        for consumer in chance.sample(living, len(living)):
            consumer.step()
        lab.pause(chance.choice((1, 100, 1500)))
    for _ in range(60):
        lab.pause(1000)
        for consumer in living:
            consumer.step()
    assert lab.state("g") == "Stable"
    assert len(generations) > 20
    for generation, owned in generations.items():
        assert len(owned) == len(set(owned)), f"generation {generation} gives a partition to two"
    last = max(generations)
    assert {consumer.generation for consumer in living} == {last}
    assert sorted(generations[last]) == PARTITIONS
