"""The hierarchy of errors: one sentence with evidence, pickling, retriability."""

from __future__ import annotations

import pickle

import pytest

from kcli import errors
from kcli.error_codes import ErrorCode
from kcli.errors import (
    BrokerError,
    DisconnectedError,
    IncompleteResponse,
    KcliError,
    TimeoutExpired,
    TopicAuthorizationError,
)

ALL = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, KcliError)]
CODES = {BrokerError: 3, TopicAuthorizationError: 29}


def test_evidence_follows_the_message_without_absent_values() -> None:
    error = DisconnectedError("closed by kafka-1:9092", node=1, api="Fetch", group=None)
    assert str(error) == "closed by kafka-1:9092 (node 1, request Fetch)"
    assert str(KcliError("nothing is known")) == "nothing is known"


@pytest.mark.parametrize("cls", ALL)
def test_every_error_pickles_with_its_evidence(cls: type[KcliError]) -> None:
    subject: object = CODES.get(cls, "the offset is out of range")
    error = cls(subject, topic="t", partition=0)  # type: ignore[arg-type]
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert (str(copy), copy.evidence, copy.retriable) == (str(error), error.evidence, error.retriable)


def test_a_broker_error_is_retriable_as_its_code() -> None:
    moved, refused = (
        BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not for you", topic="t"),
    )
    assert (moved.retriable, refused.retriable) == (True, False)
    assert str(refused) == "TOPIC_AUTHORIZATION_FAILED: not for you (topic t)"
    assert refused.detail == "not for you"
    assert (
        len(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "\N{GRINNING FACE}" * 32_767).detail.encode()) <= 32_767
    )
    assert BrokerError(9999).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_broker_error_of_a_refused_topic_has_a_class_of_its_own() -> None:
    """Producer and Admin make it with `topic`, consumers with `topics`; the text names each of them."""
    one = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, api="Produce", topic="t", partition=0)
    assert isinstance(one, TopicAuthorizationError)
    assert (one.code, one.topics) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, {"t"})
    code = "TOPIC_AUTHORIZATION_FAILED"
    assert str(one) == f"{code}: topic t: WRITE on the topic is denied (request Produce, partition 0)"
    some = TopicAuthorizationError.of(["b", "a", "b"], api="Fetch")
    assert (some.topics, str(some)) == (
        {"a", "b"},
        f"{code}: topics a, b: READ on the topics is denied (request Fetch)",
    )
    assert BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, resource="t").topics == {"t"}  # type: ignore[attr-defined]  # of DescribeConfigs
    assert BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the topic is secret").topics == frozenset()  # type: ignore[attr-defined]
    assert type(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, topic="t")) is BrokerError


def test_lost_connections_and_timeouts_are_retriable() -> None:
    classes = {cls for cls in ALL if not issubclass(cls, BrokerError) and cls.retriable}
    assert classes == {DisconnectedError, IncompleteResponse, TimeoutExpired}
