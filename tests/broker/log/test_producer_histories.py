"""Random histories of producers on two replicas: what a leader and a follower know equals a replay of their logs.

The leader changes, the new one may have lost the end of its log, the old one truncates, and followers restart, with and
without a clean shutdown.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kcli.broker.log.log import Log
from kcli.broker.log.producer_checks import NOT_VERIFIED, TransactionMarker
from kcli.broker.log.producer_state import ProducerStateManager
from kcli.broker.testing.memory_files import MemoryFiles
from tests.broker.log.logs import NOW, Keeper, batch

STEPS = 80
PRODUCERS = 3


class Replicas:
    """A leader and its follower, and what happens to them. `keepers` are in the same order as `logs`."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        files = MemoryFiles()
        self._config: dict[str, Any] = {"segment_bytes": self._chance.choice([400, 900, 5000])}
        self._keepers = [Keeper("/data/leader-0", files), Keeper("/data/follower-0", files)]
        self.logs = [keeper.open(**self._config) for keeper in self._keepers]
        self._epoch = 0

    def write(self, time_ms: int) -> None:
        """Append the next batch of a producer, as its leader knows it."""
        chance, log = self._chance, self.logs[0]
        id = chance.randrange(PRODUCERS)
        state = log.producers.producers.get(id)
        epoch, sequence = (max(state.epoch, 0), state.last_sequence + 1) if state else (0, 0)
        if state and state.transaction_offset < 0 and chance.random() < 0.1:
            epoch, sequence = epoch + 1, 0
        fields = {"producer_id": id, "producer_epoch": epoch, "base_sequence": sequence, "transactional": True}
        data = batch(*[b"v"] * chance.randrange(1, 4), time_ms=time_ms, **fields)
        log.append(data, leader_epoch=self._epoch, now_wall_ms=time_ms, verification=NOT_VERIFIED)

    def end(self, time_ms: int) -> None:
        """Append the marker of a producer, with its epoch or the next one."""
        id, chance = self._chance.randrange(PRODUCERS), self._chance
        state = self.logs[0].producers.producers.get(id)
        if state is not None:
            epoch = state.epoch + chance.randrange(2)
            marker = TransactionMarker(id, epoch, time_ms - NOW, chance.random() < 0.5)
            self.logs[0].append_marker(marker, leader_epoch=self._epoch, now_wall_ms=time_ms)

    def copy(self) -> None:
        leader, follower = self.logs
        while follower.log_end_offset < leader.log_end_offset and self._chance.random() < 0.8:
            size = self._chance.choice([100, 300, 5000])
            read = leader.read(follower.log_end_offset, size, upto=leader.log_end_offset, min_one_message=True)
            assert read.records is not None
            follower.append_as_follower(bytes(read.records), leader_epoch=self._epoch, now_wall_ms=NOW)

    def restart(self) -> None:
        follower, is_clean = self.logs[1], self._chance.random() < 0.5
        point = follower.recovery_point
        follower.close(clean=is_clean)
        self.logs[1] = self._keepers[1].open(clean=is_clean, recovery_point=point, **self._config)

    def fail_over(self) -> None:
        """Let the follower lead, possibly without the last records that it had."""
        leader, follower = self.logs
        if self._chance.random() < 0.5:
            follower.truncate_to(self._chance.randrange(follower.log_end_offset + 1), now_wall_ms=NOW)
        leader.truncate_to(follower.log_end_offset, now_wall_ms=NOW)
        self._epoch += 1
        self.logs.reverse()
        self._keepers.reverse()


def replayed(log: Log) -> ProducerStateManager:
    """The producers of all records, without a snapshot."""
    producers = ProducerStateManager(log.tp, "/nowhere", MemoryFiles())
    for segment in log.segments:
        for info in segment.batches_with_markers(log.log_start_offset):
            producers.update(info)
    return producers


def facts(producers: ProducerStateManager) -> dict[int, Any]:
    """Return the facts that decide about the next batch of each producer."""
    return {
        id: (one.epoch, one.last_sequence, one.coordinator_epoch, one.transaction_offset, one.last_timestamp_ms)
        for id, one in producers.producers.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_replicas_know_their_producers(seed: int) -> None:
    replicas, chance = Replicas(seed), random.Random(1000 + seed)
    for step in range(STEPS):
        time_ms = NOW + step
        [happen] = chance.choices(
            [replicas.write, replicas.end, lambda _: replicas.copy(), lambda _: replicas.restart(),
             lambda _: replicas.fail_over()],
            [10, 4, 3, 2, 1],
        )  # fmt: skip
        happen(time_ms)
        for log in replicas.logs:
            expected = replayed(log)
            assert facts(log.producers) == facts(expected), step
            assert log.producers.first_open_offset == expected.first_open_offset
            assert log.producers.end_offset == log.log_end_offset
