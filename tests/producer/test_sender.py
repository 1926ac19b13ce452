"""Actions after an attempt to send a batch."""

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
from kcli.producer.batches import CallbackReceiver, Identity, ProducerBatch
from kcli.producer.sender import action_after, leaves_doubt
from kcli.protocol.records.record import NewRecords
from kcli.structs import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def batch(
    records: int = 2, attempts: int = 1, identity: Identity | None = None, tp: TopicPartition = A
) -> ProducerBatch:
    sent = ProducerBatch(tp, 0)
    sent.add(NewRecords([b""] * records, 0), CallbackReceiver(lambda _: None), 0)
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
