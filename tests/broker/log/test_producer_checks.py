"""Checks of transactional batches and markers (KIP-98, KIP-890), with the rules of Kafka 4.3.1's ProducerAppendInfo."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.files import DiskFiles
from kcli.broker.log.producer_checks import NOT_VERIFIED, Duplicate, TransactionMarker, Verification
from kcli.broker.log.producer_state import ProducerStateManager
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.records.batch import BatchInfo, read_batch_info
from kcli.protocol.records.builder import NewRecord, build_batch, build_marker
from kcli.structs import TopicPartition

NOW = 1_700_000_000_000
DAY = 86_400_000
PRODUCER = 9
LAST_EPOCH = 2**15 - 1


class Log:
    """The producers of a log, the offset of its next batch, and short forms of what can happen to it."""

    def __init__(self, directory: Path) -> None:
        self.producers = ProducerStateManager(TopicPartition("orders", 0), str(directory), DiskFiles())
        self.end = 0

    def batch(self, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = True) -> BatchInfo:
        options = {"producer_id": PRODUCER, "producer_epoch": epoch, "base_sequence": sequence}
        rows = [NewRecord(None, b"x", NOW)] * count
        return read_batch_info(build_batch(rows, base_offset=self.end, transactional=transactional, **options))

    def verify(self, sequence: int = 0, *, epoch: int = 0, adds: bool = False) -> Verification | None:
        return self.producers.start_verification(PRODUCER, epoch, sequence, adds=adds, now_wall_ms=NOW)

    def append(self, info: BatchInfo, verification: Verification | None = None) -> Duplicate | None:
        duplicate = self.producers.check(info, verification)
        if duplicate is None:
            self.producers.update(info)
            self.end = info.last_offset + 1
        return duplicate

    def end_transaction(self, *, epoch: int = 0, coordinator: int = 0, commit: bool = True, version: int = 0) -> None:
        self.producers.check_marker(TransactionMarker(PRODUCER, epoch, coordinator, commit, version))
        data = bytearray(build_marker(PRODUCER, epoch, commit=commit, coordinator_epoch=coordinator, timestamp_ms=NOW))
        data[:8] = self.end.to_bytes(8, "big")
        self.producers.update(read_batch_info(data))
        self.end += 1

    def refused(self, info: BatchInfo, verification: Verification | None = None) -> ErrorCode:
        with pytest.raises(BrokerError) as caught:
            self.producers.check(info, verification)
        return caught.value.code

    def refused_marker(self, epoch: int, *, coordinator: int = 0, version: int = 0) -> ErrorCode:
        with pytest.raises(BrokerError) as caught:
            self.producers.check_marker(TransactionMarker(PRODUCER, epoch, coordinator, True, version))
        return caught.value.code


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


class TestVerification:
    def test_first_batch_of_a_transaction_needs_a_verification_and_the_next_ones_do_not(self, log: Log) -> None:
        assert log.refused(log.batch(0)) is ErrorCode.INVALID_TXN_STATE
        log.append(log.batch(0, 2), log.verify())
        assert log.verify() is None
        log.append(log.batch(2))
        assert log.producers.first_open_offset == 0

    def test_each_transaction_is_verified_again(self, log: Log) -> None:
        log.append(log.batch(0), log.verify())
        log.end_transaction()
        assert log.refused(log.batch(1)) is ErrorCode.INVALID_TXN_STATE
        log.append(log.batch(1), log.verify(1))
        assert log.producers.first_open_offset == 2

    def test_marker_during_the_verification_makes_it_worthless(self, log: Log) -> None:
        """The coordinator has confirmed the transaction, but its abort came first: the record must not be written."""
        stale = log.verify()
        log.end_transaction(commit=False)
        assert log.refused(log.batch(0), stale) is ErrorCode.INVALID_TXN_STATE
        fresh = log.verify()
        assert log.refused(log.batch(0), stale) is ErrorCode.INVALID_TXN_STATE
        log.append(log.batch(0), fresh)

    def test_marker_of_the_previous_transaction_keeps_a_verification_of_the_next_epoch(self, log: Log) -> None:
        log.append(log.batch(0, epoch=4), log.verify(epoch=4, adds=True))
        following = log.verify(epoch=5, adds=True)
        log.end_transaction(epoch=5, version=2)
        log.append(log.batch(0, epoch=5), following)
        assert log.producers.first_open_offset == 2

    def test_marker_of_a_later_epoch_ends_the_verification_of_an_earlier_one(self, log: Log) -> None:
        verification = log.verify(epoch=4, adds=True)
        log.end_transaction(epoch=5, version=2, commit=False)
        assert log.refused(log.batch(0, epoch=4), verification) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_two_batches_share_one_verification(self, log: Log) -> None:
        first = log.verify(0)
        assert log.verify(3) is first
        log.append(log.batch(0, 3), first)
        log.append(log.batch(3), first)

    def test_higher_sequence_does_not_overtake_a_lower_one_in_verification(self, log: Log) -> None:
        """Otherwise the lower one would be out of order until its retries run out."""
        log.verify(3)
        verification = log.verify(0)
        assert log.refused(log.batch(3), verification) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(log.batch(0, 3), verification)

    def test_new_epoch_resets_the_lowest_sequence_in_verification(self, log: Log) -> None:
        log.verify(0, epoch=1)
        verification = log.verify(7, epoch=2)
        log.append(log.batch(7, epoch=2), verification)

    def test_old_epoch_is_refused_before_the_coordinator_is_asked(self, log: Log) -> None:
        log.append(log.batch(0, epoch=3), log.verify(epoch=3))
        with pytest.raises(BrokerError) as caught:
            log.verify(epoch=2)
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_transaction_of_a_newer_epoch_is_verified_although_one_is_open(self, log: Log) -> None:
        log.append(log.batch(0, epoch=3), log.verify(epoch=3))
        verification = log.verify(epoch=4)
        assert verification is not None
        assert log.refused(log.batch(0, epoch=4)) is ErrorCode.INVALID_TXN_STATE
        log.append(log.batch(0, epoch=4), verification)
        assert log.producers.first_open_offset == 0

    def test_without_verification_any_transactional_batch_is_appended(self, log: Log) -> None:
        log.append(log.batch(0), NOT_VERIFIED)
        assert log.producers.first_open_offset == 0

    def test_abandoned_verification_expires(self, log: Log) -> None:
        verification = log.verify()
        log.producers.remove_expired(NOW + DAY - 1)
        assert log.verify() is verification
        log.producers.remove_expired(NOW + DAY)
        assert log.verify() is not verification

    def test_retry_of_an_appended_batch_is_a_duplicate_within_and_after_its_transaction(self, log: Log) -> None:
        log.append(log.batch(0), log.verify())
        assert log.append(log.batch(0)) == Duplicate(0, 0, NOW)
        log.end_transaction()
        assert log.append(log.batch(0)) == Duplicate(0, 0, NOW)


class TestSequences:
    def test_producer_with_an_epoch_per_transaction_starts_at_0(self, log: Log) -> None:
        verification = log.verify(5, adds=True)
        assert log.refused(log.batch(5), verification) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(log.batch(0), log.verify(0, adds=True))

    def test_unknown_producer_of_an_older_client_starts_anywhere(self, log: Log) -> None:
        log.append(log.batch(5), log.verify(5))

    def test_sequence_goes_on_after_a_marker_of_the_same_epoch(self, log: Log) -> None:
        log.append(log.batch(0, 3), log.verify())
        log.end_transaction()
        assert log.refused(log.batch(0), NOT_VERIFIED) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(log.batch(3), log.verify(3))

    def test_sequence_starts_again_after_a_marker_of_a_new_epoch(self, log: Log) -> None:
        log.append(log.batch(0, 3), log.verify(adds=True))
        log.end_transaction(epoch=1, version=2)
        refusal = log.refused(log.batch(3, epoch=1), log.verify(3, epoch=1, adds=True))
        assert refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(log.batch(0, epoch=1), log.verify(0, epoch=1, adds=True))

    def test_batch_without_a_transaction_is_refused_while_one_is_open(self, log: Log) -> None:
        log.append(log.batch(0), log.verify())
        assert log.refused(log.batch(1, transactional=False)) is ErrorCode.INVALID_TXN_STATE

    def test_coordinators_batch_needs_the_verification_but_no_sequence(self, log: Log) -> None:
        """Offsets in a transaction, which the group's coordinator writes."""
        offsets = log.batch(-1)
        with pytest.raises(BrokerError) as caught:
            log.producers.check(offsets, from_client=False)
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        assert log.producers.check(offsets, log.verify(-1), from_client=False) is None
        log.producers.update(offsets)
        assert log.producers.check(log.batch(-1), from_client=False) is None


