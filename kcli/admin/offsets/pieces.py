"""Requests that change offsets: cut so that a broker can store each as one batch, then sent side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.groups.patience import half_of
from kcli.client.requests import Results
from kcli.client.routing import GROUP, find_coordinators
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.protocol.wire import Request
    from kcli.structs import Node

    # None: the offset is to be forgotten
    Changes = Mapping[TopicPartition, OffsetAndMetadata | None]
    Outcomes = dict[tuple[str, TopicPartition], KcliError | None]

# A coordinator writes all of a request as one batch, which may be as large as max.message.bytes of __consumer_offsets,
# by default 1 MiB; half of that leaves room for what is only estimated here.
_LARGEST_BYTES = 512 * 1024
# What a record of __consumer_offsets takes beside names and notes: its own fields, those of key and value, a topic id.
_RECORD_BYTES = 80

# What a broker says with a smaller limit; Kafka 4.3's own word for it is UNKNOWN_SERVER_ERROR, which may also mean
# anything else, so after that nothing is cut into pieces below what every broker can store.
_TOO_LARGE = {
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
_SURELY_FITS_BYTES = 32 * 1024
# What a coordinator says to who is no member of a group that has some.
_MEMBERS_ONLY = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
# After these the same request may succeed, at the same coordinator or at another one.
_COORDINATOR_TROUBLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}


class Piece(NamedTuple):
    """Some changes of one group's offsets, for one request. `tries`: how often it was sent before."""

    group: str
    changes: Changes
    tries: int = 0


class Way(NamedTuple):
    """How to ask: the request for a piece, and the error code by partition in its answer, or one for all."""

    request: Callable[[Piece], Request[Any]]
    read: Callable[[Any], Mapping[TopicPartition, int] | int]
    max_version: int | None = None


def pieces_of(group: str, changes: Changes, largest_bytes: int = _LARGEST_BYTES) -> Iterator[Piece]:
    """The changes in as few pieces as a coordinator with Kafka's default settings can store."""
    part: dict[TopicPartition, OffsetAndMetadata | None] = {}
    size = 0
    for tp, new in changes.items():
        bytes_of_it = _stored_bytes(group, tp, new)
        if part and size + bytes_of_it > largest_bytes:
            yield Piece(group, part)
            part, size = {}, 0
        part[tp] = new
        size += bytes_of_it
    if part:
        yield Piece(group, part)


def _stored_bytes(group: str, tp: TopicPartition, new: OffsetAndMetadata | None) -> int:
    """About what one change takes in a batch, which is not compressed by default."""
    note = new.metadata if new is not None else ""
    return _RECORD_BYTES + sum(len(text.encode("utf-8", "replace")) for text in (group, tp.topic, note))


def send_pieces(client: ConsumerNetworkClient, pieces: Iterable[Piece], way: Way, deadline_ms: float) -> Outcomes:
    """Ask the coordinators, each found once; None for what was done, else why not, or why that is not known.

    Asked again: when a coordinator has moved, is loading or was lost, until the deadline. A piece that proves too large
    is cut in two.
    """
    outcomes: Outcomes = {}
    nodes: dict[str, Node] = {}
    pending = list(pieces)
    for _ in client.attempts(deadline_ms) if pending else ():
        sent = list(_send(client, pending, nodes, way, deadline_ms, outcomes))
        pending = []
        for piece, future in sent:
            told = _codes(client, piece, future, nodes.get(piece.group), way, deadline_ms)
            pending += _settle(piece, told, outcomes)
        for piece in pending:
            nodes.pop(piece.group, None)
        if not pending:
            break
    return outcomes


def _send(
    client: ConsumerNetworkClient,
    pieces: list[Piece],
    nodes: dict[str, Node],
    way: Way,
    deadline_ms: float,
    outcomes: Outcomes,
) -> Iterator[tuple[Piece, RequestFuture[Any]]]:
    wanted = {piece.group for piece in pieces if piece.group not in nodes}
    try:
        found = find_coordinators(client, sorted(wanted), GROUP, half_of(client, deadline_ms))
    except KcliError as error:  # what was sent before has its outcomes all the same
        found = Results(errors=dict.fromkeys(wanted, error))
    nodes.update(found.values)
    for piece in pieces:
        node = nodes.get(piece.group)
        if node is None:
            outcomes.update({(piece.group, tp): found.errors[piece.group] for tp in piece.changes})
        else:
            yield piece, client.send(node, way.request(piece), max_version=way.max_version)


def _codes(
    client: ConsumerNetworkClient,
    piece: Piece,
    future: RequestFuture[Any],
    node: Node | None,
    way: Way,
    deadline_ms: float,
) -> dict[TopicPartition, int] | KcliError:
    """The error code of each partition of the piece, or why there is no answer."""
    try:
        told = way.read(client.wait(future, deadline_ms, node=node))
    except KcliError as error:
        if error.retriable and not isinstance(error, TimeoutExpired) and client.clock.now_ms() >= deadline_ms:
            return client.timed_out(future.label, node, error)
        return error
    if isinstance(told, int):
        return dict.fromkeys(piece.changes, told)
    return {tp: told.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR) for tp in piece.changes}


def _settle(piece: Piece, told: dict[TopicPartition, int] | KcliError, outcomes: Outcomes) -> list[Piece]:
    """Note what became of the piece; what of it is to be sent again. Until then the last error stands."""
    if isinstance(told, KcliError):
        outcomes.update({(piece.group, tp): told for tp in piece.changes})
        return [piece._replace(tries=piece.tries + 1)] if told.retriable else []
    for tp, code in told.items():
        outcomes[piece.group, tp] = error_of(code, piece.group, tp) if code else None
    again = {tp: piece.changes[tp] for tp, code in told.items() if code in _COORDINATOR_TROUBLE}
    left = [Piece(piece.group, again, piece.tries + 1)] if again else []
    return left + _halves(piece, set(told.values()))


def _halves(piece: Piece, codes: set[int]) -> list[Piece]:
    """The piece in two, if it is for being too large that nothing of it was stored."""
    if len(piece.changes) == 1 or len(codes) > 1 or not codes <= _TOO_LARGE:
        return []
    if ErrorCode.UNKNOWN_SERVER_ERROR in codes:
        size = sum(_stored_bytes(piece.group, tp, new) for tp, new in piece.changes.items())
        if size <= _SURELY_FITS_BYTES:
            return []
    both, half = list(piece.changes.items()), len(piece.changes) // 2
    return [piece._replace(changes=dict(part)) for part in (both[:half], both[half:])]


def error_of(code: int, group: str, tp: TopicPartition) -> BrokerError:
    """A coordinator's refusal, in words that fit a change from outside the group."""
    words = None
    if code in _MEMBERS_ONLY:
        words = "the group has got members, and only they may move its offsets"
    return BrokerError(code, words, group=group, topic=tp.topic, partition=tp.partition)


def is_of_members(error: KcliError) -> bool:
    """Was it refused because the group has members by now?"""
    return isinstance(error, BrokerError) and error.code in _MEMBERS_ONLY
