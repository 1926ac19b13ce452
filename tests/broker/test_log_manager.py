"""The logs of a data directory: opened after a clean end and after a crash, created, deleted, looked after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.files import DiskFiles
from kcli.broker.log.log import Log
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log_manager import LogManager
from kcli.clock import ManualClock
from kcli.errors import ConfigError
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition

TP = TopicPartition("orders", 0)
ID = UUID("201f737e-f56a-4227-aefd-c93c473cf065")
DAY = 86_400_000
PLAIN = LogConfig()

Start = Callable[..., LogManager]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def start(tmp_path: Path, clock: ManualClock) -> Iterator[Start]:
    """Opens the directory as a broker's start does; what is still open at the end of the test is closed."""
    started: list[LogManager] = []

    def open_all(topic_config: LogConfig = PLAIN, files: Any = None, **settings: Any) -> LogManager:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        manager = LogManager(str(tmp_path), files or DiskFiles(), BrokerConfig.from_properties(named), clock)
        started.append(manager)
        manager.open(lambda topic: topic_config)
        return manager

    yield open_all
    for manager in started:
        manager.close(clean=False)


def produce(log: Log, clock: ManualClock, count: int = 1, **options: Any) -> int:
    data = bytearray(build_batch([NewRecord(b"k", b"v" * 10, clock.wall_ms())] * count, **options))
    info = log.append(data, leader_epoch=0, now_wall_ms=clock.wall_ms())
    log.advance_high_watermark(log.log_end_offset)
    return info.base_offset


# From one broker's life to the next


def test_a_clean_end_leaves_everything_on_the_disk_and_says_so(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3, producer_id=9, producer_epoch=0, base_sequence=0)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    manager.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    names = sorted(path.name for path in (tmp_path / "orders-0").iterdir())
    assert names == [
        "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
        "00000000000000000003.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    ]  # fmt: skip

    again = start()
    log = again.logs[TP]
    assert (log.topic_id, log.log_end_offset, again.reports) == (ID, 3, [])
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert produce(log, clock, 3, producer_id=9, producer_epoch=0, base_sequence=0) == 0  # the same batch again
    assert produce(log, clock, 1, producer_id=9, producer_epoch=0, base_sequence=3) == 3


def test_after_a_crash_nothing_is_missing_and_what_was_torn_is_told(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    for _ in range(5):
        produce(log, clock)
    manager.close(clean=False)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-7])

    again = start()
    assert again.logs[TP].log_end_offset == 4
    assert len(again.reports) == 1
    assert "00000000000000000000.log" in again.reports[0]


def test_producers_are_known_again_after_a_crash(start: Start, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, 3, producer_id=9, producer_epoch=0, base_sequence=0)
    produce(log, clock, 2, producer_id=9, producer_epoch=0, base_sequence=3)
    manager.close(clean=False)
    log = start().logs[TP]
    assert produce(log, clock, 3, producer_id=9, producer_epoch=0, base_sequence=0) == 0
    assert log.log_end_offset == 5


def test_deleted_records_stay_deleted(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    for _ in range(5):
        produce(log, clock)
    log.delete_records(3)
    clock.advance(61_000)
    manager.tick(clock.now_ms(), clock.wall_ms())
    manager.close(clean=False)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    assert start().logs[TP].log_start_offset == 3


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
def test_a_missing_checkpoint_is_no_loss(start: Start, tmp_path: Path, clock: ManualClock, name: str) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close()
    (tmp_path / f"{name}-offset-checkpoint").unlink()
    assert start().logs[TP].log_end_offset == 3


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint",
     "orders-0/leader-epoch-checkpoint", "orders-0/partition.metadata"],
)  # fmt: skip
def test_garbage_in_a_checkpoint_stops_the_start_with_the_files_name(
    start: Start, tmp_path: Path, clock: ManualClock, name: str
) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close()
    path = tmp_path / name
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(b"garbage")
    with pytest.raises(ConfigError, match=path.name):
        start()
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before)
    assert start().logs[TP].log_end_offset == 3  # the failed start neither kept the lock nor changed anything


