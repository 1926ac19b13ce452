"""The states of a transactional producer, and the meaning of error codes for its transaction. Pure.

A producer is UNINITIALIZED until the coordinator has given it a producer id, which fences older producers with the same
transactional id. Then it is READY, and OPEN between `begin` and `commit` or `abort`. An open transaction whose record
or offset is not stored has FAILED: it can only be aborted. COMMITTING and ABORTING last until the coordinator has
confirmed the end, over as many calls as that takes. A producer that was fenced, or whose coordinator answers what
cannot be, is FATAL for good.

Source: KIP-98, KIP-360, KIP-890, KIP-1050, and the error handling of Java's producer.
"""

from __future__ import annotations

from kcli.error_codes import ErrorCode

UNINITIALIZED, READY, OPEN, FAILED = "uninitialized", "ready", "open", "failed"
COMMITTING, ABORTING, FATAL = "committing", "aborting", "fatal"

INITIALIZE, BEGIN, FAIL, COMMIT, ABORT, END, DIE = "initialize", "begin", "fail", "commit", "abort", "end", "die"

#: (state, event) -> state. A missing pair is wrong use, or a bug.
TRANSITIONS = {
    (UNINITIALIZED, INITIALIZE): READY,
    (READY, BEGIN): OPEN,
    (OPEN, FAIL): FAILED,
    (OPEN, COMMIT): COMMITTING,
    (OPEN, ABORT): ABORTING,
    (FAILED, FAIL): FAILED,  # the first error counts
    (FAILED, ABORT): ABORTING,
    (COMMITTING, COMMIT): COMMITTING,  # the last call did not learn the outcome
    (COMMITTING, FAIL): FAILED,  # the coordinator demands an abort
    (COMMITTING, ABORT): ABORTING,  # no request of the commit was sent
    (COMMITTING, END): READY,
    (ABORTING, FAIL): ABORTING,
    (ABORTING, ABORT): ABORTING,
    (ABORTING, END): READY,
    (FATAL, FAIL): FATAL,
    **{(state, DIE): FATAL for state in (UNINITIALIZED, READY, OPEN, FAILED, COMMITTING, ABORTING, FATAL)},
}

# Codes of coordinators after which the transaction can be aborted, and the producer goes on. All others are fatal.
_ABORTABLE = {
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
# Codes of partition leaders after which no transaction of this producer can succeed.
_FATAL_IN_PRODUCE = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
#: Codes with which a coordinator refuses an epoch that is not the current one; brokers before 2.7 send the first.
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


def is_fatal_code(code: ErrorCode) -> bool:
    """Return whether no transaction of the producer can succeed after this code of a coordinator."""
    return code not in _ABORTABLE


def is_fatal_in_produce(code: ErrorCode) -> bool:
    """Return whether no transaction of the producer can succeed after this code for a batch.

    INVALID_PRODUCER_EPOCH is not among them: the following abort asks the coordinator, which knows whether the producer
    is fenced.
    """
    return code in _FATAL_IN_PRODUCE


def next_state(state: str, event: str) -> str:
    """Return the state after an event. Raise ValueError for a pair that is not in TRANSITIONS."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a producer that is {state} cannot {event}") from None
