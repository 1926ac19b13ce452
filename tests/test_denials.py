"""The sentences of refusals: operation, resource and principal."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kcli import denials
from kcli.cli.exit_status import REFUSED, status_of
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.wire import Message
from kcli.structs import ANONYMOUS

E = ErrorCode


@pytest.mark.parametrize(
    ("code", "evidence", "sentence"),
    [
        (E.TOPIC_AUTHORIZATION_FAILED, {"api": "Fetch", "topic": "t"}, "topic t: READ on the topic is denied"),
        (E.TOPIC_AUTHORIZATION_FAILED, {"api": "Produce", "topic": "t"}, "topic t: WRITE on the topic is denied"),
        (
            E.TOPIC_AUTHORIZATION_FAILED,
            {"api": "Metadata", "topic": "t"},
            "topic t: DESCRIBE on the topic is denied, or the topic does not exist",
        ),
        (
            E.TOPIC_AUTHORIZATION_FAILED,
            {"api": "Metadata", "topics": "a, b"},
            "topics a, b: DESCRIBE on the topics is denied, or they do not exist",
        ),
        (E.GROUP_AUTHORIZATION_FAILED, {"api": "JoinGroup", "group": "g"}, "group g: READ on the group is denied"),
        (E.GROUP_AUTHORIZATION_FAILED, {"api": "DeleteGroups", "group": "g"}, "group g: DELETE on the group is denied"),
        (
            E.GROUP_AUTHORIZATION_FAILED,
            {"api": "DescribeGroups", "group": "g"},
            "group g: DESCRIBE on the group is denied, or the group does not exist",
        ),
        (E.CLUSTER_AUTHORIZATION_FAILED, {"api": "DescribeLogDirs"}, "DESCRIBE on the cluster is denied"),
        (
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            {"api": "DescribeTransactions", "transactional_id": "x"},
            "transactional id x: DESCRIBE on the transactional id is denied",
        ),
        (E.GROUP_AUTHORIZATION_FAILED, {"api": "NewApi", "group": "g"}, "group g: an operation on the group is denied"),
    ],
)
def test_the_sentence_names_operation_and_resource(code: ErrorCode, evidence: dict[str, Any], sentence: str) -> None:
    error = BrokerError(code, "internal words of the broker", **evidence)
    assert error.message == f"{code.name}: {sentence}"
    assert str(error) == f"{error.message} (request {evidence['api']})"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert status_of(error) == REFUSED


def test_the_request_is_not_printed() -> None:
    error = BrokerError(E.GROUP_AUTHORIZATION_FAILED, request="OffsetCommit", group="billing", partition=3)
    assert str(error) == "GROUP_AUTHORIZATION_FAILED: group billing: READ on the group is denied (partition 3)"
    assert "request" not in error.evidence


def test_a_broker_that_raises_a_refusal_keeps_its_words() -> None:
    assert BrokerError(E.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.").detail == "Authorization failed."


def refused(response: Message) -> str:
    return response.broker_error(E.GROUP_AUTHORIZATION_FAILED, group="billing").detail


def test_the_principal_is_that_of_the_response() -> None:
    for_x, for_y = JoinGroupResponse(), JoinGroupResponse()
    for_x.principal, for_y.principal = "User:x", "User:y"  # type: ignore[misc]
    assert refused(for_x) == "group billing: READ on the group is denied for User:x"
    assert refused(for_y) == "group billing: READ on the group is denied for User:y"
    assert repr(for_x) == repr(for_y) == repr(JoinGroupResponse())


@pytest.mark.parametrize("principal", [None, ANONYMOUS])
def test_a_principal_without_a_user_name_is_left_out(principal: str | None) -> None:
    error = BrokerError(E.GROUP_AUTHORIZATION_FAILED, api="JoinGroup", group="billing", principal=principal)
    assert error.detail == "group billing: READ on the group is denied"


def test_an_absent_topic_may_be_forbidden_on_a_secured_connection() -> None:
    def absent(principal: str | None) -> str:
        code = E.UNKNOWN_TOPIC_OR_PARTITION
        return BrokerError(code, "there is no topic t", request="Metadata", principal=principal).detail

    assert absent(ANONYMOUS) == "there is no topic t"
    assert absent(None) == "there is no topic t, or DESCRIBE on it is denied"
    assert absent("User:x") == "there is no topic t, or DESCRIBE on it is denied for User:x"


def test_every_code_of_an_authorizer_has_a_sentence() -> None:
    for code in ErrorCode.all():
        has_sentence = denials.denial(code, "Fetch", {}, ANONYMOUS) is not None
        assert has_sentence == code.name.endswith("_AUTHORIZATION_FAILED")
