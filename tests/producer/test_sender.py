"""Actions after an attempt to send a batch, and sequence numbers after success, failure and doubt (KIP-98)."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.errors import (
    BrokerError,
    DisconnectedError,
    IncompleteResponse,
    KcliError,
    TimeoutExpired,
    UnsupportedVersion,
)
from kcli.producer.batches import Identity, ProducerBatch
from kcli.producer.sender import Sequences, action_after, leaves_doubt
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def batch(
    records: int = 2, attempts: int = 1, identity: Identity | None = None, tp: TopicPartition = A
) -> ProducerBatch:
    sent = ProducerBatch(tp, 0)
    sent.records = [NewRecord(None, b"", 0)] * records
    sent.attempts = attempts
    sent.identity = identity
    return sent


NUMBERED = Identity(1, 0, 0)


@pytest.mark.parametrize(
    ("error", "sent", "action"),
    [
        (None, batch(), "stored"),
        (BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER), batch(), "retry"),
        (BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS), batch(), "retry"),
        (DisconnectedError("gone"), batch(attempts=3), "retry"),
        (DisconnectedError("gone"), batch(attempts=4), "failed"),
        (BrokerError(ErrorCode.INVALID_RECORD), batch(), "failed"),
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), batch(), "failed"),
        (UnsupportedVersion("no common version"), batch(), "failed"),
        (BrokerError(ErrorCode.MESSAGE_TOO_LARGE), batch(records=2), "split"),
        (BrokerError(ErrorCode.MESSAGE_TOO_LARGE), batch(records=1), "failed"),
        (BrokerError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), batch(identity=NUMBERED), "stored"),
        (BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), batch(identity=NUMBERED), "retry-renewed"),
        (BrokerError(ErrorCode.UNKNOWN_PRODUCER_ID), batch(identity=NUMBERED), "retry-renewed"),
        (BrokerError(ErrorCode.UNKNOWN_PRODUCER_ID), batch(identity=NUMBERED, attempts=4), "failed"),
        (BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), batch(), "failed"),
    ],
)
def test_action_after_an_attempt(error: KcliError | None, sent: ProducerBatch, action: str) -> None:
    assert action_after(sent, error, max_retries=3) == action


def unsent() -> DisconnectedError:
    error = DisconnectedError("refused")
    error.was_sent = False
    return error


@pytest.mark.parametrize(
    ("error", "base_offset", "doubt"),
    [
        (None, 5, False),
        (DisconnectedError("closed before the answer"), -1, True),
        (unsent(), -1, False),
        (IncompleteResponse("no answer about the partition"), -1, True),
        (TimeoutExpired("could not be sent in time"), -1, False),
        (UnsupportedVersion("no common version"), -1, False),
        (BrokerError(ErrorCode.REQUEST_TIMED_OUT), -1, True),
        (BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), -1, True),
        (BrokerError(ErrorCode.KAFKA_STORAGE_ERROR), -1, True),
        (BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR), -1, True),
        (BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1, False),
        (BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER), 7, True),
        (BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS), -1, False),
        (BrokerError(ErrorCode.INVALID_RECORD), -1, False),
        (BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), -1, False),
    ],
)
def test_attempts_after_which_a_batch_may_be_stored(error: KcliError | None, base_offset: int, doubt: bool) -> None:
    """The table in the docstring of kcli.producer."""
    assert leaves_doubt(error, base_offset) is doubt


def assigned(sequences: Sequences, tp: TopicPartition, records: int = 3) -> ProducerBatch:
    new = batch(records, tp=tp)
    sequences.assign(new)
    return new


def doubtful(sent: ProducerBatch) -> ProducerBatch:
    sent.may_be_stored = True
    return sent


def sequences_with_id() -> Sequences:
    sequences = Sequences()
    assert not sequences.is_ready
    sequences.begin(7, 0)
    return sequences


def test_sequence_numbers_of_a_partition_follow_its_stored_records() -> None:
    sequences = sequences_with_id()
    first = assigned(sequences, A)
    assert first.identity == Identity(7, 0, 0)
    sequences.stored(first)
    assert assigned(sequences, A).identity == Identity(7, 0, 3)
    assert assigned(sequences, B).identity == Identity(7, 0, 0)


def test_a_retry_keeps_its_identity() -> None:
    sequences = sequences_with_id()
    first = assigned(sequences, A)
    sequences.begin(8, 0)
    sequences.assign(first)
    assert first.identity == Identity(7, 0, 0)


def test_sequence_numbers_of_a_batch_that_is_not_stored_are_reused() -> None:
    sequences = sequences_with_id()
    sequences.failed(assigned(sequences, A))
    assert sequences.is_ready
    assert assigned(sequences, A).identity == Identity(7, 0, 0)


def test_a_failed_batch_that_may_be_stored_ends_the_producer_id() -> None:
    sequences = sequences_with_id()
    other = assigned(sequences, B)
    sequences.failed(doubtful(assigned(sequences, A)))
    assert not sequences.is_ready
    sequences.begin(8, 0)
    sequences.stored(other)
    assert assigned(sequences, B).identity == Identity(8, 0, 0)


def test_a_failed_batch_with_an_older_producer_id_does_not_end_the_new_one() -> None:
    sequences = sequences_with_id()
    old = assigned(sequences, A)
    sequences.begin(8, 0)
    sequences.failed(doubtful(old))
    assert sequences.is_ready


def test_sequence_numbers_wrap_after_the_largest_int() -> None:
    sequences = sequences_with_id()
    new = batch(5, tp=A)
    new.identity = Identity(7, 0, (1 << 31) - 2)
    sequences.stored(new)
    assert assigned(sequences, A).identity == Identity(7, 0, 3)
