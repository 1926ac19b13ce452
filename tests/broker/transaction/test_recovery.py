"""Restarts of the coordinator after kill -9 at any moment of a transaction, on a disk in memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcli.broker.testing.memory_files import MemoryFile, MemoryFiles
from kcli.error_codes import ErrorCode
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.structs import TRANSACTIONS_TOPIC, TopicPartition
from tests.broker.single_broker import Changing
from tests.broker.transaction.harness import MemoryBroker, Recorder
from tests.broker.transaction.requests import (
    ADD,
    END,
    END_WITH_EPOCH,
    PRODUCE,
    PRODUCE_THAT_ADDS,
    abort,
    add,
    completed,
    describe,
    end,
    init,
    new_producer,
    produce,
)

TIMEOUT_MS = 60_000
# Overdue transactions are aborted by a scan every 10 s.
SCAN_MS = 10_000


class Snapshots:
    """Copies of the disk: one after each write to a log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disks: list[MemoryFiles] = []
        self.acknowledged: list[bool] = []
        self.is_acknowledged = False
        self._files: MemoryFiles | None = None
        append = MemoryFile.append

        def append_and_copy(file: MemoryFile, parts: Any) -> None:
            append(file, parts)
            if self._files is not None:
                self.take()

        monkeypatch.setattr(MemoryFile, "append", append_and_copy)

    def start(self, files: MemoryFiles) -> None:
        self._files = files
        self.take()

    def take(self) -> None:
        assert self._files is not None
        disk = MemoryFiles()
        disk._directories = set(self._files._directories)
        disk._files = {path: copy.copy(data) for path, data in self._files._files.items()}
        for data in disk._files.values():
            data.bytes = bytearray(data.bytes)
        self.disks.append(disk)
        self.acknowledged.append(self.is_acknowledged)

    def stop(self) -> None:
        self._files = None


@pytest.mark.parametrize("is_new_client", [False, True], ids=["classic", "epoch per transaction"])
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_transaction_is_whole_after_kill_9_at_any_write(
    monkeypatch: pytest.MonkeyPatch, is_commit: bool, is_new_client: bool
) -> None:
    """All partitions have the outcome that the log of the coordinator has, and the id can be used again."""
    broker = MemoryBroker()
    story = Recorder(broker)
    name, topic = story.new_id(), story.new_topic(3)
    producer = new_producer(story, name)
    snapshots = Snapshots(monkeypatch)
    snapshots.start(broker.files)
    if not is_new_client:
        story.ask(add(name, producer, *((topic, number) for number in range(3))), ADD)
    for number in range(3):
        version = PRODUCE_THAT_ADDS if is_new_client else PRODUCE
        story.ask(produce(name, producer, topic, b"%d" % number, partition=number), version)
    snapshots.is_acknowledged = True  # from here on the outcome may be
    story.ask(end(name, producer, is_commit), END_WITH_EPOCH if is_new_client else END)
    completed(story, name)
    snapshots.take()
    snapshots.stop()
    assert len(snapshots.disks) > 10

    outcomes = set()
    for disk, may_be_decided in zip(snapshots.disks, snapshots.acknowledged, strict=True):
        restarted = MemoryBroker(disk)
        after = Recorder(restarted)
        after.pause(TIMEOUT_MS + 2 * SCAN_MS)
        (found,) = after.ask(describe(name), 0).transaction_states
        assert found.transaction_state in ("Empty", "CompleteCommit", "CompleteAbort")
        values = [after.read_committed(topic, number) for number in range(3)]
        if found.transaction_state == "CompleteCommit":
            assert may_be_decided
            assert values == [[b"0"], [b"1"], [b"2"]]
        for number in range(3):
            partition = restarted.broker.replica_manager.partitions[TopicPartition(topic, number)]
            assert partition.log.last_stable_offset == partition.log.log_end_offset
        aborted = [bool(one[2]) for one in after.responses if one[0] == "read_committed"]
        assert not (found.transaction_state == "CompleteCommit" and any(aborted))
        outcomes.add(found.transaction_state)
        new = new_producer(after, name)
        assert new.producer_epoch > producer.producer_epoch
        after.settled(produce(name, new, topic, b"next"), PRODUCE_THAT_ADDS)
        after.ask(end(name, new, True), END_WITH_EPOCH)
        completed(after, name)
        assert after.read_committed(topic)[-1] == b"next"
        restarted.broker.log_manager.close(clean=False)
    assert ("CompleteCommit" in outcomes) == is_commit
    assert "CompleteAbort" in outcomes


def test_acknowledged_outcomes_survive_a_restart() -> None:
    broker = MemoryBroker()
    story = Recorder(broker)
    name, topic = story.new_id(), story.new_topic()
    producer = new_producer(story, name)
    for number in range(4):
        story.ask(produce(name, producer, topic, b"%d" % number), PRODUCE_THAT_ADDS)
        producer = story.ask(end(name, producer, number % 2 == 0), END_WITH_EPOCH)
        broker.restart()
    completed(story, name)
    assert story.ask(init(name, producer_id=producer.producer_id, epoch=producer.producer_epoch), 5).producer_epoch == 5


def test_open_transaction_goes_on_after_a_restart() -> None:
    broker = MemoryBroker()
    story = Recorder(broker)
    name, topic = story.new_id(), story.new_topic()
    producer = new_producer(story, name)
    story.ask(produce(name, producer, topic, b"before"), PRODUCE_THAT_ADDS)
    broker.restart()
    story.ask(produce(name, producer, topic, b"after", sequence=1), PRODUCE_THAT_ADDS)
    story.ask(end(name, producer, True), END_WITH_EPOCH)
    completed(story, name)
    assert story.read_committed(topic) == [b"before", b"after"]


def test_expired_id_is_gone_after_a_restart() -> None:
    broker = MemoryBroker(transactional_id_expiration_ms="1000")
    story = Recorder(broker)
    name = story.new_id()
    new_producer(story, name)
    story.pause(3_700_000)
    assert story.ask(describe(name), 0).transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    broker.restart()
    assert story.ask(describe(name), 0).transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_damaged_record_is_reported_and_the_others_are_loaded() -> None:
    broker = MemoryBroker()
    story = Recorder(broker)
    names = [story.new_id() for _ in range(3)]
    for name in names:
        new_producer(story, name)
    for key, value in ((b"\0\0\0\1", b"x"), (b"\0\7\0\0", None), (b"\0\0\0\1a", b"\0\1" + bytes(5))):
        tp = TopicPartition(TRANSACTIONS_TOPIC, 0)
        batch = build_batch([NewRecord(key, value, broker.clock.wall_ms())])
        broker.broker.replica_manager.append_internal(tp, batch, broker.clock.wall_ms())
    broker.restart()
    broker.broker._log_reports()
    assert len([text for text in broker.messages if "__transaction_state-0: the record" in text]) == 3
    states = story.ask(describe(*names), 0).transaction_states
    assert [one.transaction_state for one in states] == ["Empty"] * 3


def test_deleted_topic_of_the_coordinator_is_forgotten() -> None:
    broker = MemoryBroker()
    story = Recorder(broker)
    name, topic = story.new_id(), story.new_topic()
    producer = new_producer(story, name)
    story.ask(produce(name, producer, topic, b"a"), PRODUCE_THAT_ADDS)
    Changing(broker.broker.alone).delete_topic("__transaction_state")
    assert story.ask(describe(name), 0).transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR
    assert story.ask(abort(name, producer), END_WITH_EPOCH).error_code == ErrorCode.NOT_COORDINATOR
    assert story.new_id()
