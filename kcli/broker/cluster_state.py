"""The topics of this broker: made, changed and removed so that a crash leaves each of them whole or gone.

A new topic is in the store before its directories are made, and the next start makes what is missing; a deleted one is
a tombstone in the store before its directories go, and the next start removes what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.data_dir import random_uuid
from kcli.broker.dynamic_config import DynamicConfig
from kcli.broker.topic_configs import check_topic_configs, log_config
from kcli.broker.topic_rules import (
    check_assignments,
    check_counts,
    check_new_name,
    check_partition_limit,
    check_replicas,
)
from kcli.broker.topic_store import Catalogue, Topic, TopicStore, adopt_partitions
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.log_manager import LogManager
    from kcli.broker.replica_manager import ReplicaManager

DEFAULT = -1  # partitions and replication factor: as the broker's settings say


class ClusterState:
    """Of one node. `topics` by name; `host` and `port` are what clients are told, set when the broker listens.

    Make it before the logs are opened (`log_config` says what they go by), and `start` it after that. Those in
    `on_topic_deleted` are called with the topic's name and the wall clock's time.
    """

    def __init__(
        self, config: BrokerConfig, files: Files, log_manager: LogManager, replica_manager: ReplicaManager
    ) -> None:
        """Read the store. ConfigError if it is damaged."""
        self.node_id = config.node_id
        self.cluster_id = log_manager.cluster_id
        self.host = config.advertised_host or config.host
        self.port = config.advertised_port or config.port
        self.on_topic_deleted: list[Callable[[str, int], None]] = []
        self.reports: list[str] = []
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._store = TopicStore(files, log_manager.data_dir)
        found = self._store.load()
        self._catalogue = found or Catalogue()
        self.dynamic = DynamicConfig(config, self._catalogue.broker_configs)
        if found is None:
            self.dynamic.seed()
        self.topics = self._catalogue.topics
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}

    def __repr__(self) -> str:
        return f"<ClusterState {self.cluster_id} node={self.node_id} {len(self.topics)} topics>"

    @property
    def settings(self) -> BrokerConfig:
        """The broker's settings with what was changed while it ran."""
        return self.dynamic.settings

    def log_config(self, name: str) -> LogConfig:
        """What the logs of a topic go by; the defaults for an unknown one."""
        topic = self.topics.get(name)
        return log_config(self.settings, topic.configs if topic else self.internal_configs(name))

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def start(self) -> None:
        """Bring store and directories in line, and lead all partitions. ConfigError when they contradict each other."""
        self.reports += adopt_partitions(self._catalogue, self._log_manager, self.internal_configs)
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}
        self._save()
        for topic in self.topics.values():
            self._lead(topic, range(topic.partitions))

    # ---- new topics ----

    def create_topic(
        self,
        name: str,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        configs: Mapping[str, str] | None = None,
        *,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic, or only see whether it can be. BrokerError with the code that CreateTopics answers.

        `assignments` are the replicas of each partition, instead of counts.
        """
        check_new_name(name, self.topics)
        if assignments:
            check_assignments(assignments, self.node_id)
            partitions, replication_factor = len(assignments), 1
        partitions = self.settings.num_partitions if partitions == DEFAULT else partitions
        if replication_factor == DEFAULT:
            replication_factor = self.settings.default_replication_factor
        check_counts(partitions, replication_factor)
        topic = Topic(name, random_uuid(), partitions, dict(configs or {}))
        check_topic_configs(self.settings, topic.configs)
        if not validate_only:
            self._add(topic)
        return topic

    def auto_create(self, name: str) -> Topic:
        """The topic that a client asked for by merely naming it. BrokerError if it cannot be."""
        return self.ensure_internal(name) if self.internal_configs(name) else self.create_topic(name)

    def ensure_internal(self, name: str) -> Topic:
        """The internal topic of that name, made when there is none, with the partitions and settings that it needs."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        counts = {
            OFFSETS_TOPIC: (self.settings.offsets_topic_num_partitions, self.settings.offsets_topic_replication_factor),
            TRANSACTIONS_TOPIC: (
                self.settings.transaction_state_log_num_partitions,
                self.settings.transaction_state_log_replication_factor,
            ),
        }
        return self.create_topic(name, *counts[name], self.internal_configs(name))

    def internal_configs(self, name: str) -> dict[str, str]:
        """What is set for an internal topic from its start; nothing for others."""
        if name == OFFSETS_TOPIC:
            size = str(self.settings.offsets_topic_segment_bytes)
            return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": size}
        if name == TRANSACTIONS_TOPIC:
            return {"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "104857600"}
        return {}

    def _add(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        try:
            self._save()
        except BrokerError:
            del self.topics[topic.name], self._by_id[topic.topic_id]
            raise
        self._lead(topic, range(topic.partitions))

    def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Give a topic more partitions: `total` of them. BrokerError with the code that CreatePartitions answers."""
        topic = self.topic_or_error(name)
        before = topic.partitions
        if total <= before:
            raise BrokerError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{name}' already has {before} partition(s)"
                + (f"; {total} would be fewer" if total < before else ""),
            )
        if assignments is not None and len(assignments) != total - before:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{total - before} partition(s) are to be added, but {len(assignments)} are placed by hand",
            )
        for replicas in assignments or ():
            check_replicas(replicas, self.node_id)
        check_partition_limit(total)
        if validate_only:
            return
        topic.partitions = total
        try:
            self._save()
        except BrokerError:
            topic.partitions = before
            raise
        self._lead(topic, range(before, total))

    # ---- topics that go ----

    def delete_topic(self, name_or_id: str | UUID, *, now_wall_ms: int) -> Topic:
        """Delete a topic and everything that hangs on it. BrokerError with the code that DeleteTopics answers."""
        topic = self.topic_or_error(name_or_id)
        if not self.settings.delete_topic_enable:
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        self._bury(topic)
        try:
            for number in range(topic.partitions):
                self._replica_manager.delete_partition(TopicPartition(topic.name, number))
        except OSError as error:
            raise self._offline(error) from error
        for tell in self.on_topic_deleted:
            tell(topic.name, now_wall_ms)
        # Its directories are gone for good. That is saved with the next change; until then the tombstone does no harm.
        del self._catalogue.deleted[topic.topic_id]
        return topic

    def _bury(self, topic: Topic) -> None:
        del self.topics[topic.name], self._by_id[topic.topic_id]
        self._catalogue.deleted[topic.topic_id] = topic.name
        try:
            self._save()
        except BrokerError:
            self.topics[topic.name] = self._by_id[topic.topic_id] = topic
            del self._catalogue.deleted[topic.topic_id]
            raise

    # ---- settings ----

    def set_topic_configs(self, name: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace what is set for a topic. BrokerError if it cannot have these settings."""
        topic = self.topic_or_error(name)
        check_topic_configs(self.settings, configs)
        if validate_only:
            return
        before, topic.configs = topic.configs, dict(configs)
        try:
            self._save()
        except BrokerError:
            topic.configs = before
            raise
        self._replica_manager.set_log_config(name, self.log_config(name))

    def set_broker_configs(self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace what is set for this broker (its id as text) or for all ("") beside the settings it started with.

        BrokerError if they cannot be set, or not while the broker runs.
        """
        before = self.dynamic.replace(broker, configs, validate_only=validate_only)
        if validate_only:
            return
        try:
            self._save()
        except BrokerError:
            self.dynamic.restore(broker, before)
            raise
        for name in self.topics:
            self._replica_manager.set_log_config(name, self.log_config(name))

    # ---- inside ----

    def topic_or_error(self, name_or_id: str | UUID) -> Topic:
        """BrokerError UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID if there is no such topic."""
        if isinstance(name_or_id, UUID):
            found, unknown = self._by_id.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found, unknown = self.topics.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found is None:
            raise BrokerError(unknown)
        return found

    def _lead(self, topic: Topic, numbers: range) -> None:
        settings = self.log_config(topic.name)
        try:
            for number in numbers:
                partition = TopicPartition(topic.name, number)
                self._replica_manager.create_partition(partition, topic.topic_id, settings)
        except OSError as error:
            raise self._offline(error) from error

    def _save(self) -> None:
        try:
            self._store.save(self._catalogue)
        except OSError as error:
            raise self._offline(error) from error

    def _offline(self, error: OSError) -> BrokerError:
        why = f"{error.strerror or error} while changing the topics in {self._log_manager.data_dir}"
        self._log_manager.fail(why)
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, why)