class TestMarkers:
    def test_marker_of_an_unknown_producer_is_written(self, log: Log) -> None:
        log.end_transaction(epoch=5, coordinator=2)
        assert log.producers.producers[PRODUCER].epoch == 5
        assert log.producers.first_unstable_offset is None

    def test_marker_of_an_older_epoch_is_refused(self, log: Log) -> None:
        log.append(log.batch(0, epoch=3), log.verify(epoch=3))
        assert log.refused_marker(2) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert log.refused_marker(2, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_marker_has_the_epoch_of_the_records_or_a_newer_one_until_version_1(self, log: Log) -> None:
        log.append(log.batch(0, epoch=3), log.verify(epoch=3))
        log.end_transaction(epoch=3, version=1)
        log.end_transaction(epoch=4, version=1)

    def test_marker_has_a_newer_epoch_than_the_records_since_version_2(self, log: Log) -> None:
        log.append(log.batch(0, epoch=3), log.verify(epoch=3))
        assert log.refused_marker(3, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
        log.end_transaction(epoch=4, version=2)

    def test_repeated_marker_is_accepted_after_its_transaction_has_ended(self, log: Log) -> None:
        log.append(log.batch(0, epoch=3), log.verify(epoch=3))
        log.end_transaction(epoch=4, version=2)
        log.end_transaction(epoch=4, version=2)
        log.append(log.batch(0, epoch=4), log.verify(epoch=4))
        assert log.refused_marker(4, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_last_epoch_can_end_its_own_transaction(self, log: Log) -> None:
        log.append(log.batch(0, epoch=LAST_EPOCH), log.verify(epoch=LAST_EPOCH))
        log.end_transaction(epoch=LAST_EPOCH, version=2)
        assert log.producers.first_open_offset is None

    def test_older_coordinator_is_fenced(self, log: Log) -> None:
        log.append(log.batch(0), log.verify())
        log.end_transaction(coordinator=4)
        assert log.refused_marker(0, coordinator=3) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        log.end_transaction(coordinator=4)
