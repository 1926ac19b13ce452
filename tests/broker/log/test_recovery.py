"""Recovery from crashes and damage. Where Apache Kafka 4.3.1 loses records, this broker intentionally differs."""

from __future__ import annotations

import os
import random
import struct
import zlib
from pathlib import Path

import pytest

from kcli.broker.log.log import Log
from kcli.broker.testing.memory_files import Fault, MemoryFiles
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from tests.broker.log.logs import NOW, Keeper, append, batch, fill, values

INDEXES = (".index", ".timeindex")


def crash(log: Log) -> None:
    """Like kill -9: written data is in the page cache, and nothing else happens."""
    log.close(clean=False)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


# ---- a crash ----


def test_crash_loses_no_appended_record(keeper: Keeper) -> None:
    log = keeper.open(clean=False)
    wanted = fill(log, 200)
    crash(log)
    log = keeper.open(clean=False)
    assert (log.log_end_offset, values(log)) == (200, wanted)
    assert keeper.reports == []
    assert append(log, b"next").base_offset == 200


def test_torn_tail_is_truncated_after_the_last_whole_batch_and_reported(keeper: Keeper) -> None:
    log = keeper.open()
    wanted = fill(log, 20)
    size = log.size_bytes
    crash(log)
    os.truncate(keeper.file(0), size - 37)
    log = keeper.open(clean=False)
    assert (log.log_end_offset, values(log)) == (19, wanted[:19])
    assert keeper.reported("it continues at offset 19")
    assert not keeper.reported("DATA WAS LOST")
    assert append(log, b"next").base_offset == 19


