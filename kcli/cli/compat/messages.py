"""Messages and tables of Apache's group tool: Java's class and message of each error, and its table layout. Pure.

Scripts search for these texts. They were copied from the output of the tools of 4.3.1. The table layout is Apache's
too, which no library makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kcli.cli import exit_status
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, OutcomeUnknown, TimeoutExpired
from kcli.visible import visible

_PACKAGE = "org.apache.kafka.common.errors."
WRAPPED = "java.util.concurrent.ExecutionException: "

# The class in Java by error code, and its default message.
_CLASSES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("TopicAuthorizationException", "Topic authorization failed."),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("ClusterAuthorizationException", "Cluster authorization failed."),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
}


class InvalidUsage(Exception):
    """An invalid command line, with the tool's message, which goes to stderr before the usage."""


class Failed(Exception):
    """The end of the tool, with its message after `Executing consumer group command failed due to`."""

    def __init__(self, message: str, status: int = exit_status.FAILED) -> None:
        self.message = message
        self.status = status
        super().__init__(message)


def message_of(error: KcliError) -> str:
    """Return Java's message for an error; kcli's own if Java's is unknown."""
    if isinstance(error, BrokerError) and error.code in _CLASSES:
        return _CLASSES[error.code][1]
    return str(error)


def java_error(error: KcliError, message: str | None = None) -> str:
    """Return the error as Java prints it: class and message."""
    if isinstance(error, BrokerError) and error.code in _CLASSES:
        name = _PACKAGE + _CLASSES[error.code][0]
    elif isinstance(error, TimeoutExpired | DisconnectedError | OutcomeUnknown):
        name = _PACKAGE + "TimeoutException"
    else:
        name = "org.apache.kafka.common.KafkaException"
    return f"{name}: {message or message_of(error)}"


def failure(error: KcliError, message: str | None = None, *, wrapped: bool = False) -> Failed:
    """Return the tool's failure for this error; `wrapped`: as an error of a nested call."""
    text = java_error(error, message)
    return Failed(WRAPPED + text if wrapped else text, exit_status.status_of(error))


MISSING = "-"

Cells = Sequence[str]


def table(heading: Cells, rows: Iterable[Cells], widths: Sequence[int | None], growing: Collection[int] = ()) -> str:
    """Return a table with a blank between columns, each at least as wide as its width; None: as wide as its value.

    A column in `growing` is as wide as its longest value; in the others a long value moves the rest of its line.
    """
    lines = [heading, *rows]
    grown = [
        max(width, *(len(line[at]) for line in lines)) if width is not None and at in growing else width
        for at, width in enumerate(widths)
    ]
    return "".join(
        " ".join(cell if width is None else cell.ljust(width) for cell, width in zip(line, grown, strict=True)) + "\n"
        for line in lines
    )


def cell(value: object | None) -> str:
    """Return a value as a cell; `-` for None. Control characters are escaped."""
    if value is None:
        return MISSING
    return visible(str(value))
