"""Look-ups by timestamp, with unordered timestamps, sparse indexes and deleted records."""

from __future__ import annotations

import random

import pytest

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from tests.broker.log.logs import NOW, Keeper, append, scan


def test_first_record_at_or_after_a_timestamp_is_found_inside_its_batch(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", b"b", b"c", times_ms=[NOW, NOW + 10, NOW + 20], leader_epoch=3)
    append(log, b"d", time_ms=NOW + 5, leader_epoch=3)
    assert log.offset_for_timestamp(0) == (0, NOW, 3)
    assert log.offset_for_timestamp(NOW + 1) == (1, NOW + 10, 3)
    assert log.offset_for_timestamp(NOW + 20) == (2, NOW + 20, 3)
    assert log.offset_for_timestamp(NOW + 21) is None


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_records_of_compressed_batches_are_searched(keeper: Keeper, codec: str) -> None:
    log = keeper.open()
    append(log, b"a", b"b", times_ms=[NOW, NOW + 10], compression=codec)
    assert log.offset_for_timestamp(NOW + 1) == (1, NOW + 10, 0)
    assert log.max_timestamp() == (1, NOW + 10, 0)


def test_records_have_the_append_time_of_their_batch(keeper: Keeper) -> None:
    log = keeper.open(message_timestamp_type="LogAppendTime")
    append(log, b"a", b"b", time_ms=5, now_wall_ms=NOW)
    assert log.offset_for_timestamp(6) == (0, NOW, 0)


def test_empty_log_and_log_without_timestamps_have_no_result(keeper: Keeper) -> None:
    log = keeper.open()
    assert (log.offset_for_timestamp(0), log.max_timestamp()) == (None, None)
    append(log, b"a", time_ms=-1)
    assert (log.offset_for_timestamp(0), log.max_timestamp()) == (None, None)


def test_largest_timestamp_is_the_first_of_equal_ones(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=300)
    append(log, b"a", b"b", times_ms=[NOW, NOW + 10])
    for number in range(6):
        append(log, b"%d" % number, time_ms=NOW + 10 - number)
    assert len(log.segments) > 1
    assert log.max_timestamp() == (1, NOW + 10, 0)


def test_deleted_records_are_not_found(keeper: Keeper) -> None:
    log = keeper.open()
    append(log, b"a", b"b", b"c", times_ms=[NOW + 50, NOW + 10, NOW + 20])
    append(log, b"d", time_ms=NOW + 5)
    log.delete_records(1)
    assert log.offset_for_timestamp(NOW + 1) == (1, NOW + 10, 0)
    log.delete_records(3)
    assert log.offset_for_timestamp(0) == (3, NOW + 5, 0)
    assert log.max_timestamp() == (3, NOW + 5, 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reopened", [None, True, False])
def test_look_up_equals_a_linear_search_for_every_timestamp(keeper: Keeper, seed: int, reopened: bool | None) -> None:
    chance = random.Random(seed)
    config = {"index_interval_bytes": 150, "segment_bytes": 1500}
    log = keeper.open(**config)
    for _ in range(40):
        append(log, b"x" * 20, b"y", times_ms=[NOW + chance.randrange(500), NOW + chance.randrange(500)])
    if reopened is not None:
        log.close(clean=reopened)
        log = keeper.open(clean=reopened, **config)
    records = list(scan(log))
    for time_ms in range(NOW - 1, NOW + 502, 7):
        wanted = next(((r.offset, r.timestamp_ms, 0) for r in records if r.timestamp_ms >= time_ms), None)
        assert log.offset_for_timestamp(time_ms) == wanted
    largest = max(records, key=lambda record: record.timestamp_ms)
    assert log.max_timestamp() == (largest.offset, largest.timestamp_ms, 0)


def test_damage_during_a_look_up_is_a_partition_error(keeper: Keeper) -> None:
    log = keeper.open(segment_bytes=300)
    for number in range(6):
        append(log, b"%d" % number, time_ms=NOW + number, compression="gzip")
    log.close()
    data = bytearray(keeper.file(0).read_bytes())
    data[61:70] = b"\xff" * 9
    keeper.file(0).write_bytes(data)
    log = keeper.open(segment_bytes=300)
    with pytest.raises(BrokerError) as refused:
        log.offset_for_timestamp(NOW)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
