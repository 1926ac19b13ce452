"""A Fetch that found nothing until its deadline, recognised when its client sends it again.

An idle consumer repeats its request twice a second; only the correlation id differs, and in a session the epoch
(KIP-227). If none of its partitions has changed either, the request waits again without being decoded, and its answer
is not encoded again. That saves most of the CPU which an idle consumer costs. In every other case the request takes the
ordinary way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kcli.broker.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchContext
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import EncodedResponse, RequestContext
from kcli.protocol.codec import encode, is_flexible
from kcli.protocol.headers import encode_request
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from kcli.broker.delayed import DelayedFetch
    from kcli.broker.partition import PartitionRead
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.protocol.wire import Message

_INT32 = struct.Struct(">i")
_NO_TAGS = b"\0"
# Start of a frame: API key and version (4 bytes), correlation id (4), client id with its length (2).
_CORRELATION_AT, _CLIENT_ID_AT = 4, 8
# Bytes before the session epoch in a body: since v15 the replica id is not among them.
_EPOCH_AT, _EPOCH_AT_SINCE_15 = 21, 17
Respond = Callable[[FetchRequest, RequestContext, FetchContext, "Sequence[PartitionRead]"], FetchResponse]


class IdleFetch:
    """The latest Fetch of one connection. `resume` receives the next frame of that connection."""

    def __init__(
        self, manager: ReplicaManager, authorizer: AnyAuthorizer, fetch: DelayedFetch, request: FetchRequest,
        context: RequestContext, asked: FetchContext, respond: Respond,
    ) -> None:  # fmt: skip
        """`fetch` is complete and unchanged; `asked` are its partitions; `respond` makes a response from reads."""
        self._manager = manager
        self._authorizer = authorizer
        self._acls = authorizer.bindings
        self._fetch = fetch
        self._request = request
        self._context = context
        self._asked = asked
        self._session = session = asked.session
        self._respond = respond
        self._partitions = [
            (target.tp, partition, -1 if partition is None else partition.leader_epoch, read)
            for target, read in zip(fetch.targets, fetch.reads, strict=True)
            if target.tp is not None
            for partition in (manager.partition(target.tp),)
        ]
        version = context.api_version
        flexible = is_flexible(FetchRequest, version)
        # In a session an answer without news has no partition; otherwise each answer has all of them.
        idle = (
            respond(request, context, asked, fetch.reads) if session is None else FetchResponse(session_id=session.id)
        )
        self._encoded = EncodedResponse((_NO_TAGS if flexible else b"") + encode(idle, version))
        frame = encode_request(request, version, 0, context.client_id)
        body_at = len(frame) - len(encode(request, version))
        epoch_at = body_at + (_EPOCH_AT_SINCE_15 if version >= 15 else _EPOCH_AT)
        self._size = len(frame)
        self._epoch_at = self._size if session is None else epoch_at
        self._start = frame[:_CORRELATION_AT]
        self._before, self._after = frame[_CLIENT_ID_AT : self._epoch_at], frame[self._epoch_at + _INT32.size :]

    @staticmethod
    def is_repeatable(request: FetchRequest, asked: FetchContext, reads: Sequence[PartitionRead]) -> bool:
        """Return True if a consumer repeats such a request while it has nothing to read."""
        if any(read.error or read.records for read in reads):
            return False
        if asked.session is None:
            return request.session_id == NO_SESSION and request.session_epoch == FINAL_EPOCH
        return not request.topics and not request.forgotten_topics_data

    def __repr__(self) -> str:
        return f"<IdleFetch {self._size} bytes, {len(self._partitions)} partitions, {self._session!r}>"

    def resume(
        self, frame: bytearray, now_ms: float, now_wall_ms: int
    ) -> tuple[Pending[Message | EncodedResponse], RequestContext] | None:
        """Let the request wait again; None if the frame is another request, or if there is something to answer."""
        if not self._is_same(frame) or not self._is_idle():
            return None
        correlation_id = _INT32.unpack_from(frame, _CORRELATION_AT)[0]
        key, version, _, client_id, connection_id, host, _, _, principal, listener, is_token = self._context
        context = RequestContext(
            key, version, correlation_id, client_id, connection_id, host, now_ms, now_wall_ms,
            principal, listener, is_token,
        )  # fmt: skip
        asked = self._asked
        if asked.session is not None:
            asked = self._asked = self._manager.fetch_sessions.repeat(asked.session, now_ms)
        fetch = self._fetch = self._manager.fetch_again(self._fetch, now_ms)
        pending: Pending[Message | EncodedResponse] = Pending()

        def done(reads: list[PartitionRead]) -> None:
            if fetch.is_unchanged and asked.is_current:
                pending.repeatable = self
                pending.complete(self._encoded)
            else:
                pending.complete(self._respond(self._request, context, asked, reads))

        fetch.outcome.on_done(done)
        return pending, context

    def _is_same(self, frame: bytearray) -> bool:
        """Return True if the frame is this request, apart from its correlation id and the next session epoch."""
        at = self._epoch_at
        if (
            len(frame) != self._size
            or frame[:_CORRELATION_AT] != self._start
            or frame[_CLIENT_ID_AT:at] != self._before
            or frame[at + _INT32.size :] != self._after
        ):
            return False
        session = self._session
        if session is None:
            return True
        is_next = self._asked.is_current and _INT32.unpack_from(frame, at)[0] == session.epoch
        return is_next and self._manager.fetch_sessions.sessions.get(session.id) is session

    def _is_idle(self) -> bool:
        """Return True if reading the partitions would return what it returned before."""
        manager = self._manager
        if manager.log_manager.failed is not None or self._authorizer.bindings is not self._acls:
            return False
        for tp, partition, leader_epoch, read in self._partitions:
            if partition is None or manager.partitions.get(tp) is not partition or not partition.is_leader:
                return False
            if partition.leader_epoch != leader_epoch:  # the client may know another one
                return False
            log = partition.log
            if (
                log.high_watermark != read.high_watermark
                or log.last_stable_offset != read.last_stable_offset
                or log.log_start_offset != read.log_start_offset
            ):
                return False
        return True
