"""Which node leads a partition: from the metadata we have, refreshed when it has proved wrong or lacks something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.client.gather import Located
from kcli.client.metadata import Cluster
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import Node, TopicPartition


def locate_leaders(
    client: ConsumerNetworkClient,
    partitions: Sequence[TopicPartition],
    failures: Mapping[TopicPartition, KcliError],
    deadline_ms: float,
) -> Located[TopicPartition]:
    """Partitions by leader. A topic or partition that the cluster does not have is absent: no error of the moment."""
    cluster = client.metadata.cluster
    if any(_is_sign_of_change(e) for e in failures.values()) or any(_leader(cluster, tp) is None for tp in partitions):
        cluster = client.topics_metadata(sorted({tp.topic for tp in partitions}), deadline_ms)
    located: Located[TopicPartition] = Located()
    for tp in partitions:
        error = _missing(cluster, tp)
        if error is not None:
            located.absent[tp] = error
            continue
        node = _leader(cluster, tp)
        if node is None:
            located.homeless[tp] = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, topic=tp.topic, partition=tp.partition)
        else:
            located.by_node.setdefault(node, []).append(tp)
    return located


def _is_sign_of_change(error: KcliError) -> bool:
    return not isinstance(error, BrokerError) or error.code.refresh_metadata


def _leader(cluster: Cluster, tp: TopicPartition) -> Node | None:
    topic = cluster.topics.get(tp.topic)
    info = topic.partitions.get(tp.partition) if topic is not None else None
    return cluster.broker(info.leader) if info is not None else None


def _missing(cluster: Cluster, tp: TopicPartition) -> KcliError | None:
    """Why the cluster will not have this partition a moment later either."""
    topic = cluster.topics.get(tp.topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
    if topic is None or (code and code != ErrorCode.LEADER_NOT_AVAILABLE):
        return BrokerError(code, topic=tp.topic)
    if not code and tp.partition not in topic.partitions:
        text = f"{tp.topic} has {len(topic.partitions)} partitions, and no number {tp.partition}"
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return None
