"""A cluster as one Metadata answer described it: brokers, topics, partitions with their leaders. Pure data."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import Node

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


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
    topic_id: "UUID | None" = None
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


def cluster_of(response: "MetadataResponse") -> Cluster:
    """The cluster that a broker described."""
    nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
    topics = {t.name: _topic_of(t.name, t) for t in response.topics if t.name is not None}
    return Cluster(response.cluster_id, response.controller_id, nodes, topics)


def _topic_of(name: str, topic: "MetadataResponseTopic") -> TopicInfo:
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
