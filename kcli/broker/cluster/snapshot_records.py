"""The records that a snapshot of a `MetadataImage` consists of (KIP-630)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcli.broker.cluster.features import METADATA_VERSION
from kcli.broker.cluster.image import MetadataImage, PartitionState, Registration, TopicState
from kcli.protocol import metadata_records as records


def records_of(image: MetadataImage) -> Iterator[Any]:
    """Return records that make an equal image out of an empty one. The metadata version is first, as in Kafka."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield records.FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _registration(broker)
    for topic in image.topics.values():
        yield records.TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for number, state in topic.partitions.items():
            yield _partition(topic, number, state)
    for (kind, resource), configs in image.configs.items():
        for name, value in configs.items():
            yield records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    for entity, limits in image.quotas.items():
        parts = [records.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, limit in limits.items():
            yield records.ClientQuotaRecord(entity=parts, key=key, value=limit)
    if image.next_producer_id:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    yield from image.scram.values()
    yield from image.tokens.values()


def _registration(broker: Registration) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            records.BrokerEndpoint(
                name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol
            )
            for listener in broker.listeners
        ],
        features=[
            records.BrokerFeature(name=name, min_supported_version=first, max_supported_version=last)
            for name, (first, last) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def _partition(topic: TopicState, number: int, state: PartitionState) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=number,
        topic_id=topic.topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        removing_replicas=list(state.removing),
        adding_replicas=list(state.adding),
        leader=state.leader,
        leader_recovery_state=int(state.is_recovering),
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=list(state.directories),
        eligible_leader_replicas=list(state.elr) or None,
        last_known_elr=list(state.last_known_elr) or None,
    )
