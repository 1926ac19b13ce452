"""The cluster as the handlers of CreateTopics, AlterConfigs and others see it while the controller makes a decision.

A `DraftCluster` has the methods of `ClusterView` that those handlers use. Its changes are records in a draft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.cluster.decide.partitions import default_directory
from kcli.broker.cluster.decide.placement import place
from kcli.broker.cluster.dynamic_config import ALL_BROKERS, DynamicConfig, check_in_sync
from kcli.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS
from kcli.broker.cluster.image import (
    BROKER_CONFIG,
    TOPIC_CONFIG,
    MetadataImage,
    PartitionState,
    TopicState,
    partition_of,
)
from kcli.broker.cluster.topic_configs import check_topic_configs
from kcli.broker.cluster.topic_rules import (
    check_assignments,
    check_counts,
    check_new_name,
    check_partition_limit,
    check_replicas,
    new_partition_count,
)
from kcli.broker.cluster.view import DEFAULT
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import Update
from kcli.broker.data_dir import random_uuid
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.protocol.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from random import Random

    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.config import BrokerConfig

_IN_SYNC = "min.insync.replicas"


class DraftCluster:
    """Topics and settings of a draft, and the operations that change them."""

    def __init__(self, draft: Draft, config: BrokerConfig, random: Random) -> None:
        self._draft = draft
        self._config = config
        self._random = random
        self.node_id = config.node_id

    def __repr__(self) -> str:
        return f"<DraftCluster {self._draft!r}>"

    @property
    def image(self) -> MetadataImage:
        """The state of the cluster with the records of the draft."""
        return self._draft.image

    @property
    def topics(self) -> Mapping[str, TopicState]:
        return self.image.topics

    @cached_property
    def dynamic(self) -> DynamicConfig:
        """The settings of the controller with the overrides of all brokers, which are the defaults of topics."""
        changed = {
            name: {key: value for key, value in configs.items() if _is_valid(key, value)}
            for (kind, name), configs in self.image.configs.items()
            if kind == BROKER_CONFIG
        }
        return DynamicConfig(self._config, changed)

    @property
    def settings(self) -> BrokerConfig:
        return self.dynamic.settings

    def topic_by_id(self, topic_id: UUID) -> TopicState | None:
        return self.image.topic_by_id(topic_id)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the overrides of a topic as text."""
        return self.image.configs.get((TOPIC_CONFIG, name), {})

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        return self.image.partition(tp)

    # ---- topics ----

    def create_topic(
        self,
        name: str,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        configs: Mapping[str, str] | None = None,
        *,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> TopicState:
        """Create a topic, or only validate the request. BrokerError with the code that CreateTopics returns."""
        image = self.image
        check_new_name(name, image.topics)
        if configs:
            check_topic_configs(self.settings, configs)
        if assignments:
            check_assignments(assignments, image.brokers)
            check_partition_limit(len(assignments))
            placed = [tuple(assignments[number]) for number in sorted(assignments)]
        else:
            partitions = self.settings.num_partitions if partitions == DEFAULT else partitions
            if replication_factor == DEFAULT:
                replication_factor = self.settings.default_replication_factor
            check_counts(partitions, replication_factor)
            placed = place(image.brokers.values(), partitions, replication_factor, self._random)
        topic_id = random_uuid()
        records = [
            self._partition(topic_id, number, replicas, is_assigned=bool(assignments))
            for number, replicas in enumerate(placed)
        ]
        if validate_only:
            return TopicState(name, topic_id, {record.partition_id: partition_of(record) for record in records})
        self._draft.write(TopicRecord(name=name, topic_id=topic_id))
        for key, value in (configs or {}).items():
            self._draft.write(_config(TOPIC_CONFIG, name, key, value))
        for record in records:
            self._draft.write(record)
        return self.image.topics[name]

    def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase a topic to `total` partitions. BrokerError with the code that CreatePartitions returns."""
        topic = self.image.topic_or_error(name)
        existing = len(topic.partitions)
        count = new_partition_count(name, existing, total, assignments)
        check_partition_limit(total)
        replicas = len(topic.partitions[0].replicas)
        brokers = self.image.brokers
        if assignments is None:
            placed = place(brokers.values(), count, replicas, self._random)
        else:
            for replica_ids in assignments:
                check_replicas(replica_ids, brokers, replicas)
            placed = [tuple(replica_ids) for replica_ids in assignments]
        records = [
            self._partition(topic.topic_id, number, placed_on, is_assigned=assignments is not None)
            for number, placed_on in enumerate(placed, existing)
        ]
        if not validate_only:
            for record in records:
                self._draft.write(record)

    def _partition(
        self, topic_id: UUID, number: int, replicas: tuple[int, ...], *, is_assigned: bool
    ) -> PartitionRecord:
        """Return the record of a new partition; its active replicas are in sync, and the first of them leads."""
        image = self.image
        isr = [replica for replica in replicas if image.is_active(replica)]
        if not isr:
            code = ErrorCode.INVALID_REPLICA_ASSIGNMENT if is_assigned else ErrorCode.INVALID_REPLICATION_FACTOR
            raise BrokerError(
                code, f"All brokers of partition {number} are fenced or shutting down: {','.join(map(str, replicas))}"
            )
        return PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=list(replicas),
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=[default_directory(image, replica) for replica in replicas],
        )

    def delete_topic(self, name_or_id: str | UUID) -> TopicState:
        """Delete a topic. BrokerError with the code that DeleteTopics returns."""
        topic = self.image.topic_or_error(name_or_id)
        if not self.settings.delete_topic_enable:
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        self._draft.write(RemoveTopicRecord(topic_id=topic.topic_id))
        return topic

    # ---- settings ----

    def set_topic_configs(self, name: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the overrides of a topic. BrokerError if they are not valid."""
        self.image.topic_or_error(name)
        check_topic_configs(self.settings, configs)
        if not validate_only:
            self.set_resource_configs(TOPIC_CONFIG, name, configs)

    def check_broker(self, broker: str) -> None:
        """Raise BrokerError unless this is "" (all brokers) or the id of a registered broker."""
        if broker == ALL_BROKERS:
            return
        if not (broker.isascii() and broker.isdigit()):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{broker!r} is not the id of a broker")
        if int(broker) not in self.image.brokers and int(broker) != self.node_id:
            if self._is_alone:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"This is broker {self.node_id}, not {broker!r}")
            raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")

    @property
    def _is_alone(self) -> bool:
        """True if the only broker is in this process: it knows its settings."""
        return set(self.image.brokers) == {self.node_id}

    def set_broker_configs(self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the overrides of a broker or of all brokers.

        BrokerError if a value is not valid, or the setting cannot be changed at run time. A setting that we do not have
        is accepted if there are other brokers: one of another kind may have it.
        """
        for name, value in configs.items():
            option = BROKER_OPTIONS.get(name)
            if option is None:
                if self._is_alone:
                    raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name} is not a broker setting")
                continue
            if option.update is Update.READ_ONLY:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} cannot be changed while the broker runs")
            try:
                option.parse(value)
            except ConfigError as error:
                raise BrokerError(ErrorCode.INVALID_REQUEST, error.message) from None
        if self._is_alone:
            try:
                DynamicConfig(self._config, {**self.dynamic.changed, broker: dict(configs)})
            except ConfigError as error:  # it does not fit to the other settings
                raise BrokerError(ErrorCode.INVALID_REQUEST, error.message) from None
        if self.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
            check_in_sync(broker, self.image.configs.get((BROKER_CONFIG, broker), {}), configs)
        if not validate_only:
            self.set_resource_configs(BROKER_CONFIG, broker, configs)

    def set_resource_configs(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        """Replace the overrides of a resource. They are valid."""
        before = self.image.configs.get((kind, name), {})
        changed = [key for key in {**before, **configs} if before.get(key) != configs.get(key)]
        for key in changed:
            self._draft.write(_config(kind, name, key, configs.get(key)))
        if _IN_SYNC in changed and self.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0:
            # What is eligible depends on this setting, so it is computed anew.
            self._draft.write(ClearElrRecord(topic_name=name if kind == TOPIC_CONFIG else ""))


def _is_valid(name: str, value: str) -> bool:
    """Return whether this is a setting that we know, with a valid value."""
    try:
        return name in BROKER_OPTIONS and BROKER_OPTIONS[name].parse(value) is not None
    except ConfigError:
        return False


def _config(kind: int, resource: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
