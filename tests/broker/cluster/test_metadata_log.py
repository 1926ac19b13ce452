"""The metadata log on disk: epochs, atomic batches, recovery, transactions, snapshots, and diverged replicas."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from kcli.broker.cluster.metadata_log import MAX_BATCH_RECORDS, Divergence, MetadataLog, SnapshotId
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from kcli.errors import ConfigError, CorruptRecords
from kcli.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kcli.protocol.records.batch import read_batch_info

NOW = 1_795_000_000_000
LOG = "/data/__cluster_metadata-0/"
QUORUM = [KRaftVersionRecord(kraft_version=1), VotersRecord()]


class Disk:
    """A directory in memory, and the log in it."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.reports: list[str] = []
        self.files.make_dir("/data")
        self.log = self.open()

    def open(self) -> MetadataLog:
        return MetadataLog("/data", self.files, now_wall_ms=NOW, report=self.reports.append)

    def reopen(self, *, clean: bool = True) -> MetadataLog:
        self.log.close(clean=clean)
        self.log = self.open()
        return self.log

    def replayed(self) -> list[tuple[Any, int]]:
        found: list[tuple[Any, int]] = []
        self.log.replay(lambda record, offset: found.append((record, offset)))
        return found

    def levels(self) -> list[int]:
        """Return the levels of the features in the replayed records."""
        return [record.feature_level for record, _ in self.replayed() if isinstance(record, FeatureLevelRecord)]


@pytest.fixture
def disk() -> Disk:
    return Disk()


def level(number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="x", feature_level=number)


@pytest.mark.parametrize("clean", [True, False])
def test_records_are_replayed_with_their_offsets_after_a_start(disk: Disk, clean: bool) -> None:
    change = LeaderChangeMessage(leader_id=1)
    assert disk.log.append([change], 1, NOW) == 0
    assert disk.log.append([level(1), level(2)], 1, NOW) == 1
    disk.reopen(clean=clean)

    assert disk.replayed() == [(change, 0), (level(1), 1), (level(2), 2)]
    assert (disk.log.end_offset, disk.log.last_epoch) == (3, 1)


def test_a_batch_that_was_not_written_whole_is_removed_at_the_start(disk: Disk) -> None:
    disk.log.append([level(1)], 1, NOW)
    disk.log.append([level(2), level(3)], 1, NOW)
    segment = disk.files.data(LOG + "00000000000000000000.log")
    del segment[-1:]
    disk.reopen(clean=False)

    assert disk.levels() == [1]
    assert disk.log.append([level(4)], 2, NOW) == 1