def test_a_stray_directory_stops_the_start(start: Start, tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    with pytest.raises(ConfigError, match="holiday"):
        start()


def test_a_failed_start_is_no_clean_end(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close(clean=False)
    (tmp_path / "holiday").mkdir()
    with pytest.raises(ConfigError):
        start()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_partition_dropped_in_by_hand_is_opened_and_gets_its_id_when_somebody_knows_it(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close()
    (tmp_path / "orders-0").rename(tmp_path / "copy-7")
    (tmp_path / "copy-7" / "partition.metadata").unlink()
    manager = start()
    tp = TopicPartition("copy", 7)
    assert (manager.logs[tp].topic_id, manager.logs[tp].log_end_offset) == (None, 3)
    assert manager.create(tp, ID, PLAIN) is manager.logs[tp]
    manager.close()
    assert start().logs[tp].topic_id == ID


# Partitions that go


def test_a_deleted_partition_is_out_of_the_way_at_once_and_removed_later(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, 3)
    on_its_way = log.read(0, 1 << 20, upto=3, min_one_message=True).records
    assert on_its_way is not None
    manager.delete(TP)
    manager.delete(TP)
    assert TP not in manager.logs
    assert produce(manager.create(TP, ID, PLAIN), clock) == 0  # the name is free again
    assert len(bytes(on_its_way)) == len(on_its_way)
    assert len(list(tmp_path.glob("orders-0.*-delete"))) == 1
    due = manager.tick(clock.now_ms(), clock.wall_ms())
    assert due <= clock.now_ms() + PLAIN.file_delete_delay_ms
    clock.advance(PLAIN.file_delete_delay_ms)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert list(tmp_path.glob("orders-0.*-delete")) == []


def test_what_a_crash_left_of_a_deleted_partition_is_removed_at_the_next_start(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock)
    manager.delete(TP)
    manager.close(clean=False)
    again = start()
    assert again.logs == {}
    again.tick(clock.now_ms(), clock.wall_ms())
    assert list(tmp_path.glob("orders-0*")) == []


# What is done from time to time


def test_chores_come_when_they_are_due_and_tick_says_when(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    manager = start(replica_high_watermark_checkpoint_interval_ms=5000, log_initial_task_delay_ms=1000)
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, 3)
    checkpoint = tmp_path / "replication-offset-checkpoint"
    assert manager.tick(clock.now_ms(), clock.wall_ms()) == clock.now_ms() + 5000
    assert not checkpoint.exists()
    clock.advance(5000)
    assert manager.tick(clock.now_ms(), clock.wall_ms()) == clock.now_ms() + 5000
    assert checkpoint.read_text() == "0\n1\norders 0 3\n"
    checkpoint.unlink()
    clock.advance(5000)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert not checkpoint.exists()  # nothing had changed: no write
    produce(log, clock)
    clock.advance(5000)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert checkpoint.read_text() == "0\n1\norders 0 4\n"


def test_old_segments_go_by_themselves(start: Start, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, LogConfig(retention_ms=DAY))
    produce(log, clock)
    log.roll(clock.wall_ms())
    clock.advance(DAY + 1)
    produce(log, clock)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (1, 2, 1)


def test_what_waits_longer_than_flush_ms_is_flushed(start: Start, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, LogConfig(flush_ms=200))
    produce(log, clock, 3)
    due = manager.tick(clock.now_ms(), clock.wall_ms())
    assert log.recovery_point == 0
    assert due <= clock.now_ms() + 200
    clock.advance(due - clock.now_ms())
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert log.recovery_point == 3


def test_silent_producers_are_forgotten(start: Start, clock: ManualClock) -> None:
    manager = start(producer_id_expiration_ms=DAY)
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, producer_id=9, producer_epoch=0, base_sequence=0)
    clock.advance(DAY)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert log.producers.producers == {}


def test_a_compacted_log_is_cleaned_in_steps_between_which_others_have_their_turn(
    start: Start, clock: ManualClock
) -> None:
    manager = start(log_cleaner_backoff_ms=1000, log_initial_task_delay_ms=0)
    log = manager.create(TP, ID, LogConfig(cleanup_policy=frozenset({"compact"})))
    for _ in range(100):
        produce(log, clock, 50)
    log.roll(clock.wall_ms())
    clock.advance(1000)
    steps = 0
    while manager.tick(clock.now_ms(), clock.wall_ms()) <= clock.now_ms():
        steps += 1
        assert steps < 1000
    assert steps > 3
    assert [info.record_count for _, info in log.segments[0].batches()] == [1]
    assert log.log_end_offset == 5000


# A disk that fails


class FailingFiles(DiskFiles):
    """A disk on which nothing can be replaced any more, once `broken`."""

    broken = False

    def write_atomically(self, path: str, data: bytes) -> None:
        if self.broken:
            raise OSError(28, "No space left on device", path)
        super().write_atomically(path, data)


def test_a_disk_that_fails_takes_the_directory_offline_and_leaves_no_mark(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    files = FailingFiles()
    manager = start(files=files)
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    files.broken = True
    clock.advance(100_000)
    assert manager.tick(clock.now_ms(), clock.wall_ms()) == float("inf")
    assert manager.failed is not None
    assert "No space left on device" in manager.failed
    assert str(tmp_path) in manager.failed
    manager.fail("a later reason")
    assert "No space" in manager.failed
    manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert start().logs[TP].log_end_offset == 3


def test_an_end_that_cannot_be_clean_raises_and_frees_the_lock(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    files = FailingFiles()
    manager = start(files=files)
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    files.broken = True
    with pytest.raises(OSError, match="No space"):
        manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert start().logs[TP].log_end_offset == 3
