"""Replay of batches of __consumer_offsets, with and without transactions (KIP-98)."""

from __future__ import annotations

import pytest

from kcli.broker.group.group_records import LatestValue, Replay
from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import HEADER_BYTES, read_batch_info
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.protocol.records.scan import read_pairs

LOG = 7
FIRST, SECOND = 4000, 4001
NO_PRODUCER = -1
COUNT_AT = HEADER_BYTES - 4
KEY, OTHER = b"\0\1key", b"\0\1other"


class Log:
    """Writes batches with increasing offsets to a replay."""

    def __init__(self) -> None:
        self.end = 0
        self.replay = Replay()

    def write(self, *pairs: tuple[bytes | None, bytes | None], producer: int = NO_PRODUCER) -> None:
        rows = [NewRecord(key, value, 5) for key, value in pairs]
        self._add(build_batch(rows, base_offset=self.end, producer_id=producer, transactional=producer != NO_PRODUCER))

    def end_transaction(self, producer: int, *, commit: bool, number: int = LOG) -> None:
        row = NewRecord(bytes((0, 0, 0, commit)), b"\0\0\0\0\0\0", 5)
        batch = build_batch([row], base_offset=self.end, producer_id=producer, transactional=True, control=True)
        self._add(batch, number)

    def _add(self, batch: bytes, number: int = LOG) -> None:
        self.add_batch(number, batch)
        self.end += int.from_bytes(batch[23:27], "big") + 1

    def add_batch(self, number: int, batch: bytes | bytearray) -> None:
        self.replay.add_batch(number, read_batch_info(batch), read_pairs(memoryview(batch)))

    @property
    def values(self) -> dict[bytes, bytes]:
        return {key: found.value for key, found in self.replay.latest.items() if found.value is not None}


@pytest.fixture
def log() -> Log:
    return Log()


def test_replay_keeps_the_last_value_of_each_key(log: Log) -> None:
    log.write((KEY, b"1"), (OTHER, b"2"), (KEY, b"3"), (None, b"no key"))
    log.write((OTHER, b"4"))

    assert log.replay.latest == {KEY: LatestValue(2, b"3"), OTHER: LatestValue(4, b"4")}


def test_tombstone_keeps_the_offset_of_the_deleted_record(log: Log) -> None:
    log.write((KEY, b"1"))
    log.write((KEY, None), (OTHER, None))

    assert log.replay.latest == {KEY: LatestValue(0, None)}
    assert log.replay.tombstones == {KEY: 1, OTHER: 2}


def test_records_of_a_transaction_apply_after_its_commit_marker(log: Log) -> None:
    log.write((KEY, b"1"), producer=FIRST)
    assert (log.values, list(log.replay.transactions)) == ({}, [(LOG, FIRST)])

    log.end_transaction(FIRST, commit=True)

    assert (log.values, log.replay.transactions) == ({KEY: b"1"}, {})
    assert log.replay.transactional == {KEY: 0}


def test_records_of_an_aborted_transaction_do_not_apply(log: Log) -> None:
    log.write((KEY, b"1"))
    log.write((KEY, b"2"), producer=FIRST)
    log.end_transaction(FIRST, commit=False)

    assert (log.values, log.replay.transactions) == ({KEY: b"1"}, {})


def test_marker_ends_only_the_transaction_of_its_producer(log: Log) -> None:
    log.write((KEY, b"1"), producer=FIRST)
    log.write((OTHER, b"2"), producer=SECOND)
    log.end_transaction(SECOND, commit=True)

    assert (log.values, list(log.replay.transactions)) == ({OTHER: b"2"}, [(LOG, FIRST)])


def test_marker_in_another_partition_does_not_end_the_transaction(log: Log) -> None:
    log.write((KEY, b"1"), producer=FIRST)
    log.end_transaction(FIRST, commit=True, number=LOG + 1)

    assert (log.values, list(log.replay.transactions)) == ({}, [(LOG, FIRST)])


def test_commit_marker_does_not_overwrite_later_records(log: Log) -> None:
    log.write((KEY, b"1"), producer=FIRST)
    log.write((KEY, b"2"))
    log.end_transaction(FIRST, commit=True)

    assert log.values == {KEY: b"2"}


def test_later_record_of_two_transactions_applies_for_any_order_of_markers(log: Log) -> None:
    log.write((KEY, b"1"), producer=FIRST)
    log.write((KEY, b"2"), producer=SECOND)
    log.end_transaction(SECOND, commit=True)
    log.end_transaction(FIRST, commit=True)

    assert log.values == {KEY: b"2"}


def test_tombstone_removes_records_of_open_transactions(log: Log) -> None:
    log.write((KEY, b"1"), producer=FIRST)
    log.write((KEY, None))
    log.end_transaction(FIRST, commit=True)

    assert log.values == {}


def test_marker_without_a_transaction_changes_nothing(log: Log) -> None:
    log.write((KEY, b"1"))
    log.end_transaction(FIRST, commit=True)

    assert log.values == {KEY: b"1"}


def test_idempotent_batch_without_a_transaction_applies_at_once(log: Log) -> None:
    log.add_batch(LOG, build_batch([NewRecord(KEY, b"1", 5)], producer_id=FIRST, producer_epoch=0))
    assert log.values == {KEY: b"1"}


def test_damaged_batch_changes_nothing(log: Log) -> None:
    log.write((KEY, b"1"))
    batch = bytearray(build_batch([NewRecord(KEY, b"2", 5), NewRecord(OTHER, b"3", 5)], base_offset=1))
    batch[COUNT_AT:HEADER_BYTES] = (3).to_bytes(4, "big")
    with pytest.raises(CorruptRecords, match="record 2 of 3 does not fit"):
        log.add_batch(LOG, batch)
    short_marker = build_batch([NewRecord(b"\0", b"", 5)], producer_id=FIRST, transactional=True, control=True)
    with pytest.raises(CorruptRecords, match="marker"):
        log.add_batch(LOG, short_marker)

    assert log.values == {KEY: b"1"}
