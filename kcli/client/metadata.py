"""What we know of the cluster, what we want to know, and when to ask again. Pure: no I/O, no clock.

Nothing is asked at the start: the first question comes with the first wish (`add_topics`, `request_update`). From then
on metadata is asked for again when it has grown old, when somebody has seen a sign that it is wrong, and never more
often than the retry backoff allows, which grows while brokers fail or keep telling the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.structs import Node, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.config import ClientConfig
    from kcli.protocol.messages.metadata import MetadataResponseTopic

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


_AUTO_CREATION_CAN_BE_REFUSED = 4  # the version of Metadata from which on


class Network(Protocol):
    """What of the network client is needed here."""

    def least_loaded_node(self, now_ms: float) -> Node | None: ...
    def ready(self, node: Node, now_ms: float) -> bool: ...
    def delay_ms(self, node_id: int, now_ms: float) -> float: ...
    def adopt(self, bootstrap: Node, node: Node) -> None: ...


#: Send to a ready node; what goes wrong is the future's.
Ask = Callable[[Node, MetadataRequest, int], "RequestFuture[MetadataResponse]"]


class MetadataUpdater:
    """`refresh` before each poll is all it needs."""

    def __init__(
        self, metadata: Metadata, config: ClientConfig, network: Network, ask: Ask, now_ms: Callable[[], float]
    ) -> None:
        self._metadata = metadata
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        self._trigger_ms = config.metadata_recovery_rebootstrap_trigger_ms
        self._lowest_version = 0 if config.allow_auto_create_topics else _AUTO_CREATION_CAN_BE_REFUSED
        self._network = network
        self._ask = ask
        self._now_ms = now_ms

    def refresh(self, now_ms: float, patience_ms: float) -> float:
        """Ask if it is time to; how long until that may be worth another look.

        While a connection is made an event will tell, but after `patience_ms` another node may be the better choice.
        """
        wait_ms = self._metadata.time_to_refresh(now_ms)
        if wait_ms > 0:
            return wait_ms
        node = self._node_to_ask(now_ms)
        if node is None:
            nodes = self._metadata.cluster.nodes
            return min((self._network.delay_ms(node_id, now_ms) for node_id in nodes), default=0.0)
        if not self._network.ready(node, now_ms):
            return min(self._network.delay_ms(node.id, now_ms), patience_ms)
        future = self._ask(node, self._metadata.next_request(now_ms), self._lowest_version)
        future.on_done(lambda done: self._answered(node, done))
        return self._metadata.time_to_refresh(now_ms)

    def _node_to_ask(self, now_ms: float) -> Node | None:
        metadata = self._metadata
        node = self._network.least_loaded_node(now_ms)
        if not self._rebootstraps or metadata.is_bootstrap:
            return node
        since_ms = metadata.attempts_since_ms
        given_up = since_ms is not None and now_ms - since_ms > self._trigger_ms
        if node is None or given_up or metadata.needs_rebootstrap:
            metadata.rebootstrap(now_ms)
            node = self._network.least_loaded_node(now_ms)
        return node

    def _answered(self, asked: Node, done: RequestFuture[MetadataResponse]) -> None:
        if done.error is not None:
            self._metadata.failed(done.error, self._now_ms())
            return
        self._metadata.update(done.value(), self._now_ms())
        if asked.id < 0:
            self._adopt_connection(asked)

    def _adopt_connection(self, bootstrap: Node) -> None:
        """A bootstrap address that some broker also advertises need not be connected to twice."""
        for node in self._metadata.cluster.nodes.values():
            if (node.host, node.port) == (bootstrap.host, bootstrap.port):
                self._network.adopt(bootstrap, node)
                return


class PartitionInfo(NamedTuple):
    """One partition. Leader and replicas are node ids; `leader` -1: there is none now; `epoch` -1: not known."""

    topic: str
    partition: int
    leader: int = -1
    epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class TopicInfo(NamedTuple):
    """One topic. With an `error` there are no partitions; `topic_id` is None where the broker told none."""

    name: str
    topic_id: UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    partitions: dict[int, PartitionInfo] = {}


def check_partitions(topic: TopicInfo, wanted: Iterable[int]) -> None:
    """BrokerError, UNKNOWN_TOPIC_OR_PARTITION, if the topic lacks some of these partitions; it names them."""
    missing = [str(number) for number in wanted if number not in topic.partitions]
    if missing:
        known = f"partitions 0 to {max(topic.partitions)}" if len(topic.partitions) > 1 else "partition 0 only"
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        text = f"topic {topic.name} has {known}, not {', '.join(missing[:5])}{more}"
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


class Cluster(NamedTuple):
    """What is known of a cluster. Nodes with negative ids are bootstrap addresses: brokers have not been heard yet."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = {}
    topics: dict[str, TopicInfo] = {}

    @property
    def controller(self) -> Node | None:
        """The broker to ask for changes. In KRaft any broker that forwards them."""
        return self.broker(self.controller_id)

    def broker(self, node_id: int) -> Node | None:
        """The broker with this id; None for one that is not there, and for -1, which means none."""
        return self.nodes.get(node_id) if node_id >= 0 else None


def partition_count(topic: TopicInfo) -> int:
    """One more than the largest partition number; 0 without any."""
    return max(topic.partitions, default=-1) + 1


def replica_racks(cluster: Cluster, topic: TopicInfo) -> tuple[frozenset[str], ...]:
    """The racks of the replicas of each partition; () when no broker has told its rack."""
    racks = {node.id: node.rack for node in cluster.nodes.values() if node.rack}
    if not racks:
        return ()
    partitions = (topic.partitions.get(number) for number in range(partition_count(topic)))
    return tuple(frozenset(racks[id_] for id_ in (p.replicas if p else ()) if id_ in racks) for p in partitions)


def bootstrap_nodes(addresses: Iterable[tuple[str, int]]) -> dict[int, Node]:
    """Nodes -1, -2, ... for the bootstrap addresses."""
    return {-number: Node(-number, host, port) for number, (host, port) in enumerate(addresses, 1)}


def cluster_of(response: MetadataResponse) -> Cluster:
    """The cluster that a broker described."""
    nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
    topics = {t.name: _topic_of(t.name, t) for t in response.topics if t.name is not None}
    return Cluster(response.cluster_id, response.controller_id, nodes, topics)


def _topic_of(name: str, topic: MetadataResponseTopic) -> TopicInfo:
    partitions = {
        p.partition_index: PartitionInfo(
            name,
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
            ErrorCode.of(p.error_code),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    }
    topic_id = topic.topic_id if topic.topic_id.int else None
    return TopicInfo(name, topic_id, ErrorCode.of(topic.error_code), topic.is_internal, partitions)


def keep_newer_leaders(new: Cluster, old: Mapping[str, TopicInfo]) -> Cluster:
    """`new`, but with what `old` knows of partitions whose leader epoch it has seen grow further.

    Brokers learn of leaders at different times, so an answer may be older than what another broker told. A topic with
    another id was deleted and made again: its epochs start anew.
    """
    for name, topic in new.topics.items():
        before = old.get(name)
        if before is None or before.topic_id != topic.topic_id:
            continue
        for number, info in topic.partitions.items():
            known = before.partitions.get(number)
            if known is not None and -1 < info.epoch < known.epoch:
                topic.partitions[number] = known
    return new
