"""State of a transactional id, and its transitions (KIP-98, KIP-890). Pure: no I/O, no clock.

A transition is a function of the present state and a request. It returns the next state, which becomes the present one
when its record is replicated, or an error code. Until then the id has a pending transition, and other requests get
CONCURRENT_TRANSACTIONS (51), so that the client tries again. NONE as an error code means that a request is a
repetition of one that has had its effect.

With transaction version 2 (KIP-890) each transaction has its own producer epoch: the end of a transaction increments
it, in the record that decides the outcome. A marker then carries an epoch that no record of the next transaction has
to share, and a late record of an ended transaction is recognized by its epoch.

Epoch 32767 is never given to a client, so that the coordinator can always fence: after 32766 the id of the producer
changes, and the epoch starts at 0 again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import NamedTuple, TypeAlias

from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition

NO_ID = -1
NO_EPOCH = -1
MAX_EPOCH = 32767
#: From this transaction version on, the end of a transaction increments the epoch.
EPOCH_PER_TRANSACTION = 2
# The timeout of a transaction that two-phase commit keeps open (KIP-939).
_WITHOUT_TIMEOUT = (1 << 31) - 1


class TransactionState(Enum):
    """State of a transactional id: its number in records, and its name in ListTransactions and DescribeTransactions."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __init__(self, number: int, shown: str) -> None:
        self.number = number
        self.shown = shown


_STATE = TransactionState
#: The outcome is decided, and markers are written.
PREPARED = frozenset({_STATE.PREPARE_COMMIT, _STATE.PREPARE_ABORT})
#: No transaction is open; the id may expire.
IDLE = frozenset({_STATE.EMPTY, _STATE.COMPLETE_COMMIT, _STATE.COMPLETE_ABORT})


class TransactionMetadata(NamedTuple):
    """A transactional id as its last record says. Times in ms since the epoch, -1 unknown.

    `last_producer_epoch` is the one before the present epoch, by which a retry of InitProducerId is recognized; it is
    not stored. `next_producer_id` is the one that the end of this transaction gives. `client_version` is the
    transaction version of the client: 0 classic, 2 with an epoch per transaction.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_ms: int
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """True if the next epoch must not be given to a client."""
        return self.producer_epoch >= MAX_EPOCH - 1

    def is_overdue(self, now_wall_ms: int) -> bool:
        """Return whether the open transaction has lasted longer than its timeout."""
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != _WITHOUT_TIMEOUT
            and self.start_ms + self.timeout_ms < now_wall_ms
        )

    def is_expired(self, now_wall_ms: int, expiration_ms: int) -> bool:
        """Return whether the id was not used for `expiration_ms`."""
        return self.state in IDLE and self.last_update_ms <= now_wall_ms - expiration_ms


Transition: TypeAlias = "TransactionMetadata | ErrorCode"
#: Return a new producer id. BrokerError if there is none at present.
NewProducerId: TypeAlias = Callable[[], int]


class EndRequest(NamedTuple):
    """A client's request to end its transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int


# ---- InitProducerId ----


def init_producer(
    current: TransactionMetadata,
    *,
    is_pending: bool,
    timeout_ms: int,
    expected: tuple[int, int] | None,
    new_producer_id: NewProducerId,
    now_wall_ms: int,
) -> Transition:
    """Give the id a new epoch, or a new producer id after the last epoch.

    `expected` are the producer id and epoch that the client has, None for a new one. NONE: a transaction is open and
    must be fenced first.
    """
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_continue(current, *expected):
        return ErrorCode.PRODUCER_FENCED
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is TransactionState.ONGOING:
        return ErrorCode.NONE
    expected_epoch = None if expected is None else expected[1]
    if current.is_epoch_exhausted and expected_epoch in (None, current.producer_epoch):
        producer_id, epoch = new_producer_id(), 0
        last_epoch = NO_EPOCH if expected is None else current.producer_epoch
    elif current.is_epoch_exhausted:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        producer_id, epoch, last_epoch = current.producer_id, current.producer_epoch + 1, NO_EPOCH
        if expected_epoch is None:
            pass
        elif current.producer_epoch in (NO_EPOCH, expected_epoch):
            last_epoch = current.producer_epoch
        elif expected_epoch == current.last_producer_epoch:  # a retry of a request that had its effect
            epoch, last_epoch = current.producer_epoch, current.last_producer_epoch
        else:
            return ErrorCode.PRODUCER_FENCED
    return current._replace(
        state=TransactionState.EMPTY,
        producer_id=producer_id,
        previous_producer_id=current.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=-1,
        last_update_ms=now_wall_ms,
    )


def _may_continue(current: TransactionMetadata, producer_id: int, epoch: int) -> bool:
    """Return whether the client may be the present producer; its epoch is compared later.

    A client that has not received the new producer id after the last epoch of the previous one may be it, too. If the
    id has just been created, the client recovers from its expiry.
    """
    if current.producer_epoch == NO_EPOCH or producer_id == current.producer_id:
        return True
    return producer_id == current.previous_producer_id and epoch >= MAX_EPOCH - 1


# ---- partitions ----


def verify(
    current: TransactionMetadata, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode] | ErrorCode:
    """Return for each partition whether it is in the open transaction: TRANSACTION_ABORTABLE if it is not."""
    error = _producer_error(current, producer_id, epoch)
    if error:
        return error
    return {tp: ErrorCode.NONE if tp in current.partitions else ErrorCode.TRANSACTION_ABORTABLE for tp in partitions}


