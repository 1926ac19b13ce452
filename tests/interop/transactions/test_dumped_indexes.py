"""Kafka's dump tool on .txnindex and .snapshot files: they say what the batches of the log say, on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.transactions.histories import PARTITIONS, Histories
from tests.real_kafka import Kafka, OwnBroker

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kafka_jars")]

BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) .* lastSequence: (-?\d+) producerId: (-?\d+) producerEpoch: (-?\d+) "
    r".* isTransactional: (\w+) isControl: (\w+) "
)
MARKER = re.compile(r"^\| offset: (\d+) .* endTxnMarker: (\w+) coordinatorEpoch: (\d+)")
ABORTED = re.compile(
    r"^version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)$", re.M
)
PRODUCER = re.compile(
    r"^producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: "
    r"OptionalLong(\[(\d+)\]|\.empty) lastTimestamp: \d+(?: firstSequence: \d+ lastSequence: (\d+))?",
    re.M,
)


class Producers:
    """The producers of a log, computed from its batches by the rules of KIP-98: an oracle of its own."""

    def __init__(self, dumped: str) -> None:
        self.aborted: list[tuple[int, int, int, int]] = []
        self.states: dict[int, tuple[int, int, int, int]] = {}  # epoch, coordinator epoch, first offset, last sequence
        self._open: dict[int, int] = {}
        producer = epoch = -1
        for line in dumped.splitlines():
            if batch := BATCH.match(line):
                base, _, sequence, producer, epoch = map(int, batch.groups()[:5])
                if producer >= 0 and batch[7] == "false":
                    self._add(base, producer, epoch, sequence, is_transactional=batch[6] == "true")
            elif marker := MARKER.match(line):
                self._end(int(marker[1]), producer, epoch, int(marker[3]), is_aborted=marker[2] == "ABORT")

    def _add(self, offset: int, producer: int, epoch: int, sequence: int, *, is_transactional: bool) -> None:
        coordinator = self.states.get(producer, (-1, -1, -1, -1))[1]
        first = self._open.setdefault(producer, offset) if is_transactional else -1
        self.states[producer] = epoch, coordinator, first, sequence

    def _end(self, offset: int, producer: int, epoch: int, coordinator: int, *, is_aborted: bool) -> None:
        first = self._open.pop(producer, -1)
        if is_aborted and first >= 0:
            self.aborted.append((producer, first, offset, min(self._open.values(), default=offset + 1)))
        previous_epoch, _, _, sequence = self.states.get(producer, (-1, -1, -1, -1))
        self.states[producer] = epoch, coordinator, -1, sequence if previous_epoch == epoch else -1


def dump(kafka: Kafka, folder: Path, suffix: str, *options: str) -> str:
    files = sorted(str(path) for path in folder.iterdir() if path.suffix == suffix)
    return kafka.tool("DumpLogSegments", *options, "--files", ",".join(files)).stdout if files else ""


def test_indexes_and_snapshots_say_what_the_batches_say(any_own_kafka: Callable[..., OwnBroker]) -> None:
    kafka = any_own_kafka()
    histories = Histories(kafka, 3, seed=28)
    histories.tell(50, kills=1)
    kafka.stop()
    aborted = open_transactions = 0
    for history in histories.all:
        for number in range(PARTITIONS):
            folder = kafka.data / f"{history.topic}-{number}"
            if history.is_compacted or history.starts[number]:
                continue  # then the batches do not say all
            oracle = Producers(dump(kafka, folder, ".log", "--deep-iteration"))
            rows = [tuple(map(int, row)) for row in ABORTED.findall(dump(kafka, folder, ".txnindex"))]
            assert rows == oracle.aborted, folder
            newest = dump(kafka, folder, ".snapshot").rpartition("Dumping ")[2]
            states = {
                int(id): (int(epoch), int(coordinator), int(first or -1), int(sequence or -1))
                for id, epoch, coordinator, _, first, sequence in PRODUCER.findall(newest)
            }
            assert states == oracle.states, folder
            aborted += len(rows)
            open_transactions += sum(first >= 0 for _, _, first, _ in states.values())
    assert aborted
    assert open_transactions
