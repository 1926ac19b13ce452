"""Metadata: the client's view of the cluster, the topics it needs, and the time of the next request. No I/O, no clock.

Nothing is requested at the start: the first request comes with the first `add_topics` or `request_update`. From then on
metadata is requested when it is too old (metadata.max.age.ms) or shown to be wrong, at most once per retry backoff,
which grows while requests fail or return the same metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, DisconnectedError, KcliError, TopicAuthorizationError
from kcli.logs import RepeatedWarnings
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kcli.structs import ANONYMOUS, Node, TopicPartition

if TYPE_CHECKING:
    import re
    from uuid import UUID

    from kcli.client.config import ClientConfig
    from kcli.protocol.messages.metadata import MetadataResponseTopic

_NEVER_MS = float("inf")
_ALWAYS_PAST_MS = float("-inf")
_FIRST_VERSION_WITHOUT_AUTO_CREATION = 4


class LeaderAndEpoch(NamedTuple):
    """The leader of a partition. `node` None: unknown, or there is none. Epoch -1: unknown."""

    node: Node | None
    epoch: int = -1


class PartitionInfo(NamedTuple):
    """One partition. Leader and replicas are node ids. `leader` -1: there is none. `epoch` -1: unknown."""

    topic: str
    partition: int
    leader: int = -1
    epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


class TopicInfo(NamedTuple):
    """One topic. With an `error` there are no partitions. `topic_id` is None if the broker does not send ids."""

    name: str
    topic_id: UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    internal: bool = False
    partitions: dict[int, PartitionInfo] = {}


class Cluster(NamedTuple):
    """A cluster as a metadata response to `principal` describes it. Nodes with negative ids are bootstrap addresses."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = {}
    topics: dict[str, TopicInfo] = {}
    principal: str | None = ANONYMOUS

    def topic_error(self, name: str) -> BrokerError | None:
        """Return the error of a topic, UNKNOWN_TOPIC_OR_PARTITION if it is not in the response; None without one."""
        topic = self.topics.get(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
        return BrokerError(code, request="Metadata", topic=name, principal=self.principal) if code else None

    @property
    def controller(self) -> Node | None:
        """The broker for requests to the controller; in KRaft, any broker that forwards them."""
        return self.broker(self.controller_id)

    def broker(self, node_id: int) -> Node | None:
        """Return the broker with this id; None for an unknown id and for -1, which means none."""
        return self.nodes.get(node_id) if node_id >= 0 else None


def check_partitions(topic: TopicInfo, numbers: Iterable[int]) -> None:
    """Raise BrokerError, UNKNOWN_TOPIC_OR_PARTITION, that names the partitions which the topic lacks."""
    missing = [str(number) for number in numbers if number not in topic.partitions]
    if missing:
        available = f"partitions 0 to {max(topic.partitions)}" if len(topic.partitions) > 1 else "partition 0 only"
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        text = f"topic {topic.name} has {available}, not {', '.join(missing[:5])}{more}"
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


def partition_count(topic: TopicInfo) -> int:
    """Return the largest partition number plus one; 0 without partitions."""
    return max(topic.partitions, default=-1) + 1


def matching_topics(cluster: Cluster, pattern: re.Pattern[str], *, with_internal: bool) -> frozenset[str]:
    """Return the names of the topics that have partitions and whose whole name matches."""
    topics = (topic for topic in cluster.topics.values() if topic.partitions and (with_internal or not topic.internal))
    return frozenset(topic.name for topic in topics if pattern.fullmatch(topic.name))


def replica_racks(cluster: Cluster, topic: TopicInfo) -> tuple[frozenset[str], ...]:
    """Return the racks of the replicas of each partition; () if no broker has a rack."""
    racks = {node.id: node.rack for node in cluster.nodes.values() if node.rack}
    if not racks:
        return ()
    partitions = (topic.partitions.get(number) for number in range(partition_count(topic)))
    return tuple(frozenset(racks[id_] for id_ in (p.replicas if p else ()) if id_ in racks) for p in partitions)


class Metadata:
    """The client's view of the cluster. `cluster` is replaced, never changed, so a reader may keep it.

    `update_version` counts the responses applied; `outcomes` counts the requests that ended, with or without a
    response, and the failed authentications. `error` is the error of the last request, None after a success.
    """

    def __init__(
        self,
        bootstrap: Iterable[tuple[str, int]],
        *,
        max_age_ms: float = 300_000,
        backoff: Backoff | None = None,
        allow_auto_create: bool = False,
    ) -> None:
        self._bootstrap = {-number: Node(-number, host, port) for number, (host, port) in enumerate(bootstrap, 1)}
        self._max_age_ms = max_age_ms
        self._backoff = backoff or Backoff(100, 1_000)
        self._allow_auto_create = allow_auto_create
        self.cluster = Cluster(nodes=self._bootstrap)
        self.update_version = 0
        self.outcomes = 0
        self.error: KcliError | None = None
        self.all_topics = False  # request all topics each time, including new ones
        self.attempts_since_ms: float | None = None  # start of the current series of requests without a response
        self._requested_topics: dict[str, None] = {}
        self._all_topics_once = False
        self._due = False
        self._in_flight = False
        self._in_flight_all = False
        self._requested = 0
        self._answered = 0
        self._unchanged_count = 0
        self._not_before_ms = _ALWAYS_PAST_MS
        self._stale_at_ms = _NEVER_MS

    def __repr__(self) -> str:
        c = self.cluster
        state = "in flight" if self._in_flight else "due" if self._due else "settled"
        return f"<Metadata v{self.update_version} {len(c.nodes)} nodes, {len(c.topics)} topics, {state}>"

    # Reading

    @property
    def is_bootstrap(self) -> bool:
        """True if only bootstrap addresses are known."""
        return self.cluster.nodes is self._bootstrap

    @property
    def bootstrap(self) -> Mapping[int, Node]:
        """The bootstrap addresses."""
        return self._bootstrap

    def leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the leader of a partition, as far as it is known."""
        info = self.partition(tp)
        return LeaderAndEpoch(None) if info is None else LeaderAndEpoch(self.cluster.broker(info.leader), info.epoch)

    def leader_error(self, tp: TopicPartition) -> BrokerError:
        """Return the reason why the leader of a partition is unknown.

        It is not retriable if the topic must not be described, or cannot exist.
        """
        topic = self.cluster.topics.get(tp.topic)
        principal = self.cluster.principal
        where: dict[str, Any] = {
            "api": "Metadata",
            "topic": tp.topic,
            "partition": tp.partition,
            "principal": principal,
        }
        if topic is not None and topic.error:
            if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return TopicAuthorizationError.of([tp.topic], api="Metadata", principal=principal)
            return BrokerError(topic.error, **where)
        if topic is not None and tp.partition not in topic.partitions:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, **where)
        return BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, **where)

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        topic = self.cluster.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def topic_id(self, name: str) -> UUID | None:
        """Return the id of a topic; None if the topic or its id is unknown."""
        topic = self.cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    # Requesting

    @property
    def requested_topics(self) -> list[str]:
        """The topics in every request."""
        return list(self._requested_topics)

    def add_topics(self, names: Iterable[str]) -> None:
        """Add topics to every request. A new one is requested at once."""
        new_names = [name for name in names if name not in self._requested_topics]
        if new_names:
            self._requested_topics.update(dict.fromkeys(new_names))
            self.request_update(at_once=True)

    def drop_topics(self, names: Iterable[str]) -> None:
        """Remove topics from the requests."""
        for name in names:
            self._requested_topics.pop(name, None)

    @contextmanager
    def for_one_lookup(self, names: Iterable[str]) -> Iterator[None]:
        """Remove those of these topics that the block adds: a look-up needs them once."""
        new_names = [name for name in names if name not in self._requested_topics]
        try:
            yield
        finally:
            self.drop_topics(new_names)

    def request_update(self, *, at_once: bool = False, all_topics: bool = False) -> int:
        """Make a request due. `at_once` skips the backoff, unless the last request failed.

        `all_topics` makes the next request one for all topics. Return a ticket for `is_answered`; a request that is in
        flight already does not count.
        """
        self._due = True
        self._all_topics_once = self._all_topics_once or all_topics
        if at_once and self.error is None:
            self._not_before_ms = _ALWAYS_PAST_MS
        return self._requested + 1

    def is_answered(self, ticket: int) -> bool:
        """Return whether a request that was sent after the ticket has a response."""
        return self._answered >= ticket

    def failure_of(self, ticket: int) -> KcliError | None:
        """Return the error of the last request, if it was sent after the ticket and failed."""
        has_ended = self._requested >= ticket and not self._in_flight
        return self.error if has_ended and not self.needs_rebootstrap else None

    def update_leader(self, tp: TopicPartition, leader: int, epoch: int, nodes: Iterable[Node] = ()) -> bool:
        """Take over a new leader from the response of a former one (KIP-951). Return whether it is new."""
        info = self.partition(tp)
        nodes_by_id = {**self.cluster.nodes, **{node.id: node for node in nodes}}
        if info is None or epoch <= info.epoch or leader < 0 or leader not in nodes_by_id or self.is_bootstrap:
            return False
        topic = self.cluster.topics[tp.topic]
        partitions = {**topic.partitions, tp.partition: info._replace(leader=leader, epoch=epoch)}
        topics = {**self.cluster.topics, tp.topic: topic._replace(partitions=partitions)}
        self.cluster = self.cluster._replace(nodes=nodes_by_id, topics=topics)
        return True

    # The request

    def time_to_refresh(self, now_ms: float) -> float:
        """Return the ms until the next request: 0 if it is due, infinity if none is needed or one is in flight."""
        if self._in_flight:
            return _NEVER_MS
        due_ms = now_ms if self._due else self._stale_at_ms
        return max(due_ms - now_ms, self._not_before_ms - now_ms, 0.0)

    def next_request(self, now_ms: float) -> MetadataRequest:
        """Return the request to send now. `update` or `failed` must follow."""
        self._in_flight, self._in_flight_all = True, self._all_topics_once or self.all_topics
        self._due = self._all_topics_once = False
        self._requested += 1
        if self.attempts_since_ms is None:
            self.attempts_since_ms = now_ms
        topics = (
            None if self._in_flight_all else [MetadataRequestTopic(name=name) for name in list(self._requested_topics)]
        )
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_create)

    def update(self, response: MetadataResponse, now_ms: float) -> None:
        """Apply a response. One with an error, or without brokers, is a failure."""
        if response.error_code:
            return self.failed(response.broker_error(response.error_code, api="Metadata"), now_ms)
        if not response.brokers:
            return self.failed(BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker knows no brokers yet"), now_ms)
        previous, self.cluster = self.cluster, _keep_newer_leaders(_read_cluster(response), self.cluster.topics)
        self._in_flight = False
        self._answered = self._requested
        self.update_version += 1
        self.outcomes += 1
        self.error = None
        self.attempts_since_ms = None
        self._unchanged_count = self._unchanged_count + 1 if self.cluster == previous else 0
        self._not_before_ms = now_ms + self._backoff.after(1 + self._unchanged_count)
        self._stale_at_ms = now_ms + self._max_age_ms
        if any(topic.error.retriable and topic.error.refresh_metadata for topic in self.cluster.topics.values()):
            self._due = True
        return None

    def failed(self, error: KcliError, now_ms: float) -> None:
        """End the request without a usable response. It is repeated after the backoff."""
        self._in_flight = False
        self._due = True
        self._all_topics_once = self._all_topics_once or self._in_flight_all
        self._unchanged_count += 1
        self.outcomes += 1
        self._not_before_ms = now_ms + self._backoff.after(self._unchanged_count)
        self.error = error

    def refused(self) -> None:
        """Count a failed authentication among the outcomes, so that a caller that waits for metadata looks at it."""
        self.outcomes += 1

    def rebootstrap(self, now_ms: float) -> None:
        """Replace the brokers by the bootstrap addresses, and keep the topics (KIP-899)."""
        self.cluster = self.cluster._replace(nodes=self._bootstrap, controller_id=-1)
        self._due = True
        self._not_before_ms = _ALWAYS_PAST_MS
        self.attempts_since_ms = now_ms

    @property
    def needs_rebootstrap(self) -> bool:
        """True if a broker demanded a rebootstrap (KIP-1102)."""
        return isinstance(self.error, BrokerError) and self.error.code == ErrorCode.REBOOTSTRAP_REQUIRED


def _read_cluster(response: MetadataResponse) -> Cluster:
    nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
    topics = {t.name: _read_topic(t.name, t) for t in response.topics if t.name is not None}
    return Cluster(response.cluster_id, response.controller_id, nodes, topics, response.principal)


def _read_topic(name: str, topic: MetadataResponseTopic) -> TopicInfo:
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


def _keep_newer_leaders(cluster: Cluster, previous_topics: Mapping[str, TopicInfo]) -> Cluster:
    """Return `cluster` with the partitions of `previous_topics` that have a newer leader epoch.

    Brokers learn of a new leader at different times, so a response may be older than one from another broker. A topic
    with another id was deleted and created again: its epochs start again.
    """
    for name, topic in cluster.topics.items():
        previous = previous_topics.get(name)
        if previous is None or previous.topic_id != topic.topic_id:
            continue
        for number, info in topic.partitions.items():
            previous_info = previous.partitions.get(number)
            if previous_info is not None and -1 < info.epoch < previous_info.epoch:
                topic.partitions[number] = previous_info
    return cluster


class Network(Protocol):
    """The part of the network client that `MetadataUpdater` uses."""

    def least_loaded_node(self, now_ms: float) -> Node | None: ...
    def ready(self, node: Node, now_ms: float) -> bool: ...
    def delay_ms(self, node_id: int, now_ms: float) -> float: ...
    def adopt(self, bootstrap: Node, node: Node) -> None: ...


#: Send a request, of at least this version, to a ready node.
Ask = Callable[[Node, MetadataRequest, int], "RequestFuture[MetadataResponse]"]


class MetadataUpdater:
    """Sends metadata requests to the least loaded node, and rebootstraps when all known nodes are lost (KIP-899).

    The network client calls `refresh` before each poll.
    """

    def __init__(
        self, metadata: Metadata, config: ClientConfig, network: Network, ask: Ask, now_ms: Callable[[], float]
    ) -> None:
        self._metadata = metadata
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        self._trigger_ms = config.metadata_recovery_rebootstrap_trigger_ms
        self._lowest_version = 0 if config.allow_auto_create_topics else _FIRST_VERSION_WITHOUT_AUTO_CREATION
        self._network = network
        self._ask = ask
        self._warnings = RepeatedWarnings("kcli.client")
        self._now_ms = now_ms

    def refresh(self, now_ms: float, patience_ms: float) -> float:
        """Send a request if it is due. Return the time in ms until the next call can change something.

        While a connection is being made an event ends the poll, but after `patience_ms` another node may be better.
        """
        wait_ms = self._metadata.time_to_refresh(now_ms)
        if wait_ms > 0:
            return wait_ms
        node = self._choose_node(now_ms)
        if node is None:
            nodes = self._metadata.cluster.nodes
            return min((self._network.delay_ms(node_id, now_ms) for node_id in nodes), default=0.0)
        if not self._network.ready(node, now_ms):
            return min(self._network.delay_ms(node.id, now_ms), patience_ms)
        future = self._ask(node, self._metadata.next_request(now_ms), self._lowest_version)
        future.add_done_callback(lambda done: self._finish(node, done))
        return self._metadata.time_to_refresh(now_ms)

    def _choose_node(self, now_ms: float) -> Node | None:
        metadata = self._metadata
        node = self._network.least_loaded_node(now_ms)
        if not self._rebootstraps or metadata.is_bootstrap:
            return node
        since_ms = metadata.attempts_since_ms
        timed_out = since_ms is not None and now_ms - since_ms > self._trigger_ms
        if node is None or timed_out or metadata.needs_rebootstrap:
            metadata.rebootstrap(now_ms)
            node = self._network.least_loaded_node(now_ms)
        return node

    def _finish(self, node: Node, future: RequestFuture[MetadataResponse]) -> None:
        now_ms = self._now_ms()
        if future.error is not None:
            self._metadata.failed(future.error, now_ms)
        else:
            self._metadata.update(future.value(), now_ms)
        error = self._metadata.error
        if error is None:
            self._warnings.ended(now_ms, f"{node} describes the cluster again", "metadata")
        elif not isinstance(error, DisconnectedError):  # a lost connection has a line of its own
            self._warnings.warn("metadata", now_ms, f"{node} does not describe the cluster: {error}")
        if future.error is not None:
            return
        if node.id < 0:
            self._adopt_connection(node)

    def _adopt_connection(self, bootstrap: Node) -> None:
        """Use the connection to a bootstrap address for the broker that advertises the same address."""
        for node in self._metadata.cluster.nodes.values():
            if (node.host, node.port) == (bootstrap.host, bootstrap.port):
                self._network.adopt(bootstrap, node)
                return
