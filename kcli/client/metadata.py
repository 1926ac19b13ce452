"""What we know of the cluster, what we want to know, and when to ask again. Pure: no I/O, no clock.

Nothing is asked at the start: the first question comes with the first wish (`add_topics`, `request_update`). From then
on metadata is asked for again when it has grown old, when somebody has seen a sign that it is wrong, and never more
often than the retry backoff allows, which grows while brokers fail or keep telling the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.backoff import Backoff
from kcli.client.cluster import (
    Cluster,
    PartitionInfo,
    TopicInfo,
    bootstrap_nodes,
    cluster_of,
    keep_newer_leaders,
)
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["Cluster", "LeaderAndEpoch", "Metadata", "PartitionInfo", "TopicInfo"]

_NEVER = float("inf")
_LONG_AGO = float("-inf")


class LeaderAndEpoch(NamedTuple):
    """Where a partition's leader is; `node` None: not known or not there; epoch -1: not known."""

    node: Node | None
    epoch: int = -1


class Metadata:
    """The client's picture of the cluster. `cluster` is replaced, never changed, so it may be kept by whoever read it.

    `update_version` counts the answers applied, `outcomes` the questions that are over, answered or not. `error` is why
    the last question failed, None after a success.
    """

    def __init__(
        self,
        bootstrap: Iterable[tuple[str, int]],
        *,
        max_age_ms: float = 300_000,
        backoff: Backoff | None = None,
        allow_auto_create: bool = False,
    ) -> None:
        self._bootstrap = bootstrap_nodes(bootstrap)
        self._max_age_ms = max_age_ms
        self._backoff = backoff or Backoff(100, 1_000)
        self._allow_auto_create = allow_auto_create
        self.cluster = Cluster(nodes=self._bootstrap)
        self.update_version = 0
        self.outcomes = 0
        self.error: KcliError | None = None
        self.every_topic = False  # each question is about all topics, those included that come to be
        self.attempts_since_ms: float | None = None  # when the questions began that are unanswered so far
        self._wanted: dict[str, None] = {}
        self._want_all = False
        self._due = False
        self._asking = False
        self._asking_all = False
        self._questions = 0
        self._answered = 0
        self._fruitless = 0
        self._not_before_ms = _LONG_AGO
        self._stale_at_ms = _NEVER

    def __repr__(self) -> str:
        c = self.cluster
        state = "asking" if self._asking else "due" if self._due else "settled"
        return f"<Metadata v{self.update_version} {len(c.nodes)} nodes, {len(c.topics)} topics, {state}>"

    # Reading

    @property
    def is_bootstrap(self) -> bool:
        """Only bootstrap addresses are known."""
        return self.cluster.nodes is self._bootstrap

    @property
    def bootstrap(self) -> Mapping[int, Node]:
        """The addresses we began with."""
        return self._bootstrap

    def leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """The leader of a partition as far as we know."""
        info = self.partition(tp)
        return LeaderAndEpoch(None) if info is None else LeaderAndEpoch(self.cluster.broker(info.leader), info.epoch)

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        topic = self.cluster.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def topic_id(self, name: str) -> UUID | None:
        """None when the topic or its id is not known."""
        topic = self.cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((t.name for t in self.cluster.topics.values() if t.topic_id == topic_id), None)

    # Wishing

    @property
    def wanted(self) -> list[str]:
        """The topics that every question is about."""
        return list(self._wanted)

    def add_topics(self, names: Iterable[str]) -> None:
        """Want these from now on; asks at once when some are new."""
        new = [name for name in names if name not in self._wanted]
        if new:
            self._wanted.update(dict.fromkeys(new))
            self.request_update(at_once=True)

    def drop_topics(self, names: Iterable[str]) -> None:
        """Want these no longer."""
        for name in names:
            self._wanted.pop(name, None)

    def request_update(self, *, at_once: bool = False, all_topics: bool = False) -> int:
        """Ask as soon as the backoff allows; `at_once` skips it, unless the last question failed.

        `all_topics` makes the next question one about every topic. Returns a ticket for `is_answered`: a question that
        is on its way already does not count.
        """
        self._due = True
        self._want_all = self._want_all or all_topics
        if at_once and self.error is None:
            self._not_before_ms = _LONG_AGO
        return self._questions + 1

    def is_answered(self, ticket: int) -> bool:
        """A question asked after that request has been answered."""
        return self._answered >= ticket

    def failure_of(self, ticket: int) -> KcliError | None:
        """Why the last question asked after that request failed; None when it did not, or has not been asked yet."""
        return self.error if self._questions >= ticket and not self._asking and not self.needs_rebootstrap else None

    def saw_epoch(self, tp: TopicPartition, epoch: int) -> None:
        """Somebody told a leader epoch; a newer one than ours means that the leader has moved."""
        info = self.partition(tp)
        if info is not None and epoch > info.epoch:
            self.request_update()

    def saw_leader(self, tp: TopicPartition, leader: int, epoch: int, nodes: Iterable[Node] = ()) -> bool:
        """A broker named the new leader in its refusal (KIP-951); False when that is no news."""
        info = self.partition(tp)
        known = {**self.cluster.nodes, **{node.id: node for node in nodes}}
        if info is None or epoch <= info.epoch or leader < 0 or leader not in known or self.is_bootstrap:
            return False
        topic = self.cluster.topics[tp.topic]
        moved = {**topic.partitions, tp.partition: info._replace(leader=leader, epoch=epoch)}
        topics = {**self.cluster.topics, tp.topic: topic._replace(partitions=moved)}
        self.cluster = self.cluster._replace(nodes=known, topics=topics)
        return True

    # Asking

    def time_to_refresh(self, now_ms: float) -> float:
        """Milliseconds until the next question: 0 now, infinity when none is wanted or one is on its way."""
        if self._asking:
            return _NEVER
        due_ms = now_ms if self._due else self._stale_at_ms
        return max(due_ms - now_ms, self._not_before_ms - now_ms, 0.0)

    def next_request(self, now_ms: float) -> MetadataRequest:
        """The question to send now; `update` or `failed` must follow."""
        self._asking, self._asking_all = True, self._want_all or self.every_topic
        self._due = self._want_all = False
        self._questions += 1
        if self.attempts_since_ms is None:
            self.attempts_since_ms = now_ms
        topics = None if self._asking_all else [MetadataRequestTopic(name=name) for name in list(self._wanted)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_create)

    def update(self, response: MetadataResponse, now_ms: float) -> None:
        """Apply an answer. One that carries an error, or names no broker, counts as a failure."""
        if response.error_code:
            return self.failed(BrokerError(response.error_code, api="Metadata"), now_ms)
        if not response.brokers:
            return self.failed(BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker knows no brokers yet"), now_ms)
        before, self.cluster = self.cluster, keep_newer_leaders(cluster_of(response), self.cluster.topics)
        self._asking = False
        self._answered = self._questions
        self.update_version += 1
        self.outcomes += 1
        self.error = None
        self.attempts_since_ms = None
        self._fruitless = self._fruitless + 1 if self.cluster == before else 0
        self._not_before_ms = now_ms + self._backoff.after(1 + self._fruitless)
        self._stale_at_ms = now_ms + self._max_age_ms
        if any(topic.error.retriable and topic.error.refresh_metadata for topic in self.cluster.topics.values()):
            self._due = True
        return None

    def failed(self, error: KcliError, now_ms: float) -> None:
        """The question got no usable answer; it will be asked again after the backoff."""
        self._asking = False
        self._due = True
        self._want_all = self._want_all or self._asking_all
        self._fruitless += 1
        self.outcomes += 1
        self._not_before_ms = now_ms + self._backoff.after(self._fruitless)
        self.error = error

    def rebootstrap(self, now_ms: float) -> None:
        """Forget the brokers, not the topics, and begin with the bootstrap addresses again (KIP-899)."""
        self.cluster = self.cluster._replace(nodes=self._bootstrap, controller_id=-1)
        self._due = True
        self._not_before_ms = _LONG_AGO
        self.attempts_since_ms = now_ms

    @property
    def needs_rebootstrap(self) -> bool:
        """A broker told us to (KIP-1102)."""
        return isinstance(self.error, BrokerError) and self.error.code == ErrorCode.REBOOTSTRAP_REQUIRED
