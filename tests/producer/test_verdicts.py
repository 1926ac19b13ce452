"""One error, one verdict."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, TimeoutExpired, UnsupportedVersion
from kcli.producer.batches import Identity, ProducerBatch
from kcli.producer.verdicts import judge, surely_not_stored
from kcli.protocol.records.record import NewRecord
from kcli.structs import TopicPartition


def batch(records: int = 2, attempts: int = 1, identity: Identity | None = None) -> ProducerBatch:
    made = ProducerBatch(TopicPartition("t", 0), 0)
    made.rows = [NewRecord(None, b"", 0)] * records
    made.attempts = attempts
    made.identity = identity
    return made


NUMBERED = Identity(1, 0, 0)


@pytest.mark.parametrize(
    ("error", "made", "verdict"),
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
def test_what_becomes_of_a_batch(error: KcliError | None, made: ProducerBatch, verdict: str) -> None:
    assert judge(made, error, max_retries=3) == verdict


def test_doubt() -> None:
    refused = BrokerError(ErrorCode.INVALID_RECORD)
    assert surely_not_stored(batch(attempts=1), refused)
    assert not surely_not_stored(batch(attempts=2), refused)
    assert not surely_not_stored(batch(), BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    assert not surely_not_stored(batch(), DisconnectedError("gone"))
    assert surely_not_stored(batch(attempts=0), TimeoutExpired("never sent"))
