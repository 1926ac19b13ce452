"""What becomes of a batch after an attempt to send it. Pure: an error and the batch's past in, one word out."""

from __future__ import annotations

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.producer.batches import ProducerBatch

# STORED: the broker has it. RETRY: send it again as it is. RETRY_RENEWED: send it again under a new producer id, since
# the broker has lost count, so that this very batch cannot be there. SPLIT: send it as two. FAILED: tell the caller.
STORED, RETRY, RETRY_RENEWED, SPLIT, FAILED = "stored", "retry", "retry-renewed", "split", "failed"

_LOST_COUNT = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}


def judge(batch: ProducerBatch, error: KcliError | None, *, max_retries: int) -> str:
    """The verdict on an attempt that ended with `error` (None: with success)."""
    if error is None:
        return STORED
    code = error.code if isinstance(error, BrokerError) else None
    if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return STORED  # so long ago that the broker has forgotten at which offset
    if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.rows) > 1:
        return SPLIT
    if batch.attempts > max_retries:
        return FAILED
    if code in _LOST_COUNT and batch.identity is not None:
        return RETRY_RENEWED
    return RETRY if error.retriable else FAILED


def surely_not_stored(batch: ProducerBatch, error: KcliError) -> bool:
    """The broker refused the only attempt: no earlier one can have left the records behind."""
    if not isinstance(error, BrokerError):
        return batch.attempts == 0
    return batch.attempts <= 1 and error.code not in _STORED_ALL_THE_SAME


# Appended, but not by as many replicas as asked for, or not in time to know.
_STORED_ALL_THE_SAME = {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT}