def test_a_batch_that_cannot_be_written_changes_nothing(disk: Disk) -> None:
    disk.log.append([level(1)], 1, NOW)
    disk.files.faults.append(Fault("append", ".log", errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        disk.log.append([level(2), level(3)], 1, NOW)

    assert disk.log.append([level(4)], 1, NOW) == 1
    assert disk.levels() == [1, 4]


def test_appended_records_survive_a_power_loss(disk: Disk) -> None:
    disk.files.sync_dir("/data")
    disk.log.append([level(1)], 1, NOW)
    disk.log.append([level(2)], 1, NOW)
    disk.files = disk.files.after_power_loss()
    disk.log = disk.open()

    assert disk.levels() == [1, 2]


def test_each_start_begins_a_higher_epoch(disk: Disk) -> None:
    assert disk.log.begin_epoch(3000) == 1
    assert disk.log.begin_epoch(3000) == 2
    state = json.loads(disk.files.read_bytes(LOG + "quorum-state"))
    assert (state["leaderId"], state["leaderEpoch"], state["data_version"]) == (3000, 2, 1)

    disk.log.append([level(1)], 7, NOW)
    disk.files.remove(LOG + "quorum-state")  # the log knows an epoch, too
    assert disk.reopen().begin_epoch(3000) == 8


@pytest.mark.parametrize(
    "data", [b"{", b"[1]", b'{"leaderEpoch":"x"}', b'{"leaderEpoch":-1}', b'{"leaderEpoch":2147483647}', b"[" * 10**5]
)
def test_a_damaged_quorum_state_is_an_error_that_names_the_file(disk: Disk, data: bytes) -> None:
    disk.files.write_atomically(LOG + "quorum-state", data)
    with pytest.raises(ConfigError, match="quorum-state is not JSON with a valid leaderEpoch"):
        disk.log.begin_epoch(3000)


def test_records_of_a_transaction_apply_together_or_not_at_all(disk: Disk) -> None:
    disk.log.append([BeginTransactionRecord(), level(1)], 1, NOW)
    disk.log.append([level(2), EndTransactionRecord()], 1, NOW)
    disk.log.append([BeginTransactionRecord(), level(3), AbortTransactionRecord(), level(4)], 1, NOW)
    assert disk.log.replay(lambda record, offset: None) is False
    disk.log.append([BeginTransactionRecord(), level(5)], 1, NOW)

    assert disk.log.replay(lambda record, offset: None) is True
    assert disk.levels() == [1, 2, 4]


def test_very_many_records_are_several_batches(disk: Disk) -> None:
    assert disk.log.append([level(0)] * (MAX_BATCH_RECORDS + 1), 1, NOW) == 0

    first = read_batch_info(bytes(disk.log.read(0, 1) or b""))
    assert (first.last_offset, disk.log.end_offset) == (MAX_BATCH_RECORDS - 1, MAX_BATCH_RECORDS + 1)


def test_a_part_of_very_many_records_that_cannot_be_written_is_a_failure(disk: Disk) -> None:
    disk.files.faults.append(Fault("append", ".log", errno.ENOSPC, skip=1))
    with pytest.raises(OSError, match="No space") as failure:
        disk.log.append([level(0)] * (MAX_BATCH_RECORDS + 1), 1, NOW)

    assert failure.value.errno == errno.EIO


def test_a_new_file_whose_name_cannot_be_stored_takes_no_records(disk: Disk) -> None:
    """Otherwise they were in the log, and it must not go on as if they had been refused."""
    disk.log.append([level(0)], 1, NOW)
    disk.log.write_snapshot(QUORUM, [level(0)], NOW)
    disk.files.faults.append(Fault("sync_dir", LOG[:-1], errno.EMFILE, times=2))
    with pytest.raises(OSError, match="Too many open files"):
        disk.log.append([level(1)], 1, NOW)

    assert disk.log.end_offset == 1
    assert disk.log.append([level(2)], 1, NOW) == 1


def test_records_that_cannot_be_flushed_are_a_failure(disk: Disk) -> None:
    """They are in the log, so it must not go on as if they had been refused."""
    disk.log.append([level(0)], 1, NOW)
    disk.files.faults.append(Fault("sync", ".log", errno.ENOSPC))
    with pytest.raises(OSError, match="No space") as failure:
        disk.log.append([level(1)], 1, NOW)

    assert failure.value.errno == errno.EIO


# ---- snapshots ----


def with_snapshots(disk: Disk, count: int) -> list[SnapshotId]:
    """Write ten records and a snapshot of the last one, `count` times."""
    taken = []
    for epoch in range(1, count + 1):
        disk.log.append([level(epoch * 10 + number) for number in range(10)], epoch, NOW)
        snapshot = disk.log.write_snapshot(QUORUM, [level(epoch * 10 + 9)], NOW)
        assert snapshot is not None
        taken.append(snapshot)
    return taken


def test_a_start_replays_the_newest_snapshot_and_what_follows_it(disk: Disk) -> None:
    assert with_snapshots(disk, 2) == [SnapshotId(10, 1), SnapshotId(20, 2)]
    disk.log.append([level(99)], 2, NOW)
    disk.reopen()

    assert disk.levels() == [29, 99]
    header, *middle, footer, last = disk.replayed()
    assert header == (SnapshotHeaderRecord(last_contained_log_timestamp=NOW), 19)
    assert middle == [*((one, 19) for one in QUORUM), (level(29), 19)]
    assert footer == (SnapshotFooterRecord(), 19)
    assert last == (level(99), 20)


def test_a_snapshot_of_the_same_records_is_not_written_again(disk: Disk) -> None:
    with_snapshots(disk, 1)
    assert disk.log.write_snapshot(QUORUM, [], NOW) is None
    assert disk.log.bytes_since_snapshot == 0


def test_records_before_the_last_two_snapshots_are_removed(disk: Disk) -> None:
    taken = with_snapshots(disk, 4)
    assert disk.log.snapshots == taken[2:]
    assert disk.log.start_offset == taken[2].end_offset == 30
    names = [name for name in disk.files.list(LOG[:-1]) if name.endswith((".log", ".checkpoint"))]
    assert names == [
        "00000000000000000030-0000000003.checkpoint",
        "00000000000000000030.log",
        "00000000000000000040-0000000004.checkpoint",
    ]

    assert disk.reopen(clean=False).start_offset == 30
    assert disk.levels() == [49]


def test_a_damaged_snapshot_is_an_error(disk: Disk) -> None:
    (snapshot,) = with_snapshots(disk, 1)
    disk.files.data(LOG + snapshot.file_name)[-1] ^= 1

    with pytest.raises(CorruptRecords, match=f"{snapshot.file_name} is damaged"):
        disk.replayed()


@pytest.mark.parametrize("batches", [0, 1])
def test_a_snapshot_without_its_end_is_an_error(disk: Disk, batches: int) -> None:
    (snapshot,) = with_snapshots(disk, 1)
    data = disk.files.data(LOG + snapshot.file_name)
    del data[batches * read_batch_info(data).size :]

    with pytest.raises(CorruptRecords, match=f"{snapshot.file_name} is damaged: its last records are missing"):
        disk.replayed()


@pytest.mark.parametrize("clean", [True, False])
def test_damage_before_other_records_is_an_error_and_changes_nothing(disk: Disk, clean: bool) -> None:
    for number in range(3):
        disk.log.append([level(number)], 1, NOW)
    disk.log.close(clean=clean)
    segment = disk.files.data(LOG + "00000000000000000000.log")
    segment[-len(segment) // 3 - 1] ^= 1
    damaged = bytes(segment)

    with pytest.raises(CorruptRecords, match=r"0\.log is damaged at byte .* restore the file"):
        disk.open()
    assert disk.files.data(LOG + "00000000000000000000.log") == damaged
    segment[-len(segment) // 3 - 1] ^= 1
    disk.log = disk.open()
    assert disk.levels() == [0, 1, 2]


def test_damage_in_a_segment_before_others_is_an_error(disk: Disk) -> None:
    with_snapshots(disk, 1)
    disk.log.append([level(99)], 2, NOW)
    disk.log.close(clean=False)
    del disk.files.data(LOG + "00000000000000000000.log")[-1:]

    with pytest.raises(CorruptRecords, match=r"0\.log is damaged"):
        disk.open()


def test_a_log_that_ends_before_its_snapshot_begins_again_there(disk: Disk) -> None:
    *_, snapshot = with_snapshots(disk, 2)
    disk.log.close(clean=False)
    for name in disk.files.list(LOG[:-1]):
        if name.endswith(".log"):
            disk.files.remove(LOG + name)
    disk.log = disk.open()

    assert "ends at offset 0, before its snapshot" in disk.reports[-1]
    assert (disk.log.start_offset, disk.log.end_offset, disk.log.last_epoch) == (20, 20, 2)
    assert disk.log.append([level(99)], 3, NOW) == 20
    assert disk.levels() == [29, 99]
    assert disk.log.check(20, 2) is None
    assert disk.log.check(15, 2) == snapshot
    disk.reopen(clean=False)
    assert disk.levels() == [29, 99]


def test_sections_of_a_snapshot_join_to_its_file(disk: Disk) -> None:
    (snapshot,) = with_snapshots(disk, 1)
    whole = disk.files.read_bytes(LOG + snapshot.file_name)
    read = bytearray()
    while len(read) < len(whole):
        section, size = disk.log.read_snapshot(snapshot, len(read), 50) or pytest.fail("there is no snapshot")
        assert size == len(whole)
        assert 0 < len(section) <= 50
        read += bytes(section)

    assert read == whole
    assert disk.log.read_snapshot(SnapshotId(10, 2), 0, 50) is None


def test_the_bootstrap_snapshot_is_not_replicated(disk: Disk) -> None:
    disk.log.write_bootstrap([level(1)], QUORUM, NOW)
    assert disk.files.exists(LOG + "00000000000000000000-0000000000.checkpoint")
    assert disk.files.exists("/data/bootstrap.checkpoint")

    assert disk.reopen().latest_snapshot is None
    assert disk.log.read_snapshot(SnapshotId(0, 0), 0, 1000) is None
    assert disk.replayed() == []


# ---- replicas ----


@pytest.mark.parametrize(
    ("offset", "epoch", "obstacle"),
    [
        (0, 0, None),
        (3, 1, None),
        (5, 1, None),  # the end of epoch 1
        (6, 2, None),
        (10, 4, None),
        (6, 1, Divergence(1, 5)),  # it has records that epoch 1 did not get
        (11, 4, Divergence(4, 10)),
        (8, 3, Divergence(2, 7)),  # there was no epoch 3
    ],
)
def test_a_replica_goes_on_unless_its_log_diverges(
    disk: Disk, offset: int, epoch: int, obstacle: Divergence | None
) -> None:
    disk.log.append([level(number) for number in range(5)], 1, NOW)
    disk.log.append([level(number) for number in range(2)], 2, NOW)
    disk.log.append([level(number) for number in range(3)], 4, NOW)

    assert disk.log.check(offset, epoch) == obstacle


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (29, 3), (30, 2), (35, 2)])
def test_a_replica_without_the_records_that_are_gone_reads_the_snapshot(disk: Disk, offset: int, epoch: int) -> None:
    with_snapshots(disk, 4)

    assert disk.log.check(offset, epoch) == SnapshotId(40, 4)
    assert disk.log.check(30, 3) is None
    assert disk.log.check(40, 4) is None


def test_a_read_returns_whole_batches(disk: Disk) -> None:
    disk.log.append([level(1)], 1, NOW)
    disk.log.append([level(2)], 1, NOW)
    first = bytes(disk.log.read(0, 1) or b"")
    both = bytes(disk.log.read(0, 10_000) or b"")

    assert both.startswith(first)
    assert len(both) == 2 * len(first)
    assert disk.log.read(2, 10_000) is None
