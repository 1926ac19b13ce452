"""What can go wrong, as exceptions that blame someone and carry evidence. Ground: imports only the error codes."""

from __future__ import annotations

from typing import Any

from kcli.error_codes import ErrorCode


class KcliError(Exception):
    """Anything kcli reports on purpose. `retriable` says whether the same call may succeed later.

    Keyword evidence is kept as `evidence`, printed behind the message, and survives pickling.
    """

    retriable = False

    def __init__(self, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = evidence

    def __str__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in self.evidence.items() if v is not None)
        return f"{self.message} ({shown})" if shown else self.message

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[KcliError], args: tuple[Any, ...], state: dict[str, Any]) -> KcliError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(KcliError):
    """A setting that is unknown, malformed, or contradicts another. A usage error: nothing was sent."""


class NotFound(KcliError):
    """What was meant is not there, by what kcli itself knows."""


class Refused(KcliError):
    """kcli itself will not do it, because of how things are: nothing was changed."""


class ProtocolError(KcliError):
    """Bytes that are not what the protocol says, or a message that a version cannot carry."""


class UnsupportedVersion(KcliError):
    """No version of an API that both sides speak; the message names both ranges."""


class CorruptRecords(KcliError):
    """A record batch that fails its checks. Evidence: topic, partition, offset, what was wrong."""


class DisconnectedError(KcliError):
    """The connection to a node went away with the request unanswered."""

    retriable = True


class TimeoutExpired(KcliError):
    """A deadline passed. Evidence: what was awaited."""

    retriable = True


class WakeupError(KcliError):
    """Another thread asked the poll to return."""


class BrokerError(KcliError):
    """A broker answered with an error code. `code` is an `ErrorCode`, `UNKNOWN_SERVER_ERROR` for a number we lack."""

    def __init__(self, code: int, message: str | None = None, **evidence: Any) -> None:
        self.code = ErrorCode.of(code)
        text = f"{self.code.name}: {message or self.code.text}"
        super().__init__(text, **evidence)

    @property
    def detail(self) -> str:
        """The message without the name of the error code, as a response carries it beside the code."""
        return self.message.partition(": ")[2]

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        return self.code.retriable


class OffsetOutOfRange(KcliError):
    """The position is not in the log: before its start or beyond its end.

    Evidence: topic, partition, offset; or, for several partitions, each with its offset.
    """


class NoOffset(KcliError):
    """There is no committed offset and `auto.offset.reset` is none. Evidence: group, partitions."""


class CommitFailed(KcliError):
    """The member's generation has ended, so its partitions may belong to another member, and nothing was committed.

    The records read since the last commit will be read again by the new owner. Evidence: group, code (the broker's).
    """


class LogTruncated(KcliError):
    """What was read before the position is no longer what the log holds (KIP-320): an unclean leader election.

    Evidence: topic, partition, offset (the position), epoch (of the record before it), end_offset (where the log and
    what was read part ways; -1 unknown), end_epoch.
    """


class RecordTooLarge(KcliError):
    """A broker cut a batch off at the fetch limit. Evidence: topic, partition, offset, received (bytes)."""
