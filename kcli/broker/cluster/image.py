"""MetadataImage: brokers, topics and settings of a cluster, kept by applying metadata records (KIP-631)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from kcli.broker.cluster.cluster_values import NO_LEADER, Listener, PartitionState, Registration, TopicState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ProtocolError
from kcli.protocol import metadata_records as records
from kcli.structs import TopicPartition

__all__ = ["NO_LEADER", "Changes", "Listener", "MetadataImage", "PartitionState", "Registration", "TopicState"]

#: In a PartitionChangeRecord: the leader, and so the leader epoch, stays as it is.
NO_LEADER_CHANGE = -2
TOPIC_CONFIG, BROKER_CONFIG = 2, 4


class Changes:
    """Changes made by a series of records. Removed topics have their last state."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self.removed_topics: list[TopicState] = []
        self.brokers: dict[int, None] = {}
        self.configs: dict[tuple[int, str], None] = {}
        self.kinds: set[type] = set()  # the record types seen, for those who keep their own state by them

    def __repr__(self) -> str:
        return f"<Changes {len(self.partitions)} partitions, {len(self.brokers)} brokers, {len(self.configs)} configs>"


class MetadataImage:
    """The state after all records up to `offset`.

    `configs` are by resource type and name; `acls`, `scram` and `tokens` hold the records themselves, `quotas` the
    limits by entity (pairs of type and name).
    """

    def __init__(self) -> None:
        self.offset = -1
        self.epoch = -1
        self.brokers: dict[int, Registration] = {}
        self.topics: dict[str, TopicState] = {}
        self.names: dict[UUID, str] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.acls: dict[UUID, records.AccessControlEntryRecord] = {}
        self.scram: dict[tuple[str, int], records.UserScramCredentialRecord] = {}
        self.tokens: dict[str, records.DelegationTokenRecord] = {}
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}

    def __repr__(self) -> str:
        return f"<MetadataImage offset={self.offset} {len(self.brokers)} brokers, {len(self.topics)} topics>"

    # ---- reading ----

    def topic_by_id(self, topic_id: UUID) -> TopicState | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Iterate over all partitions of all topics."""
        for topic in self.topics.values():
            for number, state in topic.partitions.items():
                yield TopicPartition(topic.name, number), state

    def is_active(self, node_id: int) -> bool:
        """True if this broker is registered, unfenced and not shutting down."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.is_active

    def topic_or_error(self, name_or_id: str | UUID) -> TopicState:
        """Return the topic. BrokerError UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID if there is none."""
        if isinstance(name_or_id, UUID):
            topic, code = self.topic_by_id(name_or_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, code = self.topics.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            raise BrokerError(code)
        return topic

    def resource_configs(self, kind: int) -> dict[str, dict[str, str]]:
        """Return the overrides of all resources of a type, by name."""
        return {name: configs for (of_kind, name), configs in self.configs.items() if of_kind == kind}

    # ---- applying ----

    def apply(self, record: Any, changes: Changes) -> None:
        """Apply one record. ProtocolError if it does not fit to those before, such as a partition of no topic.

        Records that say nothing to a broker are ignored: those about controllers, ZooKeeper and time.
        """
        apply = _APPLY.get(type(record))
        if apply is not None:
            changes.kinds.add(type(record))
            try:
                apply(self, record, changes)
            except KeyError as missing:
                raise ProtocolError(f"{type(record).__name__} refers to {missing}, which is unknown") from None


def _register(image: MetadataImage, record: records.RegisterBrokerRecord, changes: Changes) -> None:
    image.brokers[record.broker_id] = Registration(
        record.broker_id,
        record.broker_epoch,
        record.incarnation_id,
        tuple(
            Listener(endpoint.name, endpoint.host, endpoint.port, endpoint.security_protocol)
            for endpoint in record.end_points
        ),
        {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in record.features},
        record.rack,
        record.fenced,
        record.in_controlled_shutdown,
        tuple(record.log_dirs),
        None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
    )
    changes.brokers[record.broker_id] = None


def _change_registration(
    image: MetadataImage, record: records.BrokerRegistrationChangeRecord, changes: Changes
) -> None:
    broker = image.brokers[record.broker_id]
    if record.fenced:
        broker = broker._replace(is_fenced=record.fenced > 0)
    if record.in_controlled_shutdown:
        broker = broker._replace(in_controlled_shutdown=record.in_controlled_shutdown > 0)
    if record.log_dirs:
        broker = broker._replace(log_dirs=tuple(record.log_dirs))
    if record.cordoned_log_dirs is not None:
        broker = broker._replace(cordoned_log_dirs=tuple(record.cordoned_log_dirs))
    image.brokers[record.broker_id] = broker
    changes.brokers[record.broker_id] = None


def _fence(image: MetadataImage, record: records.FenceBrokerRecord, changes: Changes) -> None:
    image.brokers[record.id] = image.brokers[record.id]._replace(is_fenced=True)
    changes.brokers[record.id] = None


def _unfence(image: MetadataImage, record: records.UnfenceBrokerRecord, changes: Changes) -> None:
    image.brokers[record.id] = image.brokers[record.id]._replace(is_fenced=False)
    changes.brokers[record.id] = None


def _unregister(image: MetadataImage, record: records.UnregisterBrokerRecord, changes: Changes) -> None:
    del image.brokers[record.broker_id]
    changes.brokers[record.broker_id] = None


def _add_topic(image: MetadataImage, record: records.TopicRecord, changes: Changes) -> None:
    image.topics[record.name] = TopicState(record.name, record.topic_id, {})
    image.names[record.topic_id] = record.name


def _remove_topic(image: MetadataImage, record: records.RemoveTopicRecord, changes: Changes) -> None:
    topic = image.topics.pop(image.names.pop(record.topic_id))
    image.configs.pop((TOPIC_CONFIG, topic.name), None)
    changes.removed_topics.append(topic)
    for number in topic.partitions:
        changes.partitions.pop(TopicPartition(topic.name, number), None)


def _set_partition(image: MetadataImage, record: records.PartitionRecord, changes: Changes) -> None:
    topic = image.topics[image.names[record.topic_id]]
    topic.partitions[record.partition_id] = partition_of(record)
    changes.partitions[TopicPartition(topic.name, record.partition_id)] = None


def partition_of(record: records.PartitionRecord) -> PartitionState:
    """Return the state of a partition as its record has it."""
    return PartitionState(
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(record.eligible_leader_replicas or ()),
        tuple(record.last_known_elr or ()),
        bool(record.leader_recovery_state),
        tuple(record.directories),
    )


def _change_partition(image: MetadataImage, record: records.PartitionChangeRecord, changes: Changes) -> None:
    topic = image.topics[image.names[record.topic_id]]
    topic.partitions[record.partition_id] = changed_partition(topic.partitions[record.partition_id], record)
    changes.partitions[TopicPartition(topic.name, record.partition_id)] = None


def changed_partition(state: PartitionState, record: records.PartitionChangeRecord) -> PartitionState:
    """Return the state after a change. The partition epoch rises by 1, and with a leader in the record its epoch."""
    has_leader = record.leader != NO_LEADER_CHANGE
    return PartitionState(
        _changed(state.replicas, record.replicas),
        _changed(state.isr, record.isr),
        record.leader if has_leader else state.leader,
        state.leader_epoch + has_leader,
        state.partition_epoch + 1,
        _changed(state.adding, record.adding_replicas),
        _changed(state.removing, record.removing_replicas),
        _changed(state.elr, record.eligible_leader_replicas),
        _changed(state.last_known_elr, record.last_known_elr),
        state.is_recovering if record.leader_recovery_state < 0 else bool(record.leader_recovery_state),
        _changed(state.directories, record.directories),
    )


def _changed(before: tuple[Any, ...], new: list[Any] | None) -> tuple[Any, ...]:
    return before if new is None else tuple(new)


def _set_config(image: MetadataImage, record: records.ConfigRecord, changes: Changes) -> None:
    key = record.resource_type, record.resource_name
    configs = dict(image.configs.get(key, {}))
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    image.configs[key] = configs
    if not configs:
        del image.configs[key]
    changes.configs[key] = None


def _set_feature(image: MetadataImage, record: records.FeatureLevelRecord, changes: Changes) -> None:
    if record.feature_level:
        image.features[record.name] = record.feature_level
    else:
        image.features.pop(record.name, None)


def _set_producer_ids(image: MetadataImage, record: records.ProducerIdsRecord, changes: Changes) -> None:
    image.next_producer_id = record.next_producer_id


def _add_acl(image: MetadataImage, record: records.AccessControlEntryRecord, changes: Changes) -> None:
    image.acls[record.id] = record


def _remove_acl(image: MetadataImage, record: records.RemoveAccessControlEntryRecord, changes: Changes) -> None:
    del image.acls[record.id]


def _set_scram(image: MetadataImage, record: records.UserScramCredentialRecord, changes: Changes) -> None:
    image.scram[record.name, record.mechanism] = record


def _remove_scram(image: MetadataImage, record: records.RemoveUserScramCredentialRecord, changes: Changes) -> None:
    del image.scram[record.name, record.mechanism]


def _set_token(image: MetadataImage, record: records.DelegationTokenRecord, changes: Changes) -> None:
    image.tokens[record.token_id] = record


def _remove_token(image: MetadataImage, record: records.RemoveDelegationTokenRecord, changes: Changes) -> None:
    del image.tokens[record.token_id]


def _set_quota(image: MetadataImage, record: records.ClientQuotaRecord, changes: Changes) -> None:
    entity = tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda pair: pair[0]))
    limits = {key: value for key, value in image.quotas.get(entity, {}).items() if key != record.key}
    if not record.remove:
        limits[record.key] = record.value
    image.quotas[entity] = limits
    if not limits:
        del image.quotas[entity]


