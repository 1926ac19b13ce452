"""LogManager: start after a clean shutdown and after a crash, creation, deletion, maintenance, and disk errors."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kcli.broker.config import BrokerConfig
from kcli.broker.files import DiskFiles
from kcli.broker.log.checkpoint_files import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from kcli.broker.log.log import Log
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log_manager import CLEANER_CHECKPOINT, LogManager
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
    """Opens the directory as a broker's start does, and closes open managers at the end of the test."""
    started: list[LogManager] = []

    def open_all(
        topic_config: LogConfig = PLAIN, files: Any = None, *, is_replica: bool = False, **settings: Any
    ) -> LogManager:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.from_properties(named)
        manager = LogManager(str(tmp_path), files or DiskFiles(), config, clock, is_replica=is_replica)
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


# Restarts


def test_clean_shutdown_flushes_everything_and_writes_the_marker(
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
    assert produce(log, clock, 3, producer_id=9, producer_epoch=0, base_sequence=0) == 0  # a repeated batch
    assert produce(log, clock, 1, producer_id=9, producer_epoch=0, base_sequence=3) == 3


@pytest.mark.parametrize(("damage", "epoch"), [("none", 7), ("tail", -1), ("directory", -1), ("recovery points", -1)])
def test_a_broker_whose_flushed_records_are_gone_was_not_left_clean(
    start: Start, tmp_path: Path, clock: ManualClock, damage: str, epoch: int
) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close(clean=True, broker_epoch=7)
    if damage == "tail":
        os.truncate(tmp_path / str(TP) / f"{0:020d}.log", 100)
    elif damage == "directory":
        shutil.rmtree(tmp_path / str(TP))
    elif damage == "recovery points":
        (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"garbage")
    assert start().clean_epoch == epoch


def test_high_watermarks_are_stored_after_one_interval(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    """The other checkpoints have an initial delay of 30 s. Without this one, a killed replica knows no watermark."""
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    clock.advance(5000)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 3\n"
    manager.close(clean=False)
    assert start().logs[TP].high_watermark == 3


@pytest.mark.parametrize(
    ("is_replica", "words"), [(False, "DATA WAS LOST"), (True, "are lost unless another replica has them")]
)
def test_only_a_broker_without_others_calls_removed_batches_lost(
    start: Start, tmp_path: Path, clock: ManualClock, is_replica: bool, words: str
) -> None:
    manager = start(is_replica=is_replica)
    log = manager.create(TP, ID, PLAIN)
    for _ in range(3):
        produce(log, clock)
    position = log.offset_metadata(1).position
    manager.close(clean=False)
    path = tmp_path / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[position + 70] ^= 1
    path.write_bytes(data)
    (report,) = start(is_replica=is_replica).reports
    assert words in report
    assert "whole batches up to offset 3 followed the damage" in report


def test_crash_recovery_keeps_whole_batches_and_reports_torn_ones(
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


def test_producer_state_survives_a_crash(start: Start, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, 3, producer_id=9, producer_epoch=0, base_sequence=0)
    produce(log, clock, 2, producer_id=9, producer_epoch=0, base_sequence=3)
    manager.close(clean=False)
    log = start().logs[TP]
    assert produce(log, clock, 3, producer_id=9, producer_epoch=0, base_sequence=0) == 0
    assert log.log_end_offset == 5


def test_deleted_records_remain_deleted_after_restart(start: Start, tmp_path: Path, clock: ManualClock) -> None:
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
def test_missing_checkpoint_loses_no_data(start: Start, tmp_path: Path, clock: ManualClock, name: str) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close()
    (tmp_path / f"{name}-offset-checkpoint").unlink()
    assert start().logs[TP].log_end_offset == 3


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("garbage", [b"garbage", b"\xff\0" * 50, b"0\n1\norders 0 " + b"9" * 5000 + b"\n"])
@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint",
     "orders-0/leader-epoch-checkpoint"],
)  # fmt: skip
def test_damaged_checkpoint_is_rebuilt_and_reported(
    start: Start, tmp_path: Path, clock: ManualClock, name: str, garbage: bytes, is_clean: bool
) -> None:
    """Apache Kafka 4.3.1 takes the data directory offline. The logs have what these files say."""
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, 3)
    epochs = log.epochs.entries
    manager.close(clean=is_clean)
    path = tmp_path / name
    path.write_bytes(garbage)
    manager = start()
    log = manager.logs[TP]
    assert (log.log_end_offset, log.epochs.entries) == (3, epochs)
    assert sum(f"{path} is damaged" in report and "rebuilt" in report for report in manager.reports) == 1
    manager.close()
    if not name.startswith("cleaner"):  # it is written after the next cleaning
        assert not any("damaged" in report for report in start().reports)


