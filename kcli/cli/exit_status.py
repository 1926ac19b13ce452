"""The one list of exit statuses, and which error becomes which.

| status | meaning | errors |
|---|---|---|
| 0 | done; also: the reader of our pipe went away | |
| 1 | failed, as a whole or for any item | everything not named below, items that failed for different reasons |
| 2 | usage: the command line or a setting is wrong, nothing was sent | `ConfigError`, a mistyped command or option |
| 3 | no such topic, group, or saved state | UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, GROUP_ID_NOT_FOUND, and |
|   | | INVALID_TOPIC_EXCEPTION: a name that no topic can have; `NotFound` |
| 4 | refused, by a broker or by kcli itself | *_AUTHORIZATION_FAILED, SASL and policy refusals, groups in use, and |
|   | | `Refused`: what kcli itself will not do |
| 5 | incomplete, or out of time: an unreachable broker too | `TimeoutExpired`, `DisconnectedError`, REQUEST_TIMED_OUT |
| 6 | a threshold was exceeded | |
| 130 | interrupted | |
"""

from collections.abc import Iterable

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, DisconnectedError, NotFound, Refused, TimeoutExpired

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
    FAILED: "Failed, wholly or for one item.",
    USAGE: "Wrong usage; nothing was sent.",
    NOT_FOUND: "There is no such topic or group.",
    REFUSED: "Refused, by a broker or by kcli itself.",
    INCOMPLETE: "Incomplete or out of time.",
    THRESHOLD: "A threshold was exceeded.",
    INTERRUPTED: "Interrupted.",
}

_NOT_FOUND = {"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INVALID_TOPIC_EXCEPTION", "GROUP_ID_NOT_FOUND"}
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
_INCOMPLETE = {"REQUEST_TIMED_OUT"}


def status_of(error: BaseException) -> int:
    """The exit status that stands for this error."""
    if isinstance(error, ConfigError):
        return USAGE
    if isinstance(error, BrokerError):
        return status_of_code(error.code)
    if isinstance(error, NotFound):
        return NOT_FOUND
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, TimeoutExpired | DisconnectedError):
        return INCOMPLETE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return FAILED


def status_of_code(code: ErrorCode) -> int:
    """The exit status that stands for a broker's error code."""
    if code == 0:
        return DONE
    if code.name in _NOT_FOUND:
        return NOT_FOUND
    if code.name in _REFUSED:
        return REFUSED
    return INCOMPLETE if code.name in _INCOMPLETE else FAILED


def status_of_all(errors: Iterable[BaseException | None]) -> int:
    """One status for many items: `DONE` if none failed, the common status of those that did, else `FAILED`."""
    statuses = {status_of(error) for error in errors if error is not None}
    if not statuses:
        return DONE
    return statuses.pop() if len(statuses) == 1 else FAILED