def _clear_elr(image: MetadataImage, record: records.ClearElrRecord, changes: Changes) -> None:
    topics = [image.topics[record.topic_name]] if record.topic_name else image.topics.values()
    for topic in topics:
        for number, state in topic.partitions.items():
            if state.elr or state.last_known_elr:
                topic.partitions[number] = state._replace(
                    elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1
                )
                changes.partitions[TopicPartition(topic.name, number)] = None


_APPLY: dict[type, Callable[[MetadataImage, Any, Changes], None]] = {
    records.RegisterBrokerRecord: _register,
    records.BrokerRegistrationChangeRecord: _change_registration,
    records.FenceBrokerRecord: _fence,
    records.UnfenceBrokerRecord: _unfence,
    records.UnregisterBrokerRecord: _unregister,
    records.TopicRecord: _add_topic,
    records.RemoveTopicRecord: _remove_topic,
    records.PartitionRecord: _set_partition,
    records.PartitionChangeRecord: _change_partition,
    records.ConfigRecord: _set_config,
    records.FeatureLevelRecord: _set_feature,
    records.ProducerIdsRecord: _set_producer_ids,
    records.AccessControlEntryRecord: _add_acl,
    records.RemoveAccessControlEntryRecord: _remove_acl,
    records.UserScramCredentialRecord: _set_scram,
    records.RemoveUserScramCredentialRecord: _remove_scram,
    records.DelegationTokenRecord: _set_token,
    records.RemoveDelegationTokenRecord: _remove_token,
    records.ClientQuotaRecord: _set_quota,
    records.ClearElrRecord: _clear_elr,
}
