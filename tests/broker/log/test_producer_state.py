"""Idempotent producers: duplicates, out-of-order sequences, and snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.log.producer_state import (
    CompletedTransaction,
    Duplicate,
    ProducerEntry,
    ProducerStateManager,
    decode_snapshot,
    encode_snapshot,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CorruptRecords
from kcli.protocol.records.batch import BatchInfo, read_batch_info
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.structs import TopicPartition
from tests.protocol.records.vectors import VECTORS

NOW = 1_700_000_000_000
TP = TopicPartition("orders", 0)
DAY = 86_400_000
LAST_SEQUENCE = 2**31 - 1

# 00000000000000001943.snapshot of Apache Kafka 4.3.1 after librdkafka 2.16.0 had written one batch of 1943 records.
REAL_SNAPSHOT = bytes.fromhex(
    "00018eed0e2f000000010000000000000000000000000796000000000000079600000796000001a1fbf4fee5ffffffffffffffffffffffff"
)


@pytest.fixture
def producers(tmp_path: Path) -> ProducerStateManager:
    return ProducerStateManager(TP, str(tmp_path), DiskFiles())


def batch(
    offset: int,
    sequence: int,
    count: int = 1,
    *,
    producer: int = 9,
    epoch: int = 0,
    transactional: bool = False,
    time_ms: int = NOW,
) -> BatchInfo:
    rows = [NewRecord(None, b"x", time_ms)] * count
    return read_batch_info(
        build_batch(
            rows,
            base_offset=offset,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def marker(offset: int, *, producer: int = 9, epoch: int = 0, is_commit: bool) -> BatchInfo:
    rows = [NewRecord(b"\0\0\0\1" if is_commit else b"\0\0\0\0", b"\0\0\0\0\0\3", NOW)]
    options = {"base_offset": offset, "producer_id": producer, "producer_epoch": epoch}
    return read_batch_info(build_batch(rows, transactional=True, control=True, **options))


def refused(producers: ProducerStateManager, info: BatchInfo) -> ErrorCode:
    with pytest.raises(BrokerError) as caught:
        producers.check(info)
    return caught.value.code


def append(producers: ProducerStateManager, info: BatchInfo) -> None:
    assert producers.check(info) is None
    producers.update(info)


def test_repeated_batch_is_a_duplicate_with_the_first_offsets(producers: ProducerStateManager) -> None:
    append(producers, batch(2, 0, 3))
    append(producers, batch(5, 3, 2))
    assert producers.check(batch(7, 0, 3)) == Duplicate(2, 4, NOW)
    assert producers.check(batch(7, 3, 2)) == Duplicate(5, 6, NOW)


def test_duplicates_are_detected_in_the_last_five_batches(producers: ProducerStateManager) -> None:
    for number in range(6):
        append(producers, batch(number, number))
    assert producers.check(batch(6, 1)) == Duplicate(1, 1, NOW)
    assert refused(producers, batch(6, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_gap_is_out_of_order(producers: ProducerStateManager) -> None:
    append(producers, batch(0, 0, 3))
    assert refused(producers, batch(3, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(producers, batch(3, 1, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(producers, batch(3, 3))


def test_unknown_producer_may_start_at_any_sequence(producers: ProducerStateManager) -> None:
    append(producers, batch(0, 5))


def test_new_epoch_starts_at_sequence_zero_and_fences_the_old_one(producers: ProducerStateManager) -> None:
    append(producers, batch(0, 0))
    assert refused(producers, batch(1, 1, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(producers, batch(1, 0, epoch=1))
    assert refused(producers, batch(2, 1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, batch(2, 0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequence_numbers_wrap_to_zero(producers: ProducerStateManager) -> None:
    append(producers, batch(0, LAST_SEQUENCE - 1, 4))
    assert batch(0, LAST_SEQUENCE - 1, 4).last_sequence == 1
    assert producers.check(batch(4, LAST_SEQUENCE - 1, 4)) == Duplicate(0, 3, NOW)
    append(producers, batch(4, 2))
    append(producers, batch(5, 3))


def test_batches_without_a_producer_only_move_the_end_offset(producers: ProducerStateManager) -> None:
    append(producers, read_batch_info(build_batch([NewRecord(None, b"x", NOW)] * 3)))
    assert producers.producers == {}
    assert producers.end_offset == 3


def test_inactive_producer_expires(producers: ProducerStateManager) -> None:
    append(producers, batch(0, 0, producer=1, time_ms=NOW))
    append(producers, batch(1, 0, producer=2, time_ms=NOW + 5))
    producers.remove_expired(NOW + DAY - 1)
    assert sorted(producers.producers) == [1, 2]
    producers.remove_expired(NOW + DAY)
    assert sorted(producers.producers) == [2]
    append(producers, batch(2, 77, producer=1))


def test_open_transaction_holds_the_stable_offset_until_its_marker(
    producers: ProducerStateManager,
) -> None:
    producers.update(batch(10, 0, 2, producer=4000, epoch=3, transactional=True))
    producers.update(batch(12, 2, producer=4000, epoch=3, transactional=True))
    assert producers.first_unstable_offset == 10
    producers.remove_expired(NOW + 2 * DAY)
    ended = producers.update(read_batch_info(VECTORS["control-commit"]))
    assert ended == CompletedTransaction(4000, first_offset=10, last_offset=200, is_aborted=False)
    assert (producers.first_open_offset, producers.first_unstable_offset) == (None, 10)
    producers.on_high_watermark(200)
    assert producers.first_unstable_offset == 10, "a follower may not have the marker"
    producers.on_high_watermark(201)
    assert producers.first_unstable_offset is None
    assert producers.producers[4000].coordinator_epoch == 11
    assert producers.end_offset == 201


def test_oldest_of_several_open_transactions_holds_the_stable_offset(
    producers: ProducerStateManager, tmp_path: Path
) -> None:
    for offset, producer in enumerate((7, 8, 9, 7)):
        producers.update(batch(offset, 0, producer=producer, transactional=True))
    producers.take_snapshot()
    again = ProducerStateManager(TP, str(tmp_path), DiskFiles())
    again.load(0, 4, NOW)
    for state in (producers, again):
        assert state.has_transactions
        ended = []
        for offset, producer in enumerate((8, 7, 9, 7), 4):
            ended.append(state.update(marker(offset, producer=producer, is_commit=producer != 9)))
            state.on_high_watermark(offset + 1)
            ended.append(state.first_unstable_offset)
        assert ended == [
            *((8, 1, 4, False), 0),
            *((7, 0, 5, False), 2),
            *((9, 2, 6, True), None),
            *(None, None),  # no transaction was open
        ]


def test_empty_control_batch_of_the_cleaner_ends_no_transaction(producers: ProducerStateManager) -> None:
    producers.update(batch(0, 0, transactional=True))
    empty = build_batch(
        [], base_offset=1, last_offset_delta=0, producer_id=9, producer_epoch=0, transactional=True, control=True
    )
    assert producers.update(read_batch_info(empty)) is None
    assert producers.first_unstable_offset == 0


def test_snapshot_of_apache_kafka_is_decoded_and_encoded_byte_for_byte() -> None:
    entries = decode_snapshot(REAL_SNAPSHOT)
    assert entries == [ProducerEntry(0, 0, 1942, 1942, 1942, 1795228499685, -1, -1)]
    assert encode_snapshot(entries) == REAL_SNAPSHOT


@pytest.mark.parametrize("at", [1, 3, 9, 20, len(REAL_SNAPSHOT) - 1])
def test_damaged_snapshot_is_detected(at: int) -> None:
    damaged = bytearray(REAL_SNAPSHOT)
    damaged[at] ^= 1
    for data in (damaged, REAL_SNAPSHOT[:at]):
        with pytest.raises(CorruptRecords):
            decode_snapshot(bytes(data))


def test_restart_restores_the_last_batch_of_each_producer(producers: ProducerStateManager, tmp_path: Path) -> None:
    append(producers, batch(0, 0, 3))
    append(producers, batch(3, 3, 2))
    append(producers, batch(5, LAST_SEQUENCE, 2, producer=7))
    producers.take_snapshot()
    again = ProducerStateManager(TP, str(tmp_path), DiskFiles())
    assert again.load(0, 7, NOW) == 7
    assert again.check(batch(7, 3, 2)) == Duplicate(3, 4, NOW)
    assert again.check(batch(7, LAST_SEQUENCE, 2, producer=7)) == Duplicate(5, 6, NOW)
    assert refused(again, batch(7, 6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(again, batch(7, 5))


def test_snapshot_is_named_by_the_next_offset_and_written_once(producers: ProducerStateManager, tmp_path: Path) -> None:
    producers.take_snapshot()  # an empty log has no snapshot
    append(producers, batch(0, 0, 3))
    producers.take_snapshot()
    producers.take_snapshot()
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000003.snapshot"]


def test_load_uses_the_newest_snapshot_within_the_log(producers: ProducerStateManager, tmp_path: Path) -> None:
    for number in range(4):
        append(producers, batch(number, number))
        producers.take_snapshot()
    assert producers.load(0, 3, NOW) == 3
    assert producers.snapshots() == [1, 2, 3]  # the one after the log end is removed
    (tmp_path / f"{3:020d}.snapshot").write_bytes(b"garbage")
    assert producers.load(0, 3, NOW) == 2
    assert producers.check(batch(2, 1)) == Duplicate(1, 1, NOW)
    assert producers.snapshots() == [1, 2]
    assert producers.load(2, 3, NOW) == 2  # its producers go on, although all of their records are deleted
    assert producers.check(batch(2, 1)) == Duplicate(1, 1, NOW)
    assert producers.load(3, 3, NOW) == 3
    assert producers.producers == {}, "those of a snapshot before the log start are forgotten"


def test_snapshots_are_removed_with_their_segments(producers: ProducerStateManager) -> None:
    for number in range(4):
        append(producers, batch(number, number))
        producers.take_snapshot()
    producers.delete_snapshot(2)
    producers.delete_snapshot(2)
    assert producers.snapshots() == [1, 3, 4]
    producers.delete_snapshots_before(4)
    assert producers.snapshots() == [4]


def test_stray_snapshots_do_not_start_a_segment(producers: ProducerStateManager) -> None:
    for number in range(4):
        append(producers, batch(number, number))
        producers.take_snapshot()
    producers.delete_stray_snapshots({0, 2})
    assert producers.snapshots() == [2, 4]
