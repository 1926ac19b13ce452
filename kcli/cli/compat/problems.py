"""What Apache's tools say when something fails: its Java name and its words. Pure.

The names and words are the interface that scripts search for; they were read off the tools of 4.3.1 as they ran.
"""

from __future__ import annotations

from kcli.cli import exit_status
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, TimeoutExpired

_PACKAGE = "org.apache.kafka.common.errors."
WRAPPED = "java.util.concurrent.ExecutionException: "

# By code the class in Java, and its words where the tool prints no others.
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


class Misused(Exception):
    """The command line cannot be carried out as it stands. The tool says so on standard error, ahead of its usage."""


class Failed(Exception):
    """The tool gives up with these words after `Executing consumer group command failed due to`."""

    def __init__(self, message: str, status: int = exit_status.FAILED) -> None:
        self.message = message
        self.status = status
        super().__init__(message)


def words_of(error: KcliError) -> str:
    """Java's words for an error; kcli's own where it does not know Java's."""
    if isinstance(error, BrokerError) and error.code in _CLASSES:
        return _CLASSES[error.code][1]
    return str(error)


def java(error: KcliError, words: str | None = None) -> str:
    """The error as Java prints it: class and words."""
    if isinstance(error, BrokerError) and error.code in _CLASSES:
        name = _PACKAGE + _CLASSES[error.code][0]
    elif isinstance(error, TimeoutExpired | DisconnectedError):
        name = _PACKAGE + "TimeoutException"
    else:
        name = "org.apache.kafka.common.KafkaException"
    return f"{name}: {words or words_of(error)}"


def failure(error: KcliError, words: str | None = None, *, wrapped: bool = False) -> Failed:
    """The tool's end because of this error; `wrapped` once more, as where it asked from within another call."""
    text = java(error, words)
    return Failed(WRAPPED + text if wrapped else text, exit_status.status_of(error))
