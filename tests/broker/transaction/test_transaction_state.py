"""Transitions of transactional ids (KIP-98, KIP-890). The expected outcomes are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.transaction import transaction_state as rules
from kcli.broker.transaction.transaction_log import from_value, to_value
from kcli.broker.transaction.transaction_state import (
    MAX_EPOCH,
    EndRequest,
    TransactionMetadata,
    TransactionState,
    Transition,
)
from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
TP = TopicPartition("orders", 0)
NOW = 1_700_000_000_000
NEW_ID = 900


def metadata(state: TransactionState, epoch: int = 5, **fields: Any) -> TransactionMetadata:
    is_open = state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    return TransactionMetadata(
        "txn",
        fields.pop("producer_id", 7),
        60_000,
        NOW - 100,
        producer_epoch=epoch,
        state=state,
        partitions=frozenset({TP}) if is_open else frozenset(),
        start_ms=-1 if state is EMPTY else NOW - 500,
        **fields,
    )


def end(
    current: TransactionMetadata, epoch: int, *, commit: bool, version: int, producer_id: int = 7, pending: bool = False
) -> Transition:
    request = EndRequest(producer_id, epoch, commit, version)
    return rules.end(current, request, is_pending=pending, new_producer_id=lambda: NEW_ID, now_wall_ms=NOW)


def outcome(transition: Transition) -> Any:
    """The error code, or state and epoch."""
    if isinstance(transition, ErrorCode):
        return int(transition)
    return transition.state, transition.producer_epoch


# Of KIP-890: requests with the present epoch (5) and with the one before it, to abort and to commit.
@pytest.mark.parametrize(
    ("state", "epoch", "commit", "expected"),
    [
        (EMPTY, 4, False, 90),
        (EMPTY, 5, False, (PREPARE_ABORT, 6)),
        (EMPTY, 4, True, 90),
        (EMPTY, 5, True, 48),
        (COMPLETE_ABORT, 4, False, 0),
        (COMPLETE_ABORT, 5, False, (PREPARE_ABORT, 6)),
        (COMPLETE_ABORT, 4, True, 48),
        (COMPLETE_ABORT, 5, True, 48),
        (COMPLETE_COMMIT, 4, False, 48),
        (COMPLETE_COMMIT, 5, False, (PREPARE_ABORT, 6)),
        (COMPLETE_COMMIT, 4, True, 0),
        (COMPLETE_COMMIT, 5, True, 48),
        (ONGOING, 4, True, 90),
        (ONGOING, 5, True, (PREPARE_COMMIT, 6)),
        (ONGOING, 6, True, 90),
        (ONGOING, 5, False, (PREPARE_ABORT, 6)),
        (PREPARE_COMMIT, 4, True, 51),
        (PREPARE_COMMIT, 4, False, 48),
        (PREPARE_COMMIT, 5, True, 90),
        (PREPARE_ABORT, 4, False, 51),
        (PREPARE_ABORT, 4, True, 48),
        (PREPARE_ABORT, 5, False, 90),
    ],
)
def test_end_with_an_epoch_per_transaction(state: TransactionState, epoch: int, commit: bool, expected: Any) -> None:
    assert outcome(end(metadata(state), epoch, commit=commit, version=2)) == expected


@pytest.mark.parametrize(
    ("state", "commit", "expected"),
    [
        (EMPTY, True, 48),
        (EMPTY, False, 48),
        (ONGOING, True, (PREPARE_COMMIT, 5)),
        (ONGOING, False, (PREPARE_ABORT, 5)),
        (PREPARE_COMMIT, True, 51),
        (PREPARE_COMMIT, False, 48),
        (PREPARE_ABORT, False, 51),
        (PREPARE_ABORT, True, 48),
        (COMPLETE_COMMIT, True, 0),
        (COMPLETE_COMMIT, False, 48),
        (COMPLETE_ABORT, False, 0),
        (COMPLETE_ABORT, True, 48),
    ],
)
def test_end_of_a_classic_client(state: TransactionState, commit: bool, expected: Any) -> None:
    assert outcome(end(metadata(state), 5, commit=commit, version=0)) == expected
    for epoch in (4, 6):
        assert outcome(end(metadata(state), epoch, commit=commit, version=0)) == 90


def test_pending_transition_is_checked_first_or_after_the_producer() -> None:
    """With an epoch per transaction the producer may already have an id that is only pending."""
    current = metadata(ONGOING)
    assert outcome(end(current, 9, commit=True, version=2, producer_id=8, pending=True)) == 51
    assert outcome(end(current, 9, commit=True, version=0, producer_id=8, pending=True)) == 49
    assert outcome(end(current, 9, commit=True, version=0, pending=True)) == 90
    assert outcome(end(current, 5, commit=True, version=0, pending=True)) == 51


def test_last_epoch_of_a_producer_id() -> None:
    """The marker has epoch 32767, which no client ever gets; the next transaction has a new id."""
    decided = end(metadata(ONGOING, MAX_EPOCH - 1), MAX_EPOCH - 1, commit=True, version=2)
    assert isinstance(decided, TransactionMetadata)
    assert (decided.producer_id, decided.producer_epoch, decided.next_producer_id) == (7, MAX_EPOCH, NEW_ID)
    completed = rules.complete(decided, NOW + 1)
    assert (completed.producer_id, completed.producer_epoch, completed.next_producer_id) == (NEW_ID, 0, -1)
    assert completed.previous_producer_id == 7
    assert outcome(end(completed, MAX_EPOCH - 1, commit=True, version=2)) == 0
    assert outcome(end(completed, MAX_EPOCH - 1, commit=False, version=2)) == 48
    assert outcome(end(completed, 3, commit=True, version=2)) == 49
    again = init(completed, expected=(7, MAX_EPOCH - 1))
    assert isinstance(again, TransactionMetadata)
    assert (again.producer_id, again.producer_epoch) == (NEW_ID, 0)


def init(current: TransactionMetadata, expected: tuple[int, int] | None = None, *, pending: bool = False) -> Transition:
    return rules.init_producer(
        current,
        is_pending=pending,
        timeout_ms=1000,
        expected=expected,
        new_producer_id=lambda: NEW_ID,
        now_wall_ms=NOW,
    )


@pytest.mark.parametrize(
    ("current", "expected", "result"),
    [
        (metadata(EMPTY, -1), None, (EMPTY, 0)),
        (metadata(EMPTY, -1), (3, 9), (EMPTY, 0)),
        (metadata(EMPTY), None, (EMPTY, 6)),
        (metadata(EMPTY), (7, 5), (EMPTY, 6)),
        (metadata(EMPTY), (7, 4), 90),
        (metadata(EMPTY, last_producer_epoch=4), (7, 4), (EMPTY, 5)),
        (metadata(EMPTY), (8, 5), 90),
        (metadata(COMPLETE_COMMIT), None, (EMPTY, 6)),
        (metadata(COMPLETE_ABORT), (7, 5), (EMPTY, 6)),
        (metadata(PREPARE_COMMIT), None, 51),
        (metadata(PREPARE_ABORT), (7, 9), 51),
        (metadata(PREPARE_ABORT), (8, 9), 90),
        (metadata(ONGOING), None, 0),
        (metadata(COMPLETE_COMMIT, MAX_EPOCH - 1), None, (EMPTY, 0)),
        (metadata(COMPLETE_COMMIT, MAX_EPOCH - 1), (7, MAX_EPOCH - 1), (EMPTY, 0)),
        (metadata(COMPLETE_COMMIT, MAX_EPOCH - 1), (7, 3), -1),
    ],
)
def test_init_producer(current: TransactionMetadata, expected: tuple[int, int] | None, result: Any) -> None:
    assert outcome(init(current, expected)) == result
    assert outcome(init(current, expected, pending=True)) == 51


def test_new_producer_id_follows_the_last_epoch() -> None:
    new = init(metadata(EMPTY, MAX_EPOCH - 1), (7, MAX_EPOCH - 1))
    assert isinstance(new, TransactionMetadata)
    assert (new.producer_id, new.previous_producer_id, new.last_producer_epoch) == (NEW_ID, 7, MAX_EPOCH - 1)


@pytest.mark.parametrize(("version", "client_version"), [(2, 2), (1, 0), (0, 0)])
def test_fence_gives_an_epoch_that_the_producer_does_not_have(version: int, client_version: int) -> None:
    fenced = fence(metadata(ONGOING), version)
    assert (fenced.state, fenced.producer_epoch, fenced.client_version) == (PREPARE_ABORT, 6, client_version)


def fence(current: TransactionMetadata, version: int, *, has_fenced: bool = False) -> TransactionMetadata:
    return rules.fence(current, version, has_fenced=has_fenced, new_producer_id=lambda: NEW_ID, now_wall_ms=NOW)


def test_failed_fence_of_a_classic_cluster_takes_one_epoch() -> None:
    """Its producer is fenced in memory; the next attempt does not increment the epoch again."""
    after = rules.fenced_in_memory(metadata(ONGOING), has_fenced=False)
    assert after.producer_epoch == 6
    assert fence(after, 0, has_fenced=True).producer_epoch == 6


def test_fence_at_the_last_epoch_changes_the_producer_id() -> None:
    fenced = fence(metadata(ONGOING, MAX_EPOCH - 1), 2)
    assert (fenced.producer_epoch, fenced.next_producer_id) == (MAX_EPOCH, NEW_ID)
    completed = rules.complete(fenced, NOW)
    assert (completed.state, completed.producer_id, completed.producer_epoch) == (COMPLETE_ABORT, NEW_ID, 0)


def test_partitions_are_added_to_the_open_transaction() -> None:
    other = TopicPartition("orders", 1)

    def add(current: TransactionMetadata, *partitions: TopicPartition, epoch: int = 5, pending: bool = False) -> Any:
        return rules.add_partitions(
            current, 7, epoch, partitions, is_pending=pending, client_version=2, now_wall_ms=NOW
        )

    opened = add(metadata(COMPLETE_COMMIT), other)
    assert (opened.state, opened.partitions, opened.start_ms) == (ONGOING, {other}, NOW)
    more = add(metadata(ONGOING), other)
    assert (more.partitions, more.start_ms) == ({TP, other}, NOW - 500)
    assert add(metadata(ONGOING), TP) is ErrorCode.NONE
    assert add(metadata(PREPARE_ABORT), TP) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert add(metadata(ONGOING), TP, epoch=4) is ErrorCode.PRODUCER_FENCED
    assert add(metadata(ONGOING), TP, epoch=4, pending=True) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_timeouts() -> None:
    current = metadata(ONGOING)
    assert not current.is_overdue(NOW - 500 + 60_000)
    assert current.is_overdue(NOW - 500 + 60_001)
    assert not metadata(PREPARE_COMMIT).is_overdue(NOW * 2)
    assert not current._replace(timeout_ms=(1 << 31) - 1).is_overdue(NOW * 2)
    for state in TransactionState:
        assert metadata(state).is_expired(NOW, 100) == (state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
        assert not metadata(state).is_expired(NOW, 101)


@pytest.mark.parametrize("state", [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_state_survives_its_record(state: TransactionState) -> None:
    current = metadata(state, previous_producer_id=3, next_producer_id=9, client_version=2)
    assert from_value("txn", to_value(current)) == current