def add_partitions(
    current: TransactionMetadata,
    producer_id: int,
    epoch: int,
    partitions: Collection[TopicPartition],
    *,
    is_pending: bool,
    client_version: int,
    now_wall_ms: int,
) -> Transition:
    """Add partitions to the transaction; the first ones open it. NONE: it has all of them."""
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error = _producer_error(current, producer_id, epoch)
    if error:
        return error
    is_open = current.state is TransactionState.ONGOING
    if is_open and current.partitions.issuperset(partitions):
        return ErrorCode.NONE
    return current._replace(
        state=TransactionState.ONGOING,
        previous_producer_id=current.producer_id,
        partitions=current.partitions.union(partitions),
        start_ms=current.start_ms if is_open else now_wall_ms,
        last_update_ms=now_wall_ms,
        client_version=client_version,
    )


def _producer_error(current: TransactionMetadata, producer_id: int, epoch: int) -> ErrorCode:
    if current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if current.state in PREPARED else ErrorCode.NONE


# ---- the end ----


def end(
    current: TransactionMetadata,
    request: EndRequest,
    *,
    is_pending: bool,
    new_producer_id: NewProducerId,
    now_wall_ms: int,
) -> Transition:
    """Decide the outcome of the transaction on a client's request. NONE: a repetition."""
    rules = _end_v2 if request.client_version >= EPOCH_PER_TRANSACTION else _end_v1
    error = rules(current, request, is_pending)
    if error is not None:
        return error
    state = TransactionState.PREPARE_COMMIT if request.is_commit else TransactionState.PREPARE_ABORT
    return _prepared(current, state, request.client_version, new_producer_id, now_wall_ms)


def _end_v1(current: TransactionMetadata, request: EndRequest, is_pending: bool) -> ErrorCode | None:
    """Return the error of a classic client, None if the transaction ends now."""
    if current.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is TransactionState.ONGOING:
        return None
    return _ended_error(current.state, request.is_commit)


def _end_v2(current: TransactionMetadata, request: EndRequest, is_pending: bool) -> ErrorCode | None:
    """Return the error of a client with an epoch per transaction, None if the transaction ends now.

    Such a client does not know whether its transaction has any partitions, so an abort without a transaction ends it,
    too. The epoch distinguishes this from a repetition, which has the epoch before the present one.
    """
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_after_last_epoch = (
        request.producer_id == current.previous_producer_id
        and request.producer_epoch == MAX_EPOCH - 1
        and current.producer_epoch == 0
    )
    if current.producer_id != request.producer_id and not is_after_last_epoch:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repetition = current.producer_epoch == request.producer_epoch + 1 or is_after_last_epoch
    is_current = current.producer_epoch == request.producer_epoch
    if current.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        is_valid = is_current
    elif current.state in PREPARED:
        is_valid = current.producer_epoch == request.producer_epoch + 1
    else:
        is_valid = is_current or is_repetition
    if not is_valid:
        return ErrorCode.PRODUCER_FENCED
    if current.state is TransactionState.ONGOING:
        return None
    if current.state in PREPARED or is_repetition:
        return _ended_error(current.state, request.is_commit)
    return ErrorCode.INVALID_TXN_STATE if request.is_commit else None


def _ended_error(state: TransactionState, is_commit: bool) -> ErrorCode:
    """Return the error of a request to end a transaction whose end is decided, or that was never open."""
    if state is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT):
        return ErrorCode.NONE
    if state is (TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE


def fence(
    current: TransactionMetadata,
    version: int,
    *,
    has_fenced: bool,
    new_producer_id: NewProducerId,
    now_wall_ms: int,
) -> TransactionMetadata:
    """Abort an open transaction in the coordinator's name, with an epoch that its producer does not have.

    `version` is the transaction version of the cluster. `has_fenced`: an earlier attempt has incremented the epoch in
    memory, but its record was not written (only before version 2).
    """
    if version < EPOCH_PER_TRANSACTION:
        current, version = fenced_in_memory(current, has_fenced=has_fenced), 0
    return _prepared(current, TransactionState.PREPARE_ABORT, version, new_producer_id, now_wall_ms)


def fenced_in_memory(current: TransactionMetadata, *, has_fenced: bool) -> TransactionMetadata:
    """Return an open transaction with the next epoch, as it stays in memory if the record of the end is not written."""
    epoch = current.producer_epoch if has_fenced else min(current.producer_epoch + 1, MAX_EPOCH)
    return current._replace(producer_epoch=epoch, last_producer_epoch=NO_EPOCH)


def _prepared(
    current: TransactionMetadata,
    state: TransactionState,
    client_version: int,
    new_producer_id: NewProducerId,
    now_wall_ms: int,
) -> TransactionMetadata:
    epoch, last_epoch, next_id = current.producer_epoch, current.last_producer_epoch, NO_ID
    if client_version >= EPOCH_PER_TRANSACTION:
        next_id = new_producer_id() if current.is_epoch_exhausted else NO_ID
        epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
    return current._replace(
        state=state,
        previous_producer_id=current.producer_id,
        next_producer_id=next_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        start_ms=current.start_ms if current.state is TransactionState.ONGOING else now_wall_ms,
        last_update_ms=now_wall_ms,
        client_version=client_version,
    )


def complete(current: TransactionMetadata, now_wall_ms: int) -> TransactionMetadata:
    """Return the state after all markers are written."""
    is_commit = current.state is TransactionState.PREPARE_COMMIT
    producer_id, epoch = current.producer_id, current.producer_epoch
    if current.client_version >= EPOCH_PER_TRANSACTION and current.next_producer_id != NO_ID:
        producer_id, epoch = current.next_producer_id, 0
    return current._replace(
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_ID,
        partitions=frozenset(),
        last_update_ms=now_wall_ms,
    )
