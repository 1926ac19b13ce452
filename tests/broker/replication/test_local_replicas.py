"""Stories of a whole cluster in memory: leaders that die and return, ISRs that shrink and grow, records that stay."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.broker.cluster.memory_cluster import CONTROLLER, TP, Death, Member, MemoryCluster


def test_acknowledged_records_are_on_all_replicas() -> None:
    cluster = MemoryCluster(3)
    cluster.create("orders", [1, 2, 3], min_insync_replicas=2)
    for _ in range(10):
        cluster.write()
        cluster.run(10)
    assert len(cluster.acknowledged) == 10
    contents = {member.contents() for member in cluster.members.values()}
    assert len(contents) == 1
    cluster.run(600)
    assert {member.log_of(TP).high_watermark for member in cluster.members.values()} == {10}


class History:
    """Random acts on a cluster, and the checks of what must stay true. `seen` are the values that readers could see."""

    def __init__(self, seed: int, nodes: int = 3, **properties: int) -> None:
        self.choice = random.Random(seed)
        self.cluster = MemoryCluster(nodes, replica_lag_time_max_ms=3000, **properties)
        self.cluster.create("orders", [1, 2, 3], min_insync_replicas=2)
        self.seen: dict[int, bytes | None] = {}
        self.deleted_to = 0

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.cluster.members.values() if member.is_alive]

    # ---- acts ----

    def kill(self) -> None:
        self.choice.choice(self.alive).kill()

    def kill_within(self) -> None:
        """Let a node die at one of its next operations on files, wherever that is."""
        self.choice.choice(self.alive).die_after(self.choice.randint(0, 12))

    def lose_power(self) -> None:
        """Let a node lose its power while all replicas have all records."""
        state = self.cluster.state()
        all_serve = all(member.is_serving for member in self.cluster.members.values())
        if all_serve and set(state.isr) == set(state.replicas):
            self.choice.choice(self.alive).lose_power()

    def restart_controller(self) -> None:
        self.cluster.quorum.restart()

    def start(self) -> None:
        for member in self.cluster.members.values():
            if not member.is_alive and self.choice.random() < 0.7:
                member.start()

    def pause(self) -> None:
        self.cluster.network.pause(self.choice.choice(list(self.cluster.members)))

    def cut(self) -> None:
        self.cluster.network.cut(*self.choice.sample([CONTROLLER, *self.cluster.members], 2))

    def heal(self) -> None:
        self.cluster.network.heal()

    def look(self) -> None:
        """Read from the leader, as it sees itself."""
        leader = self.cluster.leader()
        if leader is not None and leader.replica_manager.partitions[TP].is_leader:
            for offset, value in leader.visible().items():
                assert self.seen.setdefault(offset, value) == value

    def write(self) -> None:
        at = self.choice.choice([None, None, *self.alive]) if self.alive else None
        if at is None or TP in at.replica_manager.partitions:
            self.cluster.write(self.choice.randint(1, 3), at=at)

    def delete_records(self) -> None:
        leader = self.cluster.leader()
        if leader is not None and TP in leader.replica_manager.partitions:
            high_watermark = leader.log_of().high_watermark if TP in leader.log_manager.logs else 0
            upto = self.choice.randint(0, high_watermark)
            now_ms = self.cluster.clock.now_ms()
            if leader.replica_manager.partitions[TP].is_leader:
                leader.replica_manager.delete_records({TP: upto}, timeout_ms=1000, now_ms=now_ms)
                self.deleted_to = max(self.deleted_to, upto)

    def elect(self) -> None:
        self.cluster.quorum.send(ElectLeadersRequest(election_type=0, topic_partitions=None))

    def reassign(self) -> None:
        replicas = self.choice.sample(list(self.cluster.members), 3)
        row = ReassignablePartition(partition_index=0, replicas=self.choice.choice([replicas, replicas, None]))
        topic = ReassignableTopic(name="orders", partitions=[row])
        self.cluster.quorum.send(AlterPartitionReassignmentsRequest(topics=[topic]))

    # ---- the story ----

    def play(self, acts: Sequence[Callable[[], None]], count: int = 200) -> None:
        for _ in range(count):
            is_stuck = not self.alive or (len(self.alive) == 1 and self.choice.random() < 0.9)
            try:
                (self.start if is_stuck else self.choice.choice(acts))()
            except Death as death:
                death.member.kill()
            if self.choice.random() < 0.7:
                self.cluster.run(self.choice.choice([0, 10, 50, 50, 500, 3000, 9500]), step_ms=50)
        self.settle()
        self.look()
        self.check()

    def settle(self) -> None:
        """Heal everything, start all nodes, and wait until all replicas are in sync."""
        cluster = self.cluster
        cluster.network.heal()
        for member in cluster.members.values():
            member.survive()
            if not member.is_alive:
                member.start()
        cluster.run(25_000, step_ms=50)
        cluster.write()
        cluster.run(2000, step_ms=50)

    def check(self) -> None:
        """Check that the replicas are identical, in sync, and have each acknowledged record exactly once."""
        state, cluster = self.cluster.state(), self.cluster
        assert set(state.isr) == set(state.replicas)
        assert not state.is_reassigning
        members = [cluster.member(node_id) for node_id in state.replicas]
        shortest = min((member.contents() for member in members), key=len)
        assert all(member.contents().endswith(shortest) for member in members)
        assert len({(one.log_of().high_watermark, one.log_of().log_end_offset) for one in members}) == 1
        assert len({one.log_of().epochs.latest_epoch for one in members}) == 1
        visible = members[0].visible()
        values = [value.decode() for value in visible.values() if value is not None]
        assert len(values) == len(set(values))
        deleted = {value.decode() for offset, value in self.seen.items() if offset < self.deleted_to and value}
        lost = set(cluster.acknowledged) - set(values)
        if self.deleted_to:
            assert min(visible) == members[0].log_of().log_start_offset <= max(self.deleted_to, min(visible))
            lost -= deleted
            lost -= {value for value, offset in cluster.offsets.items() if offset < self.deleted_to}
        assert not lost
        for member in cluster.members.values():
            assert not any("LOST" in report for report in [*member.log, *member.log_manager.reports])


@pytest.mark.parametrize("seed", range(6))
def test_no_acknowledged_record_is_lost_in_any_history(seed: int) -> None:
    """Nodes die, stop and lose each other at random."""
    story = History(seed)
    story.play(
        [
            story.kill,
            *[story.start] * 2,
            story.pause,
            story.cut,
            *[story.heal] * 3,
            *[story.look] * 2,
            *[story.write] * 12,
        ]
    )
    assert len(story.cluster.acknowledged) > 10


@pytest.mark.parametrize("seed", range(6))
def test_replicas_stay_identical_while_they_move(seed: int) -> None:
    """Besides, replicas move between four nodes, preferred leaders are elected, and records are deleted."""
    story = History(seed, nodes=4)
    story.play(
        [
            *[story.kill, story.kill_within, story.pause, story.cut, story.restart_controller],
            *[story.elect, story.reassign, story.delete_records],
            *[story.start] * 2,
            *[story.heal] * 3,
            *[story.look] * 2,
            *[story.write] * 12,
        ]
    )
    assert len(story.cluster.acknowledged) > 10


@pytest.mark.parametrize("seed", range(4))
def test_power_failures_one_at_a_time_lose_nothing(seed: int) -> None:
    """A node that was stopped uncleanly leaves ISR and ELR when it registers again, because its log may be shorter."""
    story = History(seed)
    story.play(
        [story.lose_power, story.kill_within, story.cut, *[story.start] * 2, *[story.heal] * 2, *[story.write] * 12]
    )
    assert len(story.cluster.acknowledged) > 10
