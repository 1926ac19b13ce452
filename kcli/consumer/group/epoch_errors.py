"""What the error codes of ConsumerGroupHeartbeat mean for a member, as Kafka's Java client takes them. Pure."""

from __future__ import annotations

from typing import Literal

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, UnsupportedVersion

Reaction = Literal[
    "retry",  # again after a pause
    "find",  # the coordinator is elsewhere: find it, then again
    "fence",  # the partitions are lost; join anew
    "report",  # raise it, but stay a member: it may be mended meanwhile
    "fail",  # raise it, now and at every poll
]

REACTIONS: dict[ErrorCode, Reaction] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "retry",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "find",
    ErrorCode.NOT_COORDINATOR: "find",
    ErrorCode.FENCED_MEMBER_EPOCH: "fence",
    ErrorCode.UNKNOWN_MEMBER_ID: "fence",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "report",
    ErrorCode.FENCED_INSTANCE_ID: "fail",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "fail",
    ErrorCode.GROUP_ID_NOT_FOUND: "fail",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "fail",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "fail",
    ErrorCode.INVALID_REQUEST: "fail",
    ErrorCode.UNRELEASED_INSTANCE_ID: "fail",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "fail",
    ErrorCode.UNSUPPORTED_VERSION: "fail",
}

_TOO_OLD = (
    "the broker does not speak the group protocol of KIP-848: set group.protocol=classic, or use Kafka 4.0 or newer"
)


def reaction_to(error: KcliError, epoch: int) -> Reaction:
    """What to do about a heartbeat that failed, sent at this member epoch (0: joining).

    A group that is not there is deleted behind the back of a member (it joins anew), but no consumer group to one that
    joins. A code that the table lacks is retried if that is its nature.
    """
    if not isinstance(error, BrokerError):
        return "find" if error.retriable else "fail"
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND and epoch > 0:
        return "fence"
    return REACTIONS.get(error.code, "retry" if error.code.retriable else "fail")


def explain(error: KcliError, group: str, instance_id: str | None) -> KcliError:
    """The error as the application gets it: which group, whose instance, and what can be done where we know."""
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(f"group {group} cannot be joined: {_TOO_OLD}")
    if not isinstance(error, BrokerError):
        return error
    shown = {"api": "ConsumerGroupHeartbeat", "group": group, "instance": instance_id}
    if error.code == ErrorCode.UNSUPPORTED_VERSION:
        return BrokerError(error.code, _TOO_OLD, **shown)
    return BrokerError(error.code, _said(error), **shown)


def _said(error: BrokerError) -> str | None:
    """The broker's own words without the name of the code, which comes by itself."""
    return error.message.removeprefix(f"{error.code.name}: ") or None
