"""Up to fifty members that join, leave and disconnect at random, and the invariants of every generation."""

from __future__ import annotations

import random

import pytest

from kcli.error_codes import ErrorCode
from tests.broker.group.harness import CoordinatorConnection, CoordinatorHarness, ask
from tests.broker.group.requests import heartbeat, join, leave, sync

pytestmark = pytest.mark.slow

PARTITIONS = [bytes([n]) for n in range(7)]


class Consumer:
    """A client of the group protocol: joins, syncs, heartbeats, and rejoins after errors."""

    def __init__(self, harness: CoordinatorHarness, generations: dict[int, list[bytes]]) -> None:
        self._harness = harness
        self._generations = generations
        self._client: CoordinatorConnection = harness.connect("c")
        self._sent = ""
        self.member_id = ""
        self.generation = -1
        self._join()

    def _join(self) -> None:
        self._client.send(join("g", self.member_id, session_ms=6000, rebalance_ms=6000))
        self._sent = "join"

    def step(self) -> None:
        if self._sent == "":
            error = ask(self._client, heartbeat("g", self.generation, self.member_id)).error_code
            if error:
                self._rejoin(error)
        elif not self._client.is_waiting():
            response, sent = self._client.receive(), self._sent
            self._sent = ""
            if response.error_code:
                self.member_id = (
                    response.member_id if response.error_code == ErrorCode.MEMBER_ID_REQUIRED else self.member_id
                )
                self._rejoin(response.error_code)
            elif sent == "join":
                self._joined(response)
            elif response.assignment:
                self._generations.setdefault(self.generation, []).extend(bytes([b]) for b in response.assignment)

    def _joined(self, response: object) -> None:
        assert response.generation_id > self.generation  # type: ignore[attr-defined]
        self.generation = response.generation_id  # type: ignore[attr-defined]
        ids = [m.member_id for m in response.members]  # type: ignore[attr-defined]
        plan = {member: b"".join(PARTITIONS[n :: len(ids)]) for n, member in enumerate(ids)}
        self._client.send(sync("g", self.generation, self.member_id, plan))
        self._sent = "sync"

    def _rejoin(self, error: int) -> None:
        assert error in (22, 25, 27, 79)
        if error == 25:
            self.member_id = ""
        self._join()

    def leave(self) -> None:
        if self.member_id:
            ask(self._harness.connect(), leave("g", self.member_id))


@pytest.mark.parametrize("seed", range(5))
def test_no_partition_has_two_owners_and_the_group_becomes_stable(seed: int) -> None:
    chance, harness = random.Random(seed), CoordinatorHarness(group_initial_rebalance_delay_ms="500")
    generations: dict[int, list[bytes]] = {}
    running: list[Consumer] = []
    for _ in range(400):
        roll = chance.random()
        if roll < 0.2 and len(running) < 50:
            running.append(Consumer(harness, generations))
        elif roll < 0.3 and running:
            running.pop(chance.randrange(len(running))).leave()
        elif roll < 0.35 and running:
            running.pop(chance.randrange(len(running)))  # disconnects
        for consumer in chance.sample(running, len(running)):
            consumer.step()
        harness.pause(chance.choice((1, 100, 1500)))
    for _ in range(60):
        harness.pause(1000)
        for consumer in running:
            consumer.step()
    assert harness.state("g") == "Stable"
    assert len(generations) > 20
    for generation, owned in generations.items():
        assert len(owned) == len(set(owned)), f"generation {generation} assigns a partition twice"
    last = max(generations)
    assert {consumer.generation for consumer in running} == {last}
    assert sorted(generations[last]) == PARTITIONS
