"""Incremental fetch sessions (KIP-227): after the first request a consumer names only the partitions that changed.

Pure: no I/O, no clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias
from uuid import UUID

from kcli.broker.partition import PartitionFetch, PartitionRead
from kcli.error_codes import ErrorCode

#: A topic's name (until v12) or id, and the partition.
PartitionKey: TypeAlias = tuple[str | UUID, int]

NO_SESSION = 0
#: Session epochs of a request that names all its partitions: to open a session, or to close one and open none.
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_LAST_EPOCH = 2**31 - 1

#: A session younger than this is not evicted for a larger one; one unused for longer is evicted for any other.
EVICTION_MS = 120_000


def key_of(requested: PartitionFetch) -> PartitionKey:
    """Return the key of a partition within a session."""
    return requested.topic or requested.topic_id, requested.partition


class _SessionPartition:
    """A partition of a session: the latest request for it, and the offsets the client last received."""

    __slots__ = ("high_watermark", "log_start_offset", "requested")

    def __init__(self, requested: PartitionFetch) -> None:
        self.requested = requested
        self.high_watermark = -1
        self.log_start_offset = -1

    def update(self, read: PartitionRead) -> bool:
        """Record the offsets of this answer; return True if the answer must be in the response."""
        has_changed = (
            bool(read.records)
            or bool(read.error)
            or read.diverging is not None
            or read.high_watermark != self.high_watermark
            or read.log_start_offset != self.log_start_offset
        )
        # After an error the high watermark is -1, so that the first answer without an error is sent, too.
        self.high_watermark, self.log_start_offset = read.high_watermark, read.log_start_offset
        if self.requested.high_watermark < read.high_watermark:  # the follower knows this one now
            self.requested = self.requested._replace(high_watermark=read.high_watermark)
        return has_changed


class FetchSession:
    """The partitions that one client fetches. `epoch` is the session epoch that its next request must carry."""

    def __init__(self, id: int, by_id: bool, requested: Iterable[PartitionFetch], now_ms: float) -> None:
        self.id = id
        self.by_id = by_id
        self.epoch = 1
        self.partitions = {key_of(partition): _SessionPartition(partition) for partition in requested}
        self.created_ms = self.last_used_ms = now_ms

    def __repr__(self) -> str:
        return f"<FetchSession {self.id} epoch={self.epoch} partitions={len(self.partitions)}>"

    def change(self, requested: Iterable[PartitionFetch], forgotten: Iterable[PartitionKey]) -> None:
        """Add or replace partitions, then drop the forgotten ones."""
        for partition in requested:
            key = key_of(partition)
            session_partition = self.partitions.get(key)
            if session_partition is None:
                self.partitions[key] = _SessionPartition(partition)
            else:
                session_partition.requested = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def changed(self, requested: Sequence[PartitionFetch], reads: Sequence[PartitionRead]) -> list[int]:
        """Return the indexes of the reads that must be in the response.

        Partitions with records move to the end, so that the next fetch reads the others first.
        """
        changed_indexes = []
        for index, (partition, read) in enumerate(zip(requested, reads, strict=True)):
            key = key_of(partition)
            sent = self.partitions.get(key)
            if sent is None or not sent.update(read):
                continue
            changed_indexes.append(index)
            if read.records:
                self.partitions[key] = self.partitions.pop(key)
        return changed_indexes


class FetchContext:
    """One Fetch request: the partitions it covers, and the selection of answers that go into its response."""

    def __init__(
        self,
        requested: Sequence[PartitionFetch],
        *,
        error: ErrorCode = ErrorCode.NONE,
        session: FetchSession | None = None,
        open_session: Callable[[], FetchSession | None] | None = None,
    ) -> None:
        self.requested = requested
        self.error = error
        self.session = session
        self._epoch = 0 if session is None else session.epoch
        self._open_session = open_session

    @property
    def is_current(self) -> bool:
        """True unless another request has used the session since this one."""
        return self.session is None or self.session.epoch == self._epoch

    def finish(self, reads: Sequence[PartitionRead]) -> tuple[ErrorCode, int, Sequence[int]]:
        """Return the error and session id of the response, and the indexes of the reads in it."""
        session = self.session
        if session is not None:
            if not self.is_current:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, ()
            return ErrorCode.NONE, session.id, session.changed(self.requested, reads)
        new_session = self._open_session() if self._open_session else None
        if new_session is None:
            return self.error, NO_SESSION, range(len(reads))
        for partition, read in zip(self.requested, reads, strict=True):
            new_session.partitions[key_of(partition)].update(read)
        return ErrorCode.NONE, new_session.id, range(len(reads))


class FetchSessionCache:
    """At most `slots` sessions by id, the least recently used first."""

    def __init__(self, slots: int, new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._new_id = new_id or _random_id
        self.sessions: dict[int, FetchSession] = {}

    def __repr__(self) -> str:
        return f"<FetchSessionCache {len(self.sessions)} of {self._slots}>"

    def begin(
        self,
        session_id: int,
        epoch: int,
        requested: Sequence[PartitionFetch],
        forgotten: Sequence[PartitionKey],
        *,
        by_id: bool,
        now_ms: float,
    ) -> FetchContext:
        """Start a request with this session id and epoch; `by_id`: it names topics by their ids (v13 and later)."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return FetchContext(requested)
            return FetchContext(requested, open_session=lambda: self._open(by_id, requested, now_ms))
        session = self.sessions.get(session_id)
        if session is None:
            return FetchContext((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext((), error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return FetchContext((), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._continue(session, requested, forgotten, now_ms)

    def _continue(
        self,
        session: FetchSession,
        requested: Sequence[PartitionFetch],
        forgotten: Sequence[PartitionKey],
        now_ms: float,
    ) -> FetchContext:
        session.change(requested, forgotten)
        if not session.partitions:
            del self.sessions[session.id]
            return FetchContext(())
        return self.repeat(session, now_ms)

    def repeat(self, session: FetchSession, now_ms: float) -> FetchContext:
        """Start the next request of a session for the same partitions."""
        del self.sessions[session.id]  # and add it as the one used last
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        self.sessions[session.id] = session
        return FetchContext([sent.requested for sent in session.partitions.values()], session=session)

    def _open(self, by_id: bool, requested: Sequence[PartitionFetch], now_ms: float) -> FetchSession | None:
        """Return a new session, or None if there is no room for it."""
        size = len({key_of(partition) for partition in requested})
        if len(self.sessions) >= self._slots and not self._evict_one(size, now_ms):
            return None
        id = self._new_id()
        while id == NO_SESSION or id in self.sessions:
            id = self._new_id()
        session = self.sessions[id] = FetchSession(id, by_id, requested, now_ms)
        return session

    def _evict_one(self, size: int, now_ms: float) -> bool:
        """Evict the least recently used session if it is stale, else the smallest unprotected one of at most `size`."""
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            del self.sessions[oldest.id]
            return True
        unprotected = (session for session in self.sessions.values() if now_ms - session.created_ms > EVICTION_MS)
        smallest = min(unprotected, key=lambda one: (len(one.partitions), one.id), default=None)
        if smallest is None or len(smallest.partitions) > size:
            return False
        del self.sessions[smallest.id]
        return True


def _random_id() -> int:
    return int.from_bytes(os.urandom(4), "big") & 0x7FFF_FFFF
