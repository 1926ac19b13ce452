"""Log: appends, reads, rolling, DeleteRecords and flushes, with the limits of Apache Kafka 4.3.1."""

from __future__ import annotations

import os

import pytest

from kcli.broker.log import validator
from kcli.broker.log.log import Log
from kcli.broker.log.producer_checks import NOT_VERIFIED
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.records.scan import iter_records
from tests.broker.log.logs import NOW, Keeper, append, batch, fill, scan, values, whole_batches


def test_appended_records_get_the_next_offsets(keeper: Keeper) -> None:
    log = keeper.open()
    first, second = append(log, b"a", b"b"), append(log, b"c")
    assert (first.base_offset, first.last_offset, second.base_offset, second.last_offset) == (0, 1, 2, 2)
    assert (first.log_append_time_ms, first.log_start_offset) == (-1, 0)
    assert [(record.offset, record.value) for record in scan(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_append_does_not_move_the_high_watermark_and_reads_stop_at_it(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a")
    log.append(batch(b"b"), leader_epoch=0, now_wall_ms=NOW)
    assert (log.high_watermark, log.log_end_offset, log.last_stable_offset) == (1, 2, 1)
    assert values(log) == [b"a"]
    at_watermark = log.read(1, 1000, upto=log.high_watermark, min_one_message=True)
    assert at_watermark.records is None
    assert at_watermark.start == log.offset_metadata(1)
    assert log.read(1, 1000, upto=log.log_end_offset, min_one_message=True).records is not None


def test_high_watermark_never_decreases_nor_exceeds_the_log_end(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", b"b")
    log.advance_high_watermark(1)
    assert log.high_watermark == 2
    log.advance_high_watermark(99)
    assert log.high_watermark == 2


def test_slice_equals_the_bytes_of_the_file(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a"), append(log, b"b")
    read = log.read(0, 10_000, upto=2, min_one_message=True)
    assert read.records is not None
    assert bytes(read.records) == keeper.file(0).read_bytes()
    assert read.records.file.fileno() >= 0


def test_read_inside_a_batch_returns_the_whole_batch(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    read = log.read(1, 10_000, upto=4, min_one_message=True)
    assert read.records is not None
    assert (read.start.offset, read.start.position) == (1, 0)
    assert [record.offset for info in whole_batches(bytes(read.records)) for record in iter_records(info.records)] == [
        0, 1, 2, 3,
    ]  # fmt: skip


@pytest.mark.parametrize(("max_bytes", "whole"), [(0, 1), (1, 1), (170, 1), (400, 2), (10_000, 5)])
def test_max_bytes_is_exceeded_only_by_the_first_batch(keeper: Keeper, max_bytes: int, whole: int) -> None:
    log = keeper.open()
    fill(log, 5)
    read = log.read(0, max_bytes, upto=5, min_one_message=True)
    assert read.records is not None
    size = keeper.file(0).stat().st_size // 5
    assert len(whole_batches(bytes(read.records))) == whole
    assert len(read.records) == min(max(max_bytes, size), 5 * size)
    assert read.first_batch_only == (max_bytes < size)


def test_max_bytes_is_strict_without_min_one_message(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 2)
    cut = log.read(0, 50, upto=2, min_one_message=False)
    assert cut.records is not None
    assert len(cut.records) == 50
    assert log.read(0, 0, upto=2, min_one_message=False).records is None


@pytest.mark.parametrize("offset", [-1, 0, 1, 9])
def test_offsets_outside_of_the_log_are_out_of_range(keeper: Keeper, offset: int) -> None:
    log = keeper.open()
    fill(log, 8)
    log.delete_records(2)
    with pytest.raises(BrokerError) as refused:
        log.read(offset, 1000, upto=8, min_one_message=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_read_ends_with_its_segment(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=1000)
    wanted = fill(log, 20)
    assert len(log.segments) > 2
    read = log.read(0, 1_000_000, upto=20, min_one_message=True)
    assert read.records is not None
    assert len(read.records) == log.segments[0].size
    assert read.start.segment_base_offset == 0
    assert values(log) == wanted


def test_slice_ends_before_the_upto_offset_in_any_segment(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=1000)
    fill(log, 20)
    for upto in range(1, 21):
        found = [
            info.last_offset
            for segment in log.segments
            if segment.base_offset < upto
            for info in whole_batches(
                bytes(log.read(segment.base_offset, 10**6, upto=upto, min_one_message=True).records or b"")
            )
        ]
        assert found == list(range(upto))


def test_every_offset_is_found_with_and_without_index_entries(keeper: Keeper) -> None:
    for interval in (0, 300, 4096):
        log = Keeper(f"{keeper.directory}{interval}").open(index_interval_bytes=interval, segment_bytes=20_000)
        wanted = fill(log, 300)
        for offset in (0, 1, 2, 99, 100, 101, 198, 299):
            assert values(log, offset)[0] == wanted[offset]
            assert next(scan(log, offset)).offset == offset


def test_slice_of_a_removed_segment_is_still_readable(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=1000, retention_bytes=0)
    fill(log, 20)
    held = log.read(0, 10_000, upto=20, min_one_message=True).records
    assert held is not None
    before = bytes(held)
    assert log.retain(NOW)
    assert not keeper.file(0).exists()
    assert bytes(held) == before


# ---- rolling ----


def test_segment_rolls_before_it_exceeds_segment_bytes(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 9, size=100)
    assert all(0 < segment.size <= 500 for segment in log.segments)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]


def test_segment_rolls_by_record_timestamps_and_not_by_the_clock(keeper: Keeper) -> None:
    log = keeper.open(segment_ms=1000)
    append(log, b"a", time_ms=NOW - 5000)
    append(log, b"b", time_ms=NOW - 4000, now_wall_ms=NOW + 10**6)
    assert len(log.segments) == 1
    append(log, b"c", time_ms=NOW - 3999)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segment_without_timestamps_rolls_by_the_clock(keeper: Keeper) -> None:
    log = keeper.open(segment_ms=1000)
    append(log, b"a", time_ms=-1, now_wall_ms=NOW + 1000)
    append(log, b"b", time_ms=-1, now_wall_ms=NOW + 1000)
    assert len(log.segments) == 1
    append(log, b"c", time_ms=-1, now_wall_ms=NOW + 1001)
    assert len(log.segments) == 2


def test_jitter_rolls_a_segment_before_segment_ms(keeper: Keeper) -> None:
    log = keeper.open(segment_ms=1000, segment_jitter_ms=400)
    append(log, b"a")
    assert 0 <= log.roll(NOW).jitter_ms < 400
    log.active_segment.jitter_ms = 300
    append(log, b"b", time_ms=NOW)
    append(log, b"c", time_ms=NOW + 700)
    assert len(log.segments) == 2
    append(log, b"d", time_ms=NOW + 701)
    assert len(log.segments) == 3


def test_segment_rolls_when_its_index_is_full(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=0, segment_index_bytes=12 * 5)
    fill(log, 12)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10]


def test_empty_segment_is_not_rolled(keeper: Keeper) -> None:
    log = keeper.open()
    assert log.roll(NOW) is log.active_segment
    append(log, b"a")
    rolled = log.roll(NOW)
    assert log.roll(NOW) is rolled
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_rolled_segment_has_its_indexes_and_a_producer_snapshot_on_disk(keeper: Keeper) -> None:
    log = keeper.open(index_interval_bytes=0)
    fill(log, 3)
    assert not keeper.file(0, ".index").exists()
    log.roll(NOW)
    assert keeper.file(0, ".index").stat().st_size == 2 * 8  # the first batch needs no entry
    assert keeper.file(0, ".timeindex").stat().st_size == 12
    assert keeper.file(3, ".snapshot").exists()


# ---- refusals ----


def test_refused_batch_leaves_the_log_unchanged(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a")
    spoiled = batch(b"b")
    spoiled[-1] ^= 1
    with pytest.raises(BrokerError) as refused:
        log.append(spoiled, leader_epoch=0, now_wall_ms=NOW)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 1
    assert append(log, b"c").base_offset == 1
    assert values(log) == [b"a", b"c"]


def test_batch_that_memory_is_too_small_for_is_refused_with_its_place_and_size(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_small(*_: object, **__: object) -> None:
        raise MemoryError

    log, data = keeper.open(), batch(b"a")
    monkeypatch.setattr(validator, "summarize_records", too_small)
    with pytest.raises(BrokerError, match=f"not enough memory to check a batch of {len(data)} bytes for {log.tp}") as e:
        log.append(data, leader_epoch=0, now_wall_ms=NOW)
    assert (e.value.code, log.log_end_offset) == (ErrorCode.MESSAGE_TOO_LARGE, 0)


def test_duplicate_batch_returns_its_first_offsets_and_is_not_written(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"other")
    options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = append(log, b"a", b"b", **options)
    again = append(log, b"a", b"b", **options)
    assert (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset) == (1, 2)
    assert again.log_append_time_ms == NOW  # as Apache Kafka: the largest timestamp of the batch
    assert log.log_end_offset == 3


def test_sequence_gap_is_refused_also_after_a_restart(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    log.close()
    for clean in (True, False):
        log = keeper.open(clean=clean)
        with pytest.raises(BrokerError) as refused:
            append(log, b"c", producer_id=5, producer_epoch=0, base_sequence=2)
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0).base_offset == 0
        log.close()


def test_log_append_time_replaces_record_timestamps(keeper: Keeper) -> None:
    log = keeper.open(message_timestamp_type="LogAppendTime")
    info = append(log, b"a", b"b", time_ms=5, now_wall_ms=NOW + 3)
    assert info.log_append_time_ms == NOW + 3
    assert [record.timestamp_ms for record in scan(log)] == [NOW + 3, NOW + 3]


def test_closed_log_refuses_appends(keeper: Keeper) -> None:
    log = keeper.open()
    log.close()
    with pytest.raises(BrokerError) as refused:
        append(log, b"a")
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


# ---- epochs and deletion ----


def test_leader_epoch_starts_at_its_first_batch(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", leader_epoch=0)
    append(log, b"b", leader_epoch=2)
    append(log, b"c", leader_epoch=2)
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 2, 3)] == [(0, 1), (0, 1), (2, 3), (-1, -1)]
    log.close()
    assert keeper.open().end_offset_for_epoch(0) == (0, 1)


def test_delete_records_removes_segments_below_the_new_start(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    assert log.delete_records(5) == 5
    assert [segment.base_offset for segment in log.segments] == [4, 6, 8]
    assert values(log) == wanted[5:]
    assert log.delete_records(3) == 5
    log.close()
    assert keeper.open(log_start_offset=5).log_start_offset == 5


def test_epochs_of_deleted_records_are_removed(keeper: Keeper) -> None:
    log = keeper.open()
    for epoch in range(4):
        append(log, b"a", b"b", leader_epoch=epoch)
    log.delete_records(3)
    assert log.epochs.entries == ((1, 3), (2, 4), (3, 6))


def test_delete_records_stops_at_the_high_watermark(keeper: Keeper) -> None:
    log = keeper.open()
    fill(log, 3)
    log.append(batch(b"x"), leader_epoch=0, now_wall_ms=NOW)
    with pytest.raises(BrokerError) as refused:
        log.delete_records(4)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records(-1) == 3
    assert log.log_end_offset == 4


def test_offset_metadata_has_byte_positions(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 3)
    first, end = log.offset_metadata(0), log.end_metadata
    assert (first.segment_base_offset, first.position) == (0, 0)
    assert (end.offset, end.segment_base_offset, end.position) == (3, 2, log.segments[1].size)
    assert log.offset_metadata(3) == end
    assert log.offset_metadata(1).position == log.segments[0].size // 2


def test_files_of_old_segments_are_released_and_opened_again(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    wanted = fill(log, 9)
    assert values(log) == wanted
    assert len(_open_files(keeper)) == 5
    assert log.retain(NOW) == 0
    assert _open_files(keeper) == [str(keeper.file(8))]
    assert values(log) == wanted


def _open_files(keeper: Keeper) -> list[str]:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not show a process's open files")
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    paths = {os.readlink(link) for link in links if os.path.islink(link)}
    return sorted(path for path in paths if path.startswith(keeper.directory))


def test_last_stable_offset_stops_at_an_open_transaction(keeper: Keeper) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    log = keeper.open()
    append(log, b"a")
    opened = batch(b"b", base_sequence=0, **producer)
    marker = batch(b"\0\0\0\0\0\3", key=b"\0\0\0\1", control=True, **producer)
    log.append(opened, leader_epoch=0, now_wall_ms=NOW, verification=NOT_VERIFIED)
    append(log, b"c")
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    log.close()
    log = keeper.open()
    assert log.last_stable_offset == 1
    log.append(marker, leader_epoch=0, now_wall_ms=NOW, from_client=False)
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4


# ---- fsync ----


def _unflushed(log: Log) -> int:
    return log.log_end_offset - log.recovery_point


def test_flush_messages_bounds_the_unflushed_records(keeper: Keeper) -> None:
    log = keeper.open(flush_messages=3)
    seen = []
    for number in range(7):
        append(log, b"%d" % number)
        seen.append(_unflushed(log))
    assert seen == [1, 2, 0, 1, 2, 0, 1]


def test_flush_ms_starts_at_the_first_unflushed_record(keeper: Keeper) -> None:
    log = keeper.open(flush_ms=1000)
    assert not log.flush_if_due(NOW + 10**9)
    append(log, b"a")
    append(log, b"b", now_wall_ms=NOW + 900)
    assert not log.flush_if_due(NOW + 999)
    assert log.flush_if_due(NOW + 1000)
    assert _unflushed(log) == 0


def test_flush_is_due_again_after_the_clock_is_set_back(keeper: Keeper) -> None:
    log = keeper.open(flush_ms=1000)
    append(log, b"a")
    assert not log.flush_if_due(NOW - 10**6)
    assert log.flush_if_due(NOW - 10**6 + 1000)


def test_roll_flushes_the_old_segment(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=500)
    fill(log, 3)
    assert log.recovery_point == 2
    assert log.segments[0].is_synced
    assert not log.segments[1].is_synced


def test_producer_goes_on_after_a_crash_although_its_records_are_deleted(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=150)
    append(log, b"a" * 50, producer_id=5, producer_epoch=0, base_sequence=0)
    append(log, b"b" * 50)
    log.delete_records(1)
    assert [segment.base_offset for segment in log.segments] == [1]
    log.close(clean=False)
    log = keeper.open(clean=False)
    append(log, b"c", producer_id=5, producer_epoch=0, base_sequence=1)
    with pytest.raises(BrokerError, match="OUT_OF_ORDER"):
        append(log, b"d", producer_id=5, producer_epoch=0, base_sequence=1 << 20)