def test_log_truncated_at_any_byte_keeps_its_whole_batches(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 4, size=10)
    size = log.size_bytes
    crash(log)
    data = keeper.file(0).read_bytes()
    for length in range(size + 1):
        keeper.file(0).write_bytes(data[:length])
        log = keeper.open(clean=False)
        assert log.log_end_offset == length * 4 // size
        assert keeper.file(0).stat().st_size == length * 4 // size * size // 4
        assert bool(keeper.reports) == bool(length % (size // 4))
        crash(log)


@pytest.mark.parametrize("tail", [bytes(4096), random.Random(3).randbytes(300), b"\0" * 7])
@pytest.mark.parametrize("clean", [False, True])
def test_bytes_after_the_last_batch_are_truncated(keeper: Keeper, tail: bytes, clean: bool) -> None:
    log = keeper.open()
    wanted = fill(log, 20)
    log.close(clean=clean)
    with keeper.file(0).open("ab") as file:
        file.write(tail)
    log = keeper.open(clean=clean)
    assert (log.log_end_offset, values(log)) == (20, wanted)
    assert keeper.reported(f"{len(tail)} bytes were truncated")
    assert not keeper.reported("DATA WAS LOST")


def test_bit_flip_in_unflushed_data_truncates_there_and_reports_the_loss(keeper: Keeper) -> None:
    log = keeper.open()
    wanted = fill(log, 20)
    position = log.offset_metadata(7).position
    crash(log)
    flip(keeper.file(0), position + 90)
    log = keeper.open(clean=False)
    assert (log.log_end_offset, values(log)) == (7, wanted[:7])
    assert keeper.reported("DATA WAS LOST: whole batches up to offset 20")
    assert keeper.reported("the checksum of the batch at offset 7 is wrong")


@pytest.mark.parametrize("at", [0, 8, 11, 16, 23])  # offset, size (twice), format, last offset
def test_bit_flip_in_a_header_reports_the_batches_after_it(keeper: Keeper, at: int) -> None:
    log = keeper.open()
    fill(log, 20)
    position = log.offset_metadata(7).position
    crash(log)
    flip(keeper.file(0), position + at)
    log = keeper.open(clean=False)
    assert log.log_end_offset == 7
    assert keeper.reported("DATA WAS LOST: whole batches up to offset 20")


def test_a_replica_does_not_call_records_lost_that_its_leader_may_have(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 9)
    crash(log)
    flip(keeper.file(2), 90)
    keeper.open(clean=False, segment_bytes=500, is_replica=True)
    assert sum("are lost unless another replica has them" in report for report in keeper.reports) == 4
    assert not keeper.reported("DATA WAS LOST")


def test_segments_after_the_damage_are_removed_and_reported(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    crash(log)
    flip(keeper.file(2), 90)
    log = keeper.open(clean=False, segment_bytes=500)
    assert (log.log_end_offset, values(log)) == (2, wanted[:2])
    assert sum("DATA WAS LOST" in report for report in keeper.reports) == 4
    assert not keeper.file(4).exists()
    assert append(log, b"next").base_offset == 2


def test_only_segments_from_the_recovery_point_on_are_checked(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 9)
    crash(log)
    flip(keeper.file(2), 90)
    log = keeper.open(clean=False, segment_bytes=500, recovery_point=8)
    assert log.log_end_offset == 9
    assert log.recovery_point == 8
    assert keeper.reports == []


def test_recovery_point_beyond_the_log_end_is_lowered(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 3)
    crash(log)
    assert keeper.open(clean=False, recovery_point=50).recovery_point == 3


def test_large_batches_are_checked_completely(keeper: Keeper) -> None:
    log = keeper.open(max_message_bytes=10_000_000)
    wanted = fill(log, 30, size=70_000) + fill(log, 1, start=30, size=3_000_000) + fill(log, 3, start=31, size=70_000)
    crash(log)
    log = keeper.open(clean=False, max_message_bytes=10_000_000)
    assert (log.log_end_offset, keeper.reports) == (34, [])
    assert values(log) == wanted
    position = log.offset_metadata(30).position
    crash(log)
    flip(keeper.file(0), position + 2_900_000)
    assert keeper.open(clean=False).log_end_offset == 30


def test_epochs_of_truncated_and_deleted_records_are_removed(keeper: Keeper) -> None:
    log = keeper.open()
    for epoch in range(4):
        append(log, b"%d" % epoch, leader_epoch=epoch)
    size = log.size_bytes
    crash(log)
    os.truncate(keeper.file(0), size - 1)
    log = keeper.open(clean=False, log_start_offset=1)
    assert log.epochs.entries == ((1, 1), (2, 2))


def test_decreasing_offsets_are_damage(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 3)
    crash(log)
    with keeper.file(0).open("ab") as file:
        file.write(build_batch([NewRecord(None, b"again", NOW)], base_offset=1))
    assert keeper.open(clean=False).log_end_offset == 3
    assert keeper.reported("the offset 1 cannot follow the offset 2")


def test_record_formats_0_and_1_are_refused_and_not_changed(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 1)
    crash(log)
    # A message of format 1, value "old", as Kafka 0.10.2 wrote it.
    message = bytes.fromhex("0100") + (NOW).to_bytes(8, "big") + bytes.fromhex("ffffffff00000003") + b"old"
    crc = zlib.crc32(message).to_bytes(4, "big")
    with keeper.file(0).open("ab") as file:
        file.write((1).to_bytes(8, "big") + (len(message) + 4).to_bytes(4, "big") + crc + message)
    before = keeper.file(0).read_bytes()
    for clean in (False, True):
        with pytest.raises(CorruptRecords, match="format 1"):
            keeper.open(clean=clean)
    assert keeper.file(0).read_bytes() == before


def test_later_leader_epoch_is_recovered_from_batches_after_a_crash(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", leader_epoch=0)
    append(log, b"b", leader_epoch=4)
    crash(log)
    (keeper.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    log = keeper.open(clean=False)
    assert log.end_offset_for_epoch(0) == (0, 1)
    assert log.epochs.latest_epoch == 4


# ---- indexes ----


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kinds", [(".index",), (".timeindex",), INDEXES])
def test_missing_indexes_are_rebuilt(keeper: Keeper, kinds: tuple[str, ...], clean: bool) -> None:
    log = keeper.open(index_interval_bytes=0, segment_bytes=2000)
    wanted = fill(log, 30, time_step_ms=5)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=clean)
    before = {
        (base, kind): keeper.file(base, kind).read_bytes()
        for base in bases
        for kind in INDEXES
        if keeper.file(base, kind).exists()
    }
    for base in bases:
        for kind in kinds:
            keeper.file(base, kind).unlink(missing_ok=True)
    log = keeper.open(clean=clean, index_interval_bytes=0, segment_bytes=2000)
    assert (log.log_end_offset, values(log)) == (30, wanted)
    for (base, kind), data in before.items():
        assert keeper.file(base, kind).read_bytes() == data
    assert clean == keeper.reported("was rebuilt")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", INDEXES)
def test_random_index_contents_hide_no_record_after_a_clean_shutdown(keeper: Keeper, kind: str, seed: int) -> None:
    """Apache Kafka 4.3.1 assigned offset 2148 twice here, and later lost 852 acknowledged records."""
    log = keeper.open(index_interval_bytes=0, segment_bytes=2000)
    wanted = fill(log, 30, time_step_ms=5)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    noise = random.Random(seed)
    for base in bases:
        keeper.file(base, kind).write_bytes(noise.randbytes(keeper.file(base, kind).stat().st_size))
    log = keeper.open(index_interval_bytes=0, segment_bytes=2000)
    assert log.log_end_offset == 30
    assert keeper.reported("was rebuilt")
    assert append(log, b"next").base_offset == 30
    assert values(log) == [*wanted, b"next"]
    for offset in range(30):
        assert log.offset_for_timestamp(NOW + 5 * offset) == (offset, NOW + 5 * offset, 0)


@pytest.mark.parametrize("damage", ["truncated", "emptied", "odd length", "too long", "another's", "shifted", "zeroed"])
@pytest.mark.parametrize("base", [0, 16])
def test_plausible_but_wrong_index_is_rebuilt(keeper: Keeper, damage: str, base: int) -> None:
    log = keeper.open(index_interval_bytes=0, segment_bytes=2800)
    wanted = fill(log, 30, time_step_ms=5)
    assert [segment.base_offset for segment in log.segments] == [0, 16]
    log.close()
    path = keeper.file(base, ".index")
    data = path.read_bytes()
    spoiled = {
        "truncated": data[: len(data) // 16 * 8],
        "emptied": b"",
        "odd length": data[:-3],
        "too long": data + data[-8:],
        "another's": keeper.file(16 - base, ".index").read_bytes() + b"\0\0\0\x40\0\0\x40\0",
        "shifted": data[8:] + b"\0\0\0\x40\x7f\0\0\0",
        "zeroed": bytes(len(data)),
    }[damage]
    path.write_bytes(spoiled)
    log = keeper.open(index_interval_bytes=0, segment_bytes=2800)
    assert (log.log_end_offset, values(log)) == (30, wanted)
    assert [values(log, offset)[0] for offset in range(30)] == wanted


def test_wrong_entry_in_the_middle_is_detected_at_its_first_use(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=0)
    wanted = fill(log, 30)
    log.close()
    data = bytearray(keeper.file(0, ".index").read_bytes())
    data[8 * 10 + 7] ^= 1  # the position of one entry; the entries are still in order
    keeper.file(0, ".index").write_bytes(data)
    log = keeper.open(index_interval_bytes=0)
    assert keeper.reports == []
    assert [values(log, offset)[0] for offset in range(30)] == wanted
    assert keeper.reported("was rebuilt: it does not match the log")


@pytest.mark.parametrize("preallocated", [10 * 1024 * 1024, 4096])
def test_preallocated_indexes_with_trailing_zeros_are_valid(keeper: Keeper, preallocated: int) -> None:
    log = keeper.open(index_interval_bytes=0)
    wanted = fill(log, 30, time_step_ms=1)
    log.close()
    for kind, entry in ((".index", 8), (".timeindex", 12)):
        os.truncate(keeper.file(0, kind), preallocated // entry * entry)
    log = keeper.open(index_interval_bytes=0)
    assert (values(log), keeper.reports) == (wanted, [])
    append(log, b"next")
    log.close()
    assert keeper.file(0, ".index").stat().st_size == 30 * 8


def test_time_index_without_its_last_entry_is_rebuilt(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=0)
    fill(log, 30, time_step_ms=5)
    log.close()
    os.truncate(keeper.file(0, ".timeindex"), keeper.file(0, ".timeindex").stat().st_size - 12)
    log = keeper.open(index_interval_bytes=0)
    assert log.max_timestamp() == (29, NOW + 145, 0)
    assert keeper.reported("the time index ends too early")


def test_emptied_index_of_a_large_segment_is_rebuilt(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 60, size=30_000, time_step_ms=-1)
    log.close()
    keeper.file(0, ".index").write_bytes(b"")
    keeper.open()
    assert keeper.reported("it ends too early")
    assert keeper.file(0, ".index").stat().st_size > 0


def test_one_index_entry_for_many_batches_is_valid(keeper: Keeper) -> None:
    """Kafka's cleaner writes such entries: the position of the first of many batches, the offset of the last."""
    log = keeper.open()
    wanted = fill(log, 30)
    positions = [log.offset_metadata(offset).position for offset in range(30)]
    log.close()
    entries = [(19, positions[10]), (29, positions[20])]
    keeper.file(0, ".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    log = keeper.open()
    assert [values(log, offset)[0] for offset in range(30)] == wanted
    assert keeper.reports == []


def test_wrong_last_entry_is_detected_at_the_start(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=300)
    for number in range(30):
        append(log, b"%d" % number, time_ms=-1)
    log.close()
    data = bytearray(keeper.file(0, ".index").read_bytes())
    data[-5] -= 1  # the offset, by one
    keeper.file(0, ".index").write_bytes(data)
    keeper.open(index_interval_bytes=300)
    assert keeper.reported("it does not match the log")


@pytest.mark.parametrize("damaged", [[0], [0, 1, 2], [15], [15, 17], [28]])
@pytest.mark.parametrize("index", ["kept", "missing"])
def test_damaged_header_after_a_clean_shutdown_loses_only_that_record(
    keeper: Keeper, damaged: list[int], index: str
) -> None:
    """Flushed records after a bit flip are not truncated, not even after a later crash."""
    log = keeper.open()
    wanted = fill(log, 30)
    positions = [log.offset_metadata(number).position for number in damaged]
    log.close()
    for position in positions:
        flip(keeper.file(0), position + 16)
    if index == "missing":
        keeper.file(0, ".index").unlink()
    log = keeper.open()
    assert append(log, b"next").base_offset == 30
    assert not keeper.reported("truncated")
    log.close(clean=False)
    log = keeper.open(clean=False, recovery_point=30)
    assert keeper.reported("records there cannot be read")
    assert not keeper.reported("truncated")
    assert values(log, 30) == [b"next"]
    assert values(log, damaged[-1] + 1) == [*wanted[damaged[-1] + 1 :], b"next"]
    with pytest.raises(BrokerError):
        log.read(damaged[0], 100, upto=31, min_one_message=True)


def test_damage_truncates_only_after_the_recovery_point(keeper: Keeper) -> None:
    log = keeper.open()
    wanted = fill(log, 30)
    positions = [log.offset_metadata(number).position for number in (5, 20)]
    crash(log)
    for position in positions:
        flip(keeper.file(0), position + 90)
    log = keeper.open(clean=False, recovery_point=10)
    assert log.log_end_offset == 20
    assert keeper.reported("DATA WAS LOST: whole batches up to offset 30")
    assert values(log, 6) == wanted[6:20]


@pytest.mark.parametrize("at", [0, 23])  # the signs of the base offset and of the last offset delta
def test_last_batch_with_invalid_offsets_is_truncated(keeper: Keeper, at: int) -> None:
    log = keeper.open()
    fill(log, 30)
    position = log.offset_metadata(29).position
    log.close()
    data = bytearray(keeper.file(0).read_bytes())
    data[position + at] ^= 0x80
    keeper.file(0).write_bytes(data)
    assert keeper.open().log_end_offset == 29
    assert keeper.reported("are not valid offsets of a batch")


def test_torn_tail_is_truncated_after_a_clean_shutdown_despite_earlier_damage(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 30)
    position, size = log.offset_metadata(7).position, log.size_bytes
    log.close()
    flip(keeper.file(0), position + 16)
    os.truncate(keeper.file(0), size - 37)
    log = keeper.open()
    assert append(log, b"next").base_offset == 29
    assert keeper.reported("truncated")
    assert not keeper.reported("DATA WAS LOST")
    assert len(values(log, 8)) == 22


def test_index_entry_of_a_later_batch_hides_no_record(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=0)
    wanted = fill(log, 30)
    log.close()
    data = keeper.file(0, ".index").read_bytes()
    entries = [data[at : at + 8] for at in range(0, len(data), 8)]
    entries[10:12] = [entries[10][:4] + entries[11][4:]]
    keeper.file(0, ".index").write_bytes(b"".join(entries))
    log = keeper.open(index_interval_bytes=0)
    assert keeper.reports == []
    assert [values(log, offset)[0] for offset in range(30)] == wanted
    assert keeper.reported("it does not match the log")


def test_time_index_entry_of_another_batch_is_detected(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=0)
    fill(log, 30, time_step_ms=5)
    log.close()
    data = bytearray(keeper.file(0, ".timeindex").read_bytes())
    data[-5] += 1  # the last timestamp
    keeper.file(0, ".timeindex").write_bytes(data)
    assert keeper.open(index_interval_bytes=0).max_timestamp() == (29, NOW + 145, 0)
    assert keeper.reported("the time index does not match the log")


# ---- other files: missing, damaged, foreign ----


def test_missing_log_file_leaves_a_reported_offset_gap(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    log.close()
    keeper.file(4).unlink()
    log = keeper.open(segment_bytes=500)
    assert values(log) == wanted[:4] + wanted[6:]
    assert values(log, 4) == wanted[6:]
    assert keeper.reported("its log file and records are missing")
    assert not keeper.file(4, ".index").exists()


def test_restarts_do_not_accumulate_snapshots(keeper: Keeper) -> None:
    for number in range(4):
        log = keeper.open()
        append(log, b"x", producer_id=9, producer_epoch=0, base_sequence=number)
        log.close()
    keeper.open()
    assert [path.name for path in keeper.path.glob("*.snapshot")] == ["00000000000000000004.snapshot"]


def test_producers_are_read_from_the_log_without_a_snapshot(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    log.close()
    for path in keeper.path.glob("*.snapshot"):
        path.unlink()
    log = keeper.open()
    with pytest.raises(BrokerError) as refused:
        append(log, b"c", producer_id=5, producer_epoch=0, base_sequence=7)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_leader_epochs_are_read_from_the_log_without_a_valid_checkpoint(keeper: Keeper, damage: str) -> None:
    log = keeper.open()
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=4)
    log.close()
    path = keeper.path / "leader-epoch-checkpoint"
    before = path.read_bytes()
    path.unlink() if damage == "missing" else path.write_bytes(b"\xff\xfe garbage")
    log = keeper.open()
    assert path.read_bytes() == before
    assert bool(keeper.reported(f"{path} is damaged")) == (damage == "garbage")
    assert log.end_offset_for_epoch(1) == (1, 1)
    assert log.epochs.latest_epoch == 4


def test_log_that_ends_before_its_start_offset_restarts_empty_and_is_reported(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 5)
    log.close()
    log = keeper.open(log_start_offset=9)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert keeper.reported("before its log start offset")
    assert append(log, b"next").base_offset == 9


def test_log_continues_at_its_empty_newest_segment(keeper: Keeper) -> None:
    for clean in (True, False):
        log = keeper.open(clean=clean)
        end = append(log, b"a").base_offset + 1
        log.roll(NOW)
        log.close(clean=clean)
        log = keeper.open(clean=clean)
        assert (log.log_end_offset, log.active_segment.base_offset) == (end, end) if clean else (end, end - 1)
        log.close(clean=clean)


def test_empty_directory_is_an_empty_log(keeper: Keeper) -> None:
    log = keeper.open(clean=False)
    assert (log.log_start_offset, log.log_end_offset, keeper.reports) == (0, 0, [])
    log.close()
    assert keeper.open().log_end_offset == 0


def test_bit_flip_in_an_old_segment_is_served_after_a_clean_shutdown(keeper: Keeper) -> None:
    """As in Apache Kafka: nothing is checked after a clean shutdown, and consumers detect the wrong checksum."""
    log = keeper.open(segment_bytes=500)
    fill(log, 9)
    log.close()
    flip(keeper.file(2), 90)
    log = keeper.open(segment_bytes=500)
    assert keeper.reports == []
    read = log.read(2, 10_000, upto=9, min_one_message=True)
    assert read.records is not None
    assert bytes(read.records) == keeper.file(2).read_bytes()


def test_damaged_header_in_an_old_segment_is_a_read_error(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 9)
    log.close()
    flip(keeper.file(2), 16)
    log = keeper.open(segment_bytes=500)
    reports = []
    for _ in range(3):
        with pytest.raises(BrokerError) as refused:
            log.read(2, 10_000, upto=9, min_one_message=True)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
        reports.append(list(keeper.reports))
    assert keeper.reported("is damaged")
    assert reports[0] == reports[2]
    assert len(values(log, 3)) == 6
    assert len(values(log, 4)) == 5


# ---- interrupted compactions and deletions ----


def test_files_of_an_interrupted_deletion_are_removed(keeper: Keeper) -> None:
    log = keeper.open()
    wanted = fill(log, 3)
    log.close()
    for name in (
        "00000000000000000000.log.deleted",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000009.index.deleted",
    ):
        (keeper.path / name).write_bytes(b"x")
    log = keeper.open()
    assert values(log) == wanted
    assert not [name for name in keeper.names if name.endswith((".deleted", ".tmp"))]


def test_foreign_files_are_not_touched(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 3)
    log.close()
    for name in ("notes.txt", "partition.metadata", "123.log"):
        (keeper.path / name).write_bytes(b"x")
    keeper.open()
    assert {"notes.txt", "partition.metadata", "123.log"} <= set(keeper.names)


def _compact(log: Log, count: int) -> None:
    """Merge the first segments into one with every other record."""
    old = log.segments[:count]
    cleaned = log.create_cleaned(old[0].base_offset)
    for segment in old:
        for _, info in segment.batches(bodies=True):
            if info.base_offset % 2 == 0:
                cleaned.append([info], bytes(info.records))
    log.replace_segments(cleaned, old)


def test_compacted_segment_replaces_others(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    _compact(log, 3)
    kept = wanted[0:6:2] + wanted[6:]
    assert values(log) == kept
    assert values(log, 1) == kept[1:]
    assert values(log, 5) == wanted[6:]
    for clean in (True, False):
        log.close(clean=clean)
        log = keeper.open(clean=clean, segment_bytes=500)
        assert (values(log), keeper.reports) == (kept, [])


@pytest.mark.parametrize("operation", ["rename", "remove", "sync_dir", "append", "open", "truncate", "sync"])
def test_crash_at_any_step_of_a_compaction_leaves_the_old_or_the_new_records(operation: str) -> None:
    outcomes = set()
    for skip in range(60):
        files = MemoryFiles()
        keeper = Keeper("/data/orders-0", files)
        log = keeper.open(segment_bytes=500)
        wanted = fill(log, 9)
        kept = wanted[0:6:2] + wanted[6:]
        files.faults.append(Fault(operation, skip=skip, times=10**6))
        try:
            _compact(log, 3)
        except OSError:
            files.faults.clear()
            log = keeper.open(clean=False, segment_bytes=500)
            assert values(log) in (wanted, kept)
            assert not [name for name in keeper.names if name.endswith((".cleaned", ".swap"))]
            outcomes.add(values(log) == kept)
        else:
            break
    else:
        pytest.fail("the compaction never came to its end")
    assert outcomes


@pytest.mark.parametrize("clean", [True, False])
def test_started_swap_is_completed_and_unstarted_one_is_rolled_back(keeper: Keeper, clean: bool) -> None:
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    log.close(clean=clean)
    old = {base: keeper.file(base).read_bytes() for base in (0, 2, 4)}
    log = keeper.open(clean=clean, segment_bytes=500)
    _compact(log, 3)
    log.close(clean=clean)
    new = keeper.file(0).read_bytes()
    for base, data in old.items():
        keeper.file(base).write_bytes(data)
    keeper.file(0, ".log.cleaned").write_bytes(new)
    assert values(keeper.open(clean=clean, segment_bytes=500)) == wanted
    assert keeper.reported("was rolled back")
    keeper.file(0, ".log.swap").write_bytes(new)
    assert values(keeper.open(clean=clean, segment_bytes=500)) == wanted[0:6:2] + wanted[6:]
    assert keeper.reported("was completed")
    assert not keeper.file(2).exists()


def test_swap_files_after_a_cleaned_file_are_rolled_back(keeper: Keeper) -> None:
    """`.swap` files from the offset of a `.cleaned` file on belong to the same incomplete compaction."""
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    log.close()
    keeper.file(2, ".log.swap").write_bytes(b"")
    keeper.file(0, ".log.cleaned").write_bytes(b"")
    assert values(keeper.open(segment_bytes=500)) == wanted


def test_invalid_replacement_raises_value_error(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 9)
    cleaned = log.create_cleaned(0)
    with pytest.raises(ValueError, match="adjacent"):
        log.replace_segments(cleaned, log.segments[-2:])
    cleaned.remove()
    assert not keeper.file(0, ".log.cleaned").exists()


@pytest.mark.parametrize("before", [0, 4096 - 61 - 72])  # within one read block, and across two
def test_control_batches_are_read_with_their_records(keeper: Keeper, before: int) -> None:
    """An abort marker of Apache Kafka; its value has a version and coordinator epoch 3."""
    log = keeper.open()
    append(log, b"x" * before)
    marker = batch(
        b"\0\0\0\0\0\x03", key=b"\0\0\0\0", producer_id=5, producer_epoch=1, transactional=True, control=True
    )
    log.append(marker, leader_epoch=0, now_wall_ms=NOW, from_client=False)
    crash(log)
    log = keeper.open(clean=False)
    assert log.producers.producers[5].coordinator_epoch == 3
