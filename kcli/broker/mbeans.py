"""Metrics of a broker: what Kafka's MBeans count, under their names.

`broker_metrics` and `controller_metrics` read the counts of `counters`, and the gauges, when somebody asks. `by_mbean`
and `families` show the result as JMX and as Prometheus's JMX exporter name it. Missing: metrics of single partitions,
of log cleaning, and of coordinators.

Source of the names: https://kafka.apache.org/documentation/#monitoring
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.broker.counters import TOPIC_NAMES, MBean, gauge, meter
from kcli.metric import Metric

if TYPE_CHECKING:
    from kcli.broker.cluster.image import MetadataImage
    from kcli.broker.counters import RequestMetrics
    from kcli.broker.replica_manager import ReplicaManager

_REPLICA_MANAGER = "kafka.server:type=ReplicaManager"
_PURGATORY = "kafka.server:type=DelayedOperationPurgatory"
CONTROLLER = "kafka.controller:type=KafkaController"


def broker_metrics(manager: ReplicaManager, requests: RequestMetrics, replicated_bytes: int) -> list[MBean]:
    """Return the metrics of a broker, in its loop thread. `replicated_bytes` were fetched from other brokers."""
    replicas = manager.replicas
    found = manager.metrics.mbeans(replicated_bytes) + requests.mbeans()
    leaders = [partition for partition in manager.partitions.values() if partition.is_leader]
    states = [partition.state for partition in leaders if partition.state is not None]
    gauges = {
        "LeaderCount": len(leaders),
        "PartitionCount": len(manager.partitions),
        "OfflineReplicaCount": len(manager.partitions) if manager.log_manager.failed is not None else 0,
        "UnderReplicatedPartitions": sum(len(state.isr) < len(state.replicas) for state in states),
        "UnderMinIsrPartitionCount": sum(partition.is_under_min_isr for partition in leaders),
    }
    found += [gauge(_REPLICA_MANAGER, name, value) for name, value in gauges.items()]
    if replicas is not None:
        changes = replicas.isr_changes
        found.append(meter(_REPLICA_MANAGER, "IsrExpandsPerSec", changes.expanded))
        found.append(meter(_REPLICA_MANAGER, "IsrShrinksPerSec", changes.shrunk))
    purgatories = {"Produce": manager.produces, "Fetch": manager.fetches, "DeleteRecords": manager.deletes}
    for operation, purgatory in purgatories.items():
        found.append(gauge(_PURGATORY, "PurgatorySize", purgatory.watched, delayedOperation=operation))
        found.append(gauge(_PURGATORY, "NumDelayedOperations", purgatory.delayed, delayedOperation=operation))
    return found


def controller_metrics(image: MetadataImage) -> list[MBean]:
    """Return the gauges of a controller, in its loop thread."""
    states = [state for _, state in image.partitions()]
    offline = sum(state.leader < 0 for state in states)
    fenced = sum(broker.is_fenced for broker in image.brokers.values())
    return controller_gauges(len(image.topics), len(states), offline, len(image.brokers) - fenced, fenced)


def controller_gauges(topics: int, partitions: int, offline: int, active: int, fenced: int) -> list[MBean]:
    """Return the gauges of a controller with these numbers of topics, partitions and brokers."""
    gauges = {
        "ActiveControllerCount": 1,
        "ActiveBrokerCount": active,
        "FencedBrokerCount": fenced,
        "GlobalTopicCount": topics,
        "GlobalPartitionCount": partitions,
        "OfflinePartitionsCount": offline,
    }
    return [gauge(CONTROLLER, name, value) for name, value in gauges.items()]


def by_mbean(mbeans: Iterable[MBean]) -> dict[str, dict[str, float]]:
    """Return the attributes by the name of the MBean, `kafka.server:type=ReplicaManager,name=LeaderCount`."""
    return {
        f"{bean.domain},name={bean.name}{''.join(f',{key}={value}' for key, value in bean.tags)}": bean.attributes
        for bean in mbeans
    }


def families(mbeans: Iterable[MBean]) -> list[Metric]:
    """Return metrics with the names of Prometheus's JMX exporter: `kafka_server_replicamanager_leadercount`.

    The sum of all topics has no label `topic`. Of a time in ms there is the sum; the number is that of the requests.
    """
    found: dict[str, Metric] = {}
    labels: Mapping[str, tuple[str, ...]] = dict.fromkeys((*TOPIC_NAMES.values(),), ("topic",))
    for bean in mbeans:
        keys = labels.get(bean.name, tuple(key for key, _ in bean.tags))
        value, is_counter = bean.attributes.get("Value"), "Value" not in bean.attributes
        if value is None:
            value = bean.attributes["Count"] * bean.attributes.get("Mean", 1.0)
        domain, _, kind = bean.domain.partition(":type=")
        name = "_".join((domain.replace(".", "_"), kind, bean.name.removesuffix("PerSec"))).lower()
        text = f"{bean.domain},name={bean.name}{', the sum since the start' if 'Mean' in bean.attributes else ''}"
        metric = found.setdefault(name, Metric(name, text, keys, [], is_counter))
        tags = dict(bean.tags)
        metric.samples.append((tuple(tags.get(key, "") for key in keys), value))
    return list(found.values())
