"""Exit statuses, and the status for each error.

| status | meaning | errors |
|---|---|---|
| 0 | done; also: the reader of the output pipe has closed it | |
| 1 | failed, as a whole or for an item | all errors not listed below; items that failed for different reasons; |
|   | | stdout is closed: nothing was done; it failed after a change: the |
|   | | change is made, and stderr says which |
| 2 | usage: the command line or a setting is invalid, nothing was sent | `ConfigError`, a mistyped command or option |
| 3 | no such topic, group, transactional id, or saved | UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, |
|   | state | GROUP_ID_NOT_FOUND, TRANSACTIONAL_ID_NOT_FOUND, |
|   | | INVALID_TOPIC_EXCEPTION (no topic can have this name; 1 when it is |
|   | | to be created); `NotFound` |
| 4 | refused, by a broker or by kcli itself | *_AUTHORIZATION_FAILED, SASL and policy refusals, groups in use, |
|   | | `Refused`, `AuthenticationError` |
| 5 | incomplete, or timed out; also: no broker is reachable; | `TimeoutExpired`, `DisconnectedError`, |
|   | the outcome of a change is unknown | `IncompleteResponse`, `OutcomeUnknown`, retriable error codes |
|   | | (they were repeated until the time was up) |
| 6 | a threshold was exceeded | |
| 130 | interrupted | |
"""

from collections.abc import Iterable

from kcli.error_codes import ErrorCode
from kcli.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    DisconnectedError,
    IncompleteResponse,
    KcliError,
    NotFound,
    OutcomeUnknown,
    Refused,
    TimeoutExpired,
)

DONE = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
REFUSED = 4
INCOMPLETE = 5
THRESHOLD = 6
INTERRUPTED = 130

MEANINGS = {
    DONE: "Done.",
    FAILED: "Failed, as a whole or for at least one item.",
    USAGE: "The command line or a setting is invalid; nothing was sent.",
    NOT_FOUND: "The topic, group, transactional id or saved state does not exist.",
    REFUSED: "Refused, by a broker or by kcli itself.",
    INCOMPLETE: "Incomplete or timed out; also: no broker is reachable.",
    THRESHOLD: "A threshold was exceeded.",
    INTERRUPTED: "Interrupted.",
}

_NOT_FOUND = {
    "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_TOPIC_ID",
    "INVALID_TOPIC_EXCEPTION",
    "GROUP_ID_NOT_FOUND",
    "TRANSACTIONAL_ID_NOT_FOUND",
}
_REFUSED = {
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "SECURITY_DISABLED",
    "POLICY_VIOLATION",
    "TOPIC_DELETION_DISABLED",
    "NON_EMPTY_GROUP",
    "GROUP_SUBSCRIBED_TO_TOPIC",
}


def status_of(error: BaseException) -> int:
    """Return the exit status for this error."""
    if isinstance(error, KcliError) and error.possibly_stored:
        return INCOMPLETE
    if isinstance(error, ConfigError):
        return USAGE
    if isinstance(error, BrokerError):
        return status_of_code(error.code)
    if isinstance(error, NotFound):
        return NOT_FOUND
    if isinstance(error, Refused | AuthenticationError):
        return REFUSED
    if isinstance(error, TimeoutExpired | DisconnectedError | IncompleteResponse | OutcomeUnknown):
        return INCOMPLETE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FAILED


def status_of_code(code: ErrorCode) -> int:
    """Return the exit status for a broker's error code."""
    if code == 0:
        return DONE
    if code.name in _NOT_FOUND:
        return NOT_FOUND
    if code.name in _REFUSED:
        return REFUSED
    return INCOMPLETE if code.retriable else FAILED


def status_of_all(errors: Iterable[BaseException | None]) -> int:
    """Return one status for many items: `DONE` if none failed, the common status of the failed ones, else `FAILED`."""
    statuses = {status_of(error) for error in errors if error is not None}
    if not statuses:
        return DONE
    return statuses.pop() if len(statuses) == 1 else FAILED
