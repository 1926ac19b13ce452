"""Fetch sessions (KIP-227): the broker remembers the fetched partitions, and a request contains only the changes. Pure.

The life of a session, by the (id, epoch) of its requests:

    (0, 0)   all partitions; open a session           session id 0 in the response: not opened, send all again
    (n, 1..) the changes since the last request       the response contains the partitions with news
    (n, 0)   after an error: close n, send all partitions, open a new session
    (n, -1)  close

An error is a lost request, an error code about the session, or a change between topic names and topic ids (KIP-516),
because a session must not mix them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    import uuid

    from kcli.protocol.messages.fetch import FetchTopic, ForgottenTopic

FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1


class PartitionFetch(NamedTuple):
    """The fetch of one partition.

    `leader_epoch` is the leader's current epoch, `last_epoch` that of the last record read.
    """

    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1
    max_bytes: int = 1 << 20
    topic_id: uuid.UUID | None = None


Fetches = list[tuple[TopicPartition, PartitionFetch]]
Forgotten = list[tuple[TopicPartition, "uuid.UUID | None"]]


class SessionRequest(NamedTuple):
    """The session fields of one Fetch request. `use_ids`: every topic in the session has an id."""

    session_id: int
    epoch: int
    fetches: Fetches
    forgotten: Forgotten
    use_ids: bool


class FetchSession:
    """The partitions fetched from one broker. `put` and `remove` change them; `build` returns the next request."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.sent: dict[TopicPartition, PartitionFetch] = {}
        self._wanted: dict[TopicPartition, PartitionFetch] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._without_id = 0
        self.uses_ids = True

    def __repr__(self) -> str:
        return f"<FetchSession {self.session_id} epoch={self.epoch} partitions={len(self._wanted)}>"

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._wanted

    def partitions(self) -> Iterable[TopicPartition]:
        """Return all partitions fetched from this broker."""
        return self._wanted.keys()

    def put(self, tp: TopicPartition, ask: PartitionFetch) -> None:
        """Fetch `tp` from now on, after all others: a broker serves partitions in the order of the request."""
        self.remove(tp)
        self._wanted[tp] = ask
        self._without_id += ask.topic_id is None

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching `tp`."""
        old = self._wanted.pop(tp, None)
        if old is not None:
            self._without_id -= old.topic_id is None
        self._changed.pop(tp, None)
        self._changed[tp] = None

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """Return the name of the topic that was requested with this id."""
        return self._names.get(topic_id)

    def build(self) -> SessionRequest:
        """Return the next request. Report its outcome with `succeeded` or `failed` before the next call."""
        use_ids = self._without_id == 0
        if use_ids != self.uses_ids:
            self.uses_ids, self.epoch = use_ids, 0
        fetches, forgotten = self._everything() if self.epoch == 0 else self._difference()
        self._changed.clear()
        for tp, ask in fetches:
            if ask.topic_id is not None:
                self._names[ask.topic_id] = tp.topic
        return SessionRequest(self.session_id, self.epoch, fetches, forgotten, use_ids)

    def _everything(
        self,
    ) -> tuple[Fetches, Forgotten]:
        self.sent = dict(self._wanted)
        return list(self._wanted.items()), []

    def _difference(
        self,
    ) -> tuple[Fetches, Forgotten]:
        fetches: Fetches = []
        forgotten: Forgotten = []
        for tp in self._changed:
            old, new = self.sent.get(tp), self._wanted.get(tp)
            if old is not None and (new is None or new.topic_id != old.topic_id):
                forgotten.append((tp, old.topic_id))
                del self.sent[tp]
            if new is not None and new != old:
                fetches.append((tp, new))
                self.sent[tp] = new
        return fetches, forgotten

    def succeeded(self, error_code: int, session_id: int) -> None:
        """Take the session fields of the response to the last request."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = self.epoch = 0
        elif error_code != ErrorCode.NONE:
            self.failed()
        elif session_id == 0:
            self.session_id = self.epoch = 0
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def failed(self) -> None:
        """Record that the last request has no response; the broker may or may not have processed it."""
        self.epoch = 0


def fetch_topics(fetches: Fetches, *, with_last_epochs: bool) -> list[FetchTopic]:
    """Return the partitions in their order, with neighbours of one topic grouped. A version uses its name or its id."""
    from kcli.protocol.messages.fetch import FetchPartition, FetchTopic

    topics: list[FetchTopic] = []
    for tp, ask in fetches:
        if not topics or topics[-1].topic != tp.topic:
            topics.append(FetchTopic(topic=tp.topic, partitions=[], **_id(ask.topic_id)))
        topics[-1].partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=ask.leader_epoch,
                fetch_offset=ask.offset,
                last_fetched_epoch=ask.last_epoch if with_last_epochs else -1,
                partition_max_bytes=ask.max_bytes,
            )
        )
    return topics


def forgotten_topics(forgotten: Forgotten) -> list[ForgottenTopic]:
    """Return the partitions to remove from the session, by topic."""
    from kcli.protocol.messages.fetch import ForgottenTopic

    topics: dict[tuple[str, uuid.UUID | None], ForgottenTopic] = {}
    for tp, topic_id in forgotten:
        key = tp.topic, topic_id
        if key not in topics:
            topics[key] = ForgottenTopic(topic=tp.topic, partitions=[], **_id(topic_id))
        topics[key].partitions.append(tp.partition)
    return list(topics.values())


def _id(topic_id: uuid.UUID | None) -> dict[str, uuid.UUID]:
    return {} if topic_id is None else {"topic_id": topic_id}
