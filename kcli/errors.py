"""The hierarchy of errors: each prints one sentence, names what failed in its evidence, and pickles.

All errors that kcli raises on purpose derive from `KcliError`. Packages derive more from these where they add data.
Ground: imports only error codes and structs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcli.error_codes import ErrorCode
from kcli.structs import ANONYMOUS


class KcliError(Exception):
    """The base of all errors. `retriable`: the same call may succeed later.

    `message` is one sentence. `evidence` holds the keyword arguments (api, node, group, topic, partition, ...), which
    are printed after the message and survive pickling. `possibly_stored` is set on the error of a produced record: a
    broker may have stored the record all the same.
    """

    retriable = False
    possibly_stored = False
    _said: tuple[str, ...] = ()  # evidence that is part of the message

    def __init__(self, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = evidence

    def __str__(self) -> str:
        printed = (
            _in_words(name, value)
            for name, value in self.evidence.items()
            if value is not None and name not in self._said
        )
        shown = ", ".join(printed)
        sentence = f"{self.message} ({shown})" if shown else self.message
        if sentence.isascii() and sentence.isprintable():
            return sentence
        from kcli.visible import visible

        return visible(sentence)

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args, self.__dict__)


def _in_words(name: str, value: Any) -> str:
    """Return one piece of evidence, such as `group billing`; for a partition and its offset `orders-0 at 7`."""
    word = {"awaited": "while it waited for", "api": "request"}.get(name) or name.replace("_", " ")
    return f"{word}{'' if name.isidentifier() else ' at'} {repr('') if value == '' else value}"


def _rebuild(cls: type[KcliError], args: tuple[Any, ...], state: dict[str, Any]) -> KcliError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


# Raised before a request


class ConfigError(KcliError):
    """A setting or an argument is unknown, malformed or contradicts another. Nothing was sent."""


class NotFound(KcliError):
    """Something that the call names does not exist, as far as kcli itself can tell."""


class Refused(KcliError):
    """kcli does not carry out the call because of the state of the cluster. Nothing was changed."""


# Connections and the protocol


class ProtocolError(KcliError):
    """Bytes that violate the protocol, or a message that a version of it cannot carry."""


class IncompleteResponse(ProtocolError):
    """A response lacks an element that its request asked for. The same request may succeed later."""

    retriable = True


class UnsupportedVersion(KcliError):
    """Client and broker have no version of an API in common; the message names both ranges."""


class DisconnectedError(KcliError):
    """The connection to a node closed before the response, or after a response that cannot be decoded.

    Evidence: api, node. `was_sent`: the request was completely written, so the broker may have carried it out.
    """

    retriable = True
    was_sent = True


class AuthenticationError(KcliError):
    """TLS or SASL with a broker failed, and a repetition would fail as well: a certificate, a password, a mechanism.

    The message names the broker's address, the cause and the cure.
    """


class TimeoutExpired(KcliError):
    """A deadline passed. Evidence: awaited (the missing response or state)."""

    retriable = True


class OutcomeUnknown(KcliError):
    """A change was sent, its response was lost, and a later look at the cluster did not show whether it was made.

    Evidence: that of the lost response.
    """


class WakeupError(KcliError):
    """`wakeup` was called, by another thread or by a signal handler, and has interrupted a call that waited."""


class ForkedClient(KcliError):
    """A client was used in a process that was forked from the one that made it. Nothing was sent.

    Evidence: made_in, used_in (process ids).
    """

    _said = ("made_in", "used_in")


class ConcurrentUse(KcliError):
    """A thread called an object that another thread is using, and that belongs to one thread at a time.

    Nothing was done.
    """


_MAY_BE_DENIED = frozenset(code for code in ErrorCode.all() if code.name.endswith("_AUTHORIZATION_FAILED")) | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


# At most 4 bytes each in UTF-8; a string of Kafka has at most 32,767 bytes.
_MAX_DETAIL_CHARACTERS = 8000


class BrokerError(KcliError):
    """A broker responded with an error code.

    `code` is an `ErrorCode`; UNKNOWN_SERVER_ERROR for a number that is newer than the table. Evidence: api, node,
    group, topic, partition, as far as they apply. For TOPIC_AUTHORIZATION_FAILED it is a TopicAuthorizationError.
    """

    def __new__(cls, code: int = ErrorCode.UNKNOWN_SERVER_ERROR, *_: Any, **__: Any) -> BrokerError:
        is_refusal = cls is BrokerError and code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return super().__new__(TopicAuthorizationError if is_refusal else cls)

    def __init__(
        self,
        code: int,
        message: str | None = None,
        *,
        request: str | None = None,
        principal: str | None = ANONYMOUS,
        **evidence: Any,
    ) -> None:
        """`message` replaces the text of the code. `request` is the API if it is not in the evidence: for refusals of
        an authorizer the message has the operation and the resource, and for absent topics that they may be refused.
        `principal` is that of the connection; None: only the brokers know it. `Message.broker_error` has both.
        """
        self.code = ErrorCode.of(code)
        self.principal = principal
        if (api := request or evidence.get("api")) is not None and self.code in _MAY_BE_DENIED:
            message = self._explained(api, message, evidence)
        text = f"{self.code.name}: {message or self.code.text}"
        super().__init__(text, **evidence)

    def _explained(self, api: str, message: str | None, evidence: dict[str, Any]) -> str:
        from kcli.denials import NAMES, denial, or_denied

        sentence = denial(self.code, api, evidence, self.principal)
        if sentence is None:
            return (message or self.code.text) + or_denied(self.principal)
        self._said = NAMES
        return sentence

    @property
    def detail(self) -> str:
        """The message without the name of the error code, as a response carries it beside the code.

        A long message, which contains a long name of the request, is cut so that it fits into a string of Kafka.
        """
        return self.message.partition(": ")[2][:_MAX_DETAIL_CHARACTERS]

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        return self.code.retriable


class TopicAuthorizationError(BrokerError):
    """The client must not read, write or describe some topics: TOPIC_AUTHORIZATION_FAILED.

    `BrokerError(code)` of that code makes one, as OSError makes a FileNotFoundError.
    """

    @property
    def topics(self) -> frozenset[str]:
        """The names of the refused topics, empty if the error does not name them."""
        named = next((self.evidence[key] for key in ("topics", "topic", "resource") if self.evidence.get(key)), None)
        return frozenset(named.split(", ") if named else ())

    @classmethod
    def of(cls, topics: Iterable[str], **evidence: Any) -> TopicAuthorizationError:
        """Return the error for all topics that were refused."""
        listed = ", ".join(sorted(set(topics))) or None
        return cls(ErrorCode.TOPIC_AUTHORIZATION_FAILED, **evidence, topics=listed)


# Records and offsets


class SerializationError(KcliError):
    """A serializer or deserializer of the caller has raised an exception, which is the `__cause__`.

    Evidence: topic and field (key or value); for a deserializer also partition and offset: to skip the record, `seek`
    to the next offset. Those of `kcli.schemas` add subject and schema_id.
    """

    _said = ("topic", "partition", "offset", "field", "schema_id")


class CorruptRecords(KcliError):
    """A record batch fails its checks. Evidence: topic, partition, offset."""


class RecordTooLarge(KcliError):
    """A batch is larger than a limit: of the fetch, where the broker cut it off, of the decompressed size, of memory.

    Evidence: topic, partition, offset; received (bytes), or next_offset, the offset after the batch.
    """


class OffsetOutOfRange(KcliError):
    """The position is before the start or after the end of the log.

    Evidence: topic, partition, offset; or, for several partitions, each with its offset.
    """


class TopicRecreated(OffsetOutOfRange):
    """The position belongs to a topic that was deleted; another topic has its name now (KIP-516).

    Evidence: topic, partition, offset.
    """


class LogTruncated(KcliError):
    """Records before the position were removed from the log by an unclean leader election (KIP-320).

    Evidence: topic, partition, offset (the position), epoch (of the record before it), end_offset (the first offset at
    which the log differs from the records read; -1 unknown), end_epoch.
    """


class NoOffset(KcliError):
    """There is no committed offset, and auto.offset.reset is none. Evidence: group, partitions."""


class CommitFailed(KcliError):
    """The member's generation has ended, so its partitions may belong to another member, and nothing was committed.

    The new owner reads the records since the last commit again. Evidence: group, code (the broker's).
    """


# Transactions


class TransactionFailed(KcliError):
    """A transaction of a producer cannot be committed: no reader with read_committed sees any of its records.

    Raised until the transaction is aborted, which `Producer.transaction` does by itself. The producer stays usable.
    `__cause__` is the first error. Evidence: transactional_id.
    """
