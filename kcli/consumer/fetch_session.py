"""Fetch sessions (KIP-227): the broker remembers what is fetched, and a request carries the difference. Pure.

The life of a session, by the (id, epoch) of its requests:

    (0, 0)   everything; please open a session        answer id 0: none was opened, everything again next time
    (n, 1..) what changed since the last request      answered partitions are those with news
    (n, 0)   after a doubt: close n, everything, open a new one
    (n, -1)  close

A doubt is a lost request, an error about the session, or a change between topic names and topic ids (KIP-516), which
must not mix within a session.
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


class Ask(NamedTuple):
    """What to ask for one partition. `leader_epoch` is the leader's as we know it, `last_epoch` the last record's."""

    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1
    max_bytes: int = 1 << 20
    topic_id: uuid.UUID | None = None


class SessionRequest(NamedTuple):
    """What goes into one Fetch request. `use_ids`: every topic in the session has an id."""

    session_id: int
    epoch: int
    asks: list[tuple[TopicPartition, Ask]]
    forgotten: list[tuple[TopicPartition, uuid.UUID | None]]
    use_ids: bool


class FetchSession:
    """What one broker is asked for. Change it with `put` and `remove`; `build` gives the difference to be sent."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.sent: dict[TopicPartition, Ask] = {}
        self._wanted: dict[TopicPartition, Ask] = {}
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
        """All partitions wanted of this broker."""
        return self._wanted.keys()

    def put(self, tp: TopicPartition, ask: Ask) -> None:
        """Ask for `tp` from now on, behind all others: a broker serves in the order of the request."""
        self.remove(tp)
        self._wanted[tp] = ask
        self._without_id += ask.topic_id is None

    def remove(self, tp: TopicPartition) -> None:
        """Ask for `tp` no longer."""
        old = self._wanted.pop(tp, None)
        if old is not None:
            self._without_id -= old.topic_id is None
        self._changed.pop(tp, None)
        self._changed[tp] = None

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The topic that was asked for under this id."""
        return self._names.get(topic_id)

    def build(self) -> SessionRequest:
        """The next request. Its outcome must be told by `succeeded` or `failed` before the next one."""
        use_ids = self._without_id == 0
        if use_ids != self.uses_ids:
            self.uses_ids, self.epoch = use_ids, 0
        asks, forgotten = self._everything() if self.epoch == 0 else self._difference()
        self._changed.clear()
        for tp, ask in asks:
            if ask.topic_id is not None:
                self._names[ask.topic_id] = tp.topic
        return SessionRequest(self.session_id, self.epoch, asks, forgotten, use_ids)

    def _everything(self) -> tuple[list[tuple[TopicPartition, Ask]], list[tuple[TopicPartition, uuid.UUID | None]]]:
        self.sent = dict(self._wanted)
        return list(self._wanted.items()), []

    def _difference(self) -> tuple[list[tuple[TopicPartition, Ask]], list[tuple[TopicPartition, uuid.UUID | None]]]:
        asks, forgotten = [], []
        for tp in self._changed:
            old, new = self.sent.get(tp), self._wanted.get(tp)
            if old is not None and (new is None or new.topic_id != old.topic_id):
                forgotten.append((tp, old.topic_id))
                del self.sent[tp]
            if new is not None and new != old:
                asks.append((tp, new))
                self.sent[tp] = new
        return asks, forgotten

    def succeeded(self, error_code: int, session_id: int) -> None:
        """The broker answered the last request with these."""
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
        """The last request went unanswered: whether the broker saw it is unknown."""
        self.epoch = 0


def fetch_topics(asks: Iterable[tuple[TopicPartition, Ask]], *, with_last_epochs: bool) -> list[FetchTopic]:
    """The partitions in their order, neighbours of one topic together; a version takes its name or its id."""
    from kcli.protocol.messages.fetch import FetchPartition, FetchTopic

    topics: list[FetchTopic] = []
    for tp, ask in asks:
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


def forgotten_topics(forgotten: Iterable[tuple[TopicPartition, uuid.UUID | None]]) -> list[ForgottenTopic]:
    """The partitions to drop from the session, by topic."""
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
