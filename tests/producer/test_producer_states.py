"""The states of a transactional producer: every pair, and the codes that end the producer."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.producer.producer_states import TRANSITIONS, is_fatal_code, is_fatal_in_produce, next_state

STATES = ("uninitialized", "ready", "open", "failed", "committing", "aborting", "fatal")
EVENTS = {
    "initialize": {"uninitialized": "ready"},
    "begin": {"ready": "open"},
    "fail": {
        "open": "failed", "failed": "failed", "committing": "failed", "aborting": "aborting", "fatal": "fatal"
    },
    "commit": {"open": "committing", "committing": "committing"},
    "abort": {"open": "aborting", "failed": "aborting", "committing": "aborting", "aborting": "aborting"},
    "end": {"committing": "ready", "aborting": "ready"},
    "die": dict.fromkeys(STATES, "fatal"),
}  # fmt: skip


def test_every_pair_of_state_and_event() -> None:
    for event, allowed in EVENTS.items():
        for state in STATES:
            if state in allowed:
                assert next_state(state, event) == allowed[state]
            else:
                with pytest.raises(ValueError, match=f"that is {state} cannot {event}"):
                    next_state(state, event)
    assert len(TRANSITIONS) == sum(map(len, EVENTS.values()))


@pytest.mark.parametrize(
    ("code", "of_coordinator", "of_leader"),
    [
        (ErrorCode.PRODUCER_FENCED, True, True),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True, False),
        (ErrorCode.INVALID_TXN_STATE, True, False),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, True),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True),
        (ErrorCode.TRANSACTION_ABORTABLE, False, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False, False),
        (ErrorCode.ILLEGAL_GENERATION, False, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True, False),
        (ErrorCode.MESSAGE_TOO_LARGE, True, False),
    ],
)
def test_the_codes_that_end_the_producer(code: ErrorCode, of_coordinator: bool, of_leader: bool) -> None:
    assert (is_fatal_code(code), is_fatal_in_produce(code)) == (of_coordinator, of_leader)