@pytest.mark.parametrize("name", ["log-start-offset-checkpoint", "orders-0/partition.metadata"])
def test_damaged_file_that_the_logs_cannot_replace_stops_the_start(
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
    assert start().logs[TP].log_end_offset == 3  # the failed start released the lock and changed nothing


def test_stray_directory_stops_the_start(start: Start, tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    with pytest.raises(ConfigError, match="holiday"):
        start()


def test_failed_start_writes_no_clean_shutdown_marker(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    manager = start()
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.close(clean=False)
    (tmp_path / "holiday").mkdir()
    with pytest.raises(ConfigError):
        start()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_copied_partition_without_id_is_opened_and_gets_its_id_on_create(
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


# Deletion


def test_deleted_partition_is_renamed_at_once_and_removed_later(
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
    assert produce(manager.create(TP, ID, PLAIN), clock) == 0  # the name can be used again
    assert len(bytes(on_its_way)) == len(on_its_way)
    assert len(list(tmp_path.glob("orders-0.*-delete"))) == 1
    due = manager.tick(clock.now_ms(), clock.wall_ms())
    assert due <= clock.now_ms() + PLAIN.file_delete_delay_ms
    clock.advance(PLAIN.file_delete_delay_ms)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert list(tmp_path.glob("orders-0.*-delete")) == []


def test_file_in_place_of_a_partition_is_set_aside_and_removed(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    """The removal of the file took the data directory offline, long after the broker was ready."""
    manager = start()
    (tmp_path / "orders-0").write_text("")
    manager.create(TP, ID, PLAIN)
    clock.advance(DAY)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert manager.failed is None
    assert [path.name for path in tmp_path.glob("orders-0*")] == ["orders-0"]
    assert (tmp_path / "orders-0").is_dir()


def test_error_of_a_file_at_the_start_names_it(start: Start, tmp_path: Path) -> None:
    manager = start()
    manager.create(TP, ID, PLAIN)
    manager.close(clean=True)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").mkdir()
    with pytest.raises(ConfigError, match=r"cannot be opened: Is a directory: recovery-point-offset-checkpoint$"):
        start()


def test_intervals_of_zero_do_not_keep_the_loop_busy(start: Start, clock: ManualClock) -> None:
    settings = {"log_initial_task_delay_ms": 0, "log_cleaner_backoff_ms": 0}
    settings |= {"replica_high_watermark_checkpoint_interval_ms": 0, "log_flush_offset_checkpoint_interval_ms": 0}
    manager = start(**settings, log_flush_start_offset_checkpoint_interval_ms=0)
    clock.advance(1000)
    assert manager.tick(clock.now_ms(), clock.wall_ms()) >= clock.now_ms() + 10


def test_directory_of_a_deleted_partition_is_removed_after_a_crash(
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


# Maintenance


def test_tick_runs_due_tasks_and_returns_the_next_due_time(start: Start, tmp_path: Path, clock: ManualClock) -> None:
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
    assert not checkpoint.exists()  # unchanged, so not written
    produce(log, clock)
    clock.advance(5000)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert checkpoint.read_text() == "0\n1\norders 0 4\n"


def test_retention_deletes_old_segments(start: Start, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, LogConfig(retention_ms=DAY))
    produce(log, clock)
    log.roll(clock.wall_ms())
    clock.advance(DAY + 1)
    produce(log, clock)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (1, 2, 1)


def test_records_are_flushed_after_flush_ms(start: Start, clock: ManualClock) -> None:
    manager = start()
    log = manager.create(TP, ID, LogConfig(flush_ms=200))
    produce(log, clock, 3)
    due = manager.tick(clock.now_ms(), clock.wall_ms())
    assert log.recovery_point == 0
    assert due <= clock.now_ms() + 200
    clock.advance(due - clock.now_ms())
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert log.recovery_point == 3


def test_idle_producers_expire(start: Start, clock: ManualClock) -> None:
    manager = start(producer_id_expiration_ms=DAY)
    log = manager.create(TP, ID, PLAIN)
    produce(log, clock, producer_id=9, producer_epoch=0, base_sequence=0)
    clock.advance(DAY)
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert log.producers.producers == {}


def test_compaction_runs_in_steps_between_other_work(start: Start, clock: ManualClock) -> None:
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


# Disk errors


class FailingFiles(DiskFiles):
    """A disk on which atomic writes fail after `broken` is set."""

    broken = False
    code = errno.EIO

    def write_atomically(self, path: str, data: bytes) -> None:
        if self.broken:
            raise OSError(self.code, os.strerror(self.code), path)
        super().write_atomically(path, data)


def test_disk_error_takes_the_directory_offline_without_the_marker(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    files = FailingFiles()
    manager = start(files=files)
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    files.broken = True
    clock.advance(100_000)
    assert manager.tick(clock.now_ms(), clock.wall_ms()) == float("inf")
    assert manager.failed is not None
    assert "Input/output error" in manager.failed
    assert str(tmp_path) in manager.failed
    manager.fail("a later reason")
    assert "Input/output error" in manager.failed
    manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert start().logs[TP].log_end_offset == 3


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_maintenance_without_space_or_descriptors_is_tried_again(start: Start, clock: ManualClock, code: int) -> None:
    """The checkpoints only save time at the next start: no acknowledged record is at risk."""
    files = FailingFiles()
    files.code = code
    manager = start(files=files)
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    manager.logs[TP].flush()
    files.broken = True
    clock.advance(100_000)
    for _ in range(3):
        due_ms = manager.tick(clock.now_ms(), clock.wall_ms())
        assert due_ms == clock.now_ms() + 10_000
        clock.advance(100_000)
    assert manager.failed is None
    assert len([text for text in manager.reports if os.strerror(code) in text]) == 1
    files.broken = False
    manager.tick(clock.now_ms(), clock.wall_ms())
    assert read_offsets(files, manager.dir.join(RECOVERY_POINTS)) == {TP: 3}


def test_partition_whose_deletion_failed_is_empty_when_it_is_created_again(start: Start, clock: ManualClock) -> None:
    class Stubborn(FailingFiles):
        def rename(self, path: str, new_path: str) -> None:
            if self.broken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            super().rename(path, new_path)

    files = Stubborn()
    manager = start(files=files)
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    files.broken = True
    with pytest.raises(OSError, match="No space"):
        manager.delete(TP)
    assert TP not in manager.logs
    files.broken = False
    assert manager.create(TP, ID, PLAIN).log_end_offset == 0


def test_truncation_lowers_the_checkpoints_before_the_log_grows_again(
    start: Start, tmp_path: Path, clock: ManualClock
) -> None:
    manager = start()
    log = manager.create(TP, ID, PLAIN)
    for _ in range(10):
        produce(log, clock)
    log.delete_records(3)
    log.flush()
    manager.close()
    manager = start()
    manager.cleaner.cleaned_up_to[TP] = 9
    assert manager.truncate(TP, 6)
    assert not manager.truncate(TP, 6)
    manager.checkpoint_truncations()
    assert read_offsets(DiskFiles(), str(tmp_path / RECOVERY_POINTS)) == {TP: 6}
    assert read_offsets(DiskFiles(), str(tmp_path / LOG_START_OFFSETS)) == {TP: 3}
    assert read_offsets(DiskFiles(), str(tmp_path / HIGH_WATERMARKS)) == {TP: 6}
    assert read_offsets(DiskFiles(), str(tmp_path / CLEANER_CHECKPOINT)) == {TP: 6}
    manager.restart(TP, 2)  # below the old log start offset
    manager.checkpoint_truncations()
    log = manager.logs[TP]
    produce(log, clock)
    manager.close(clean=False)
    log = start().logs[TP]
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert read_offsets(DiskFiles(), str(tmp_path / CLEANER_CHECKPOINT)) == {}


def test_directory_that_was_copied_here_is_kept(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    manager = start()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "partition.metadata").mkdir()  # cannot be written
    with pytest.raises(OSError, match="directory"):
        manager.create(TP, ID, PLAIN)
    (tmp_path / "orders-0" / "partition.metadata").rmdir()
    (tmp_path / "orders-0" / "mine").write_text("x")
    manager.create(TP, ID, PLAIN)
    manager.tick(clock.now_ms() + DAY, clock.wall_ms())
    assert (tmp_path / "orders-0" / "mine").read_text() == "x"


def test_log_files_are_closed_when_no_descriptors_are_free(start: Start, clock: ManualClock) -> None:
    manager = start()
    logs = [manager.create(TopicPartition("t", number), ID, PLAIN) for number in range(5)]
    before = len(os.listdir("/proc/self/fd"))
    for log in logs:
        produce(log, clock, 1)
    assert len(os.listdir("/proc/self/fd")) == before + 5
    manager._files.release()
    assert len(os.listdir("/proc/self/fd")) == before
    for log in logs:
        produce(log, clock, 1)
        assert log.log_end_offset == 2


def test_failed_clean_shutdown_raises_and_releases_the_lock(start: Start, tmp_path: Path, clock: ManualClock) -> None:
    files = FailingFiles()
    manager = start(files=files)
    produce(manager.create(TP, ID, PLAIN), clock, 3)
    files.broken = True
    with pytest.raises(OSError, match="Input/output error"):
        manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert start().logs[TP].log_end_offset == 3
