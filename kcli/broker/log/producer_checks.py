"""One producer of a partition, and the checks before its batch or marker is appended (KIP-98, KIP-890).

Kafka's ProducerAppendInfo and VerificationStateEntry. Pure: a batch and the state of its producer go in, a refusal or a
duplicate comes out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

if TYPE_CHECKING:
    from kcli.protocol.records.batch import BatchInfo

NO_EPOCH = -1
REMEMBERED_BATCHES = 5
MAX_SEQUENCE = (1 << 31) - 1
_MAX_EPOCH = (1 << 15) - 1
_EPOCH_PER_TRANSACTION = 2  # the first transaction version with it


class TransactionMarker(NamedTuple):
    """The end of a transaction, as its coordinator decides it.

    `coordinator_epoch` is the leader epoch of the coordinator's partition of `__transaction_state`.
    `transaction_version` is that of the transaction's client: 0 and 1 classic, 2 one epoch per transaction (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class WrittenBatch(NamedTuple):
    """Sequence numbers and offsets of a batch that a producer wrote."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerState:
    """One producer: its epoch, its last batches, and the first offset of its open transaction (-1: none)."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "transaction_offset")

    def __init__(self, epoch: int = NO_EPOCH, last_timestamp_ms: int = -1) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp_ms = last_timestamp_ms
        self.transaction_offset = -1
        self.batches: deque[WrittenBatch] = deque(maxlen=REMEMBERED_BATCHES)

    def __repr__(self) -> str:
        last = self.batches[-1] if self.batches else None
        return f"<ProducerState epoch={self.epoch} last={last}>"

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record that the producer wrote in its present epoch, else -1."""
        return self.batches[-1].last_sequence if self.batches else -1

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; sequence numbers restart with each epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class Duplicate(NamedTuple):
    """The offsets of a batch that was already appended."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


class Verification:
    """A producer whose transaction is verified at its coordinator, until its first batch is appended (KIP-890).

    That batch must come with this very object. A marker that is written while the coordinator answers removes it from
    the log, because the answer is then about a transaction that has ended. `adds`: the coordinator adds the partition,
    so the producer has an epoch for each transaction. `lowest_sequence` is the lowest one that waits in `epoch`:
    higher ones must not be appended before it.
    """

    __slots__ = ("adds", "created_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, adds: bool, created_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.adds = adds
        self.created_ms = created_ms

    def __repr__(self) -> str:
        return f"<Verification epoch={self.epoch} sequence={self.lowest_sequence}>"

    def include(self, epoch: int, sequence: int) -> None:
        """Take another batch of the producer that waits for the same verification."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


#: Goes with a batch whose transaction needs no verification (transaction.partition.verification.enable=false).
NOT_VERIFIED = Verification(NO_EPOCH, -1, adds=False, created_ms=0)


def is_in_transaction(state: ProducerState | None, epoch: int) -> bool:
    """Return True if the producer has a transaction open in the log in this epoch."""
    return state is not None and state.transaction_offset >= 0 and state.epoch == epoch


def find_duplicate(info: BatchInfo, state: ProducerState) -> Duplicate | None:
    """Return the batch of the same epoch and sequence numbers among the last ones of the producer."""
    if info.producer_epoch == state.epoch:
        for previous in state.batches:
            if (previous.base_sequence, previous.last_sequence) == (info.base_sequence, info.last_sequence):
                return Duplicate(previous.base_offset, previous.last_offset, previous.timestamp_ms)
    return None


def check_epoch(producer_id: int, epoch: int, state: ProducerState | None) -> None:
    """Refuse with INVALID_PRODUCER_EPOCH a batch of a producer that a newer instance has replaced."""
    known = NO_EPOCH if state is None else state.epoch
    if epoch < known:
        reason = f"the producer's epoch {epoch} is older than {known}"
        raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, reason, producer_id=producer_id)


def check_transaction(
    info: BatchInfo, state: ProducerState | None, pending: Verification | None, given: Verification | None
) -> None:
    """Check that the coordinator knows that the partition takes part in the transaction of this batch.

    `pending` is the verification that the log has for the producer, `given` the one that came with the batch.
    INVALID_TXN_STATE if they are not the same one and the log has no open transaction of the producer.
    """
    if is_in_transaction(state, info.producer_epoch):
        return
    check_epoch(info.producer_id, info.producer_epoch, state)
    if given is not NOT_VERIFIED and (given is None or given is not pending):
        reason = "the record batch is not part of an ongoing transaction"
        raise BrokerError(ErrorCode.INVALID_TXN_STATE, reason, producer_id=info.producer_id)


def check_sequence(info: BatchInfo, state: ProducerState | None, pending: Verification | None) -> None:
    """Check that a client's batch continues the previous one; OUT_OF_ORDER_SEQUENCE_NUMBER if it does not.

    An unknown producer may start with any number, because its state may have been removed by retention or expiry,
    unless each of its transactions has an epoch of its own and starts at 0.
    """
    sequence, expected = info.base_sequence, -1
    if pending is not None and sequence > pending.lowest_sequence:
        expected = pending.lowest_sequence
    elif pending is not None and pending.adds and (state is None or not state.batches):
        expected = 0
    elif state is None or state.epoch == NO_EPOCH:
        return
    elif info.producer_epoch != state.epoch:
        expected = 0
    else:
        expected = 0 if state.last_sequence == MAX_SEQUENCE else state.last_sequence + 1
    if sequence != expected:
        reason = f"the sequence number is {sequence}, expected {expected}"
        raise BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, reason, producer_id=info.producer_id)


def check_kind(info: BatchInfo, state: ProducerState | None) -> None:
    """Refuse with INVALID_TXN_STATE a batch outside of the producer's open transaction."""
    if state is not None and state.transaction_offset >= 0 and not info.is_transactional:
        reason = f"the producer has a transaction open since offset {state.transaction_offset}"
        raise BrokerError(ErrorCode.INVALID_TXN_STATE, reason, producer_id=info.producer_id)


def check_marker(marker: TransactionMarker, state: ProducerState | None) -> None:
    """Check the epochs of a marker: INVALID_PRODUCER_EPOCH, or TRANSACTION_COORDINATOR_FENCED.

    With an epoch per transaction a marker has a newer epoch than the records that it ends. One of the same epoch is a
    retry of the marker that ended them, and harmless if nothing was written since. As Kafka does, accept the largest
    epoch at any time, because no newer one can end that transaction.
    """
    if state is None:
        state = ProducerState()
    epoch = marker.producer_epoch
    if marker.transaction_version >= _EPOCH_PER_TRANSACTION and epoch == state.epoch:
        is_valid = state.transaction_offset < 0 or epoch == _MAX_EPOCH
    else:
        is_valid = epoch >= state.epoch
    if not is_valid:
        reason = f"the marker's epoch {epoch} does not follow the producer's {state.epoch}"
        raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, reason, producer_id=marker.producer_id)
    if marker.coordinator_epoch < state.coordinator_epoch:
        reason = f"the coordinator's epoch {marker.coordinator_epoch} is older than {state.coordinator_epoch}"
        raise BrokerError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, reason, producer_id=marker.producer_id)
