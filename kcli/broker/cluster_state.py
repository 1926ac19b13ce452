"""State of this one-node cluster: its identity, its topics and their settings, and the operations that change them.

A crash leaves each topic complete or absent. A new topic is in the store before its directories are created, and the
next start creates the missing ones. A deleted topic becomes a tombstone in the store before its directories are
removed, and the next start removes the rest.

A change that fails because descriptors or disk space ran out is taken back and refused, and the broker goes on. Other
disk errors take the data directory offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import without_effect
from kcli.broker.data_dir import random_uuid
from kcli.broker.dynamic_config import DynamicConfig
from kcli.broker.files import is_exhausted
from kcli.broker.topic_configs import TOPIC_OPTIONS, check_topic_configs, log_config
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
from kcli.structs import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.log_manager import LogManager
    from kcli.broker.replica_manager import ReplicaManager

_SEGMENT_BYTES = "104857600"  # of the internal topics for transactions and share groups
DEFAULT = -1  # as partition count or replication factor: the default in the broker's settings


class ClusterState:
    """Topics by name, dynamic settings, and the advertised addresses, which are set when the broker listens.

    Create it before the logs are opened, because opening needs `log_config`, and call `start` afterwards. The callbacks
    in `on_topic_deleted` get the topic's name and the wall-clock time. `reports` holds messages to log.
    """

    def __init__(
        self, config: BrokerConfig, files: Files, log_manager: LogManager, replica_manager: ReplicaManager
    ) -> None:
        """Read the topic store. ConfigError if it is damaged."""
        self.node_id = config.node_id
        self.cluster_id = log_manager.cluster_id
        #: The address that clients of each listener are told, by the listener's name.
        self.advertised = {
            one.name: (one.advertised_host or one.host, one.advertised_port or one.port) for one in config.endpoints
        }
        self.on_topic_deleted: list[Callable[[str, int], None]] = []
        self.reports: list[str] = []
        self._is_pending = False
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._store = TopicStore(files, log_manager.data_dir)
        stored = self._store.load()
        self._catalogue = stored or Catalogue()
        self.dynamic = DynamicConfig(config, self._catalogue.broker_configs)
        if stored is None:
            self.dynamic.seed()
        self.topics = self._catalogue.topics
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}

    def __repr__(self) -> str:
        return f"<ClusterState {self.cluster_id} node={self.node_id} {len(self.topics)} topics>"

    @property
    def settings(self) -> BrokerConfig:
        """The broker's settings, including those changed at run time."""
        return self.dynamic.settings

    def address(self, listener: str) -> tuple[str, int]:
        """Return the host and port for clients of a listener; an unknown name means the first listener."""
        return self.advertised.get(listener) or next(iter(self.advertised.values()))

    def log_config(self, name: str) -> LogConfig:
        """Return the log configuration of a topic; the defaults for an unknown one."""
        topic = self.topics.get(name)
        return log_config(self.settings, topic.configs if topic else self.internal_configs(name))

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def start(self) -> None:
        """Reconcile the store with the directories, and lead all partitions. ConfigError if they are in conflict."""
        self.reports += adopt_partitions(self._catalogue, self._log_manager, self.internal_configs)
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}
        self._save()
        for topic in self.topics.values():
            self._create_partitions(topic, range(topic.partitions))

    # ---- creation ----

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
        """Create a topic, or only validate the request. BrokerError with the code that CreateTopics returns.

        `assignments` are the replicas of each partition; they replace both counts.
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
            self._add_topic(topic)
            if not topic.is_internal:
                self._report_ignored(name, topic.configs)
        return topic

    def auto_create(self, name: str) -> Topic:
        """Create a topic that a client named in a Metadata request. BrokerError if its name is not valid."""
        return self.ensure_internal(name) if self.internal_configs(name) else self.create_topic(name)

    def ensure_internal(self, name: str) -> Topic:
        """Return the internal topic of that name; create it with its partitions and settings if it does not exist."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        settings = self.settings
        counts = {
            OFFSETS_TOPIC: (settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor),
            TRANSACTIONS_TOPIC: (
                settings.transaction_state_log_num_partitions,
                settings.transaction_state_log_replication_factor,
            ),
            SHARE_GROUPS_TOPIC: (
                settings.share_coordinator_state_topic_num_partitions,
                settings.share_coordinator_state_topic_replication_factor,
            ),
        }
        return self.create_topic(name, *counts[name], self.internal_configs(name))

    def internal_configs(self, name: str) -> dict[str, str]:
        """Return the initial overrides of an internal topic, as in Kafka; an empty dict for other topics."""
        settings = self.settings
        if name == OFFSETS_TOPIC:
            size = str(settings.offsets_topic_segment_bytes)
            return {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": size}
        if name == TRANSACTIONS_TOPIC:
            in_sync = {"min.insync.replicas": str(settings.transaction_state_log_min_isr)}
            elections = {"unclean.leader.election.enable": "false"}
            codec = {"compression.type": "uncompressed"}
            return {"cleanup.policy": "compact", **codec, "segment.bytes": _SEGMENT_BYTES, **in_sync, **elections}
        if name == SHARE_GROUPS_TOPIC:
            in_sync = {"min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr)}
            kept = {"cleanup.policy": "delete", "retention.ms": "-1"}
            return {**kept, "compression.type": "producer", "segment.bytes": _SEGMENT_BYTES, **in_sync}
        return {}

    def _add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        try:
            self._save()
            self._create_partitions(topic, range(topic.partitions))
        except BrokerError:
            del self.topics[topic.name], self._by_id[topic.topic_id]
            if not self._discard_partitions(topic, range(topic.partitions)):
                self._catalogue.deleted[topic.topic_id] = topic.name  # the next start removes the rest
            self._save_again()
            raise

    def _discard_partitions(self, topic: Topic, numbers: range) -> bool:
        """Remove partitions that could not be created together with all others; False if some remain on the disk."""
        is_complete = True
        for number in numbers:
            try:
                self._replica_manager.discard_partition(TopicPartition(topic.name, number))
            except OSError:
                is_complete = False
        return is_complete

    def _save_again(self) -> None:
        """Save the catalogue after a change was taken back, now or later, unless the data directory is offline."""
        self._is_pending = self._log_manager.failed is None
        self.save_pending()

    def save_pending(self) -> None:
        """Save the catalogue if that failed while a change was taken back."""
        if self._is_pending:
            try:
                self._store.save(self._catalogue)
            except OSError:
                return
            self._is_pending = False

    def create_partitions(
        self,
        name: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase a topic to `total` partitions. BrokerError with the code that CreatePartitions returns."""
        topic = self.topic_or_error(name)
        existing = topic.partitions
        if total <= existing:
            raise BrokerError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{name}' already has {existing} partition(s)"
                + (f"; {total} would be fewer" if total < existing else ""),
            )
        if assignments is not None and len(assignments) != total - existing:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{total - existing} partition(s) are added, but the request assigns replicas to {len(assignments)}",
            )
        for replicas in assignments or ():
            check_replicas(replicas, self.node_id)
        check_partition_limit(total)
        if validate_only:
            return
        topic.partitions = total
        try:
            self._save()
            self._create_partitions(topic, range(existing, total))
        except BrokerError:
            topic.partitions = existing
            self._discard_partitions(topic, range(existing, total))
            self._save_again()
            raise

    # ---- deletion ----

    def delete_topic(self, name_or_id: str | UUID, *, now_wall_ms: int) -> Topic:
        """Delete a topic and its data. BrokerError with the code that DeleteTopics returns."""
        topic = self.topic_or_error(name_or_id)
        if not self.settings.delete_topic_enable:
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        self._save_tombstone(topic)
        outcomes = [self._delete_partition(topic, number) for number in range(topic.partitions)]
        for callback in self.on_topic_deleted:
            callback(topic.name, now_wall_ms)
        # The directories are renamed. This is saved with the next change; until then the tombstone does no harm.
        if all(outcomes):
            del self._catalogue.deleted[topic.topic_id]
        return topic

    def _delete_partition(self, topic: Topic, number: int) -> bool:
        """Delete a partition of a topic that has a tombstone. False if the next start must do the rest."""
        try:
            self._replica_manager.delete_partition(TopicPartition(topic.name, number))
        except OSError as error:
            if not is_exhausted(error):
                raise self._offline(error) from error
            return False
        return True

    def _save_tombstone(self, topic: Topic) -> None:
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
        """Replace the overrides of a topic. BrokerError if they are not valid."""
        topic = self.topic_or_error(name)
        check_topic_configs(self.settings, configs)
        if validate_only:
            return
        previous, topic.configs = topic.configs, dict(configs)
        try:
            self._save()
        except BrokerError:
            topic.configs = previous
            raise
        self._report_ignored(name, {setting for setting in configs if configs[setting] != previous.get(setting)})
        self._replica_manager.set_log_config(name, self.log_config(name))

    def set_broker_configs(self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the overrides of this broker (its id as text) or of all brokers ("").

        BrokerError if they are not valid, or cannot be changed at run time.
        """
        previous = self.dynamic.replace(broker, configs, validate_only=validate_only)
        if validate_only:
            return
        try:
            self._save()
        except BrokerError:
            self.dynamic.restore(broker, previous)
            raise
        changed = [name for name in configs if configs[name] != previous.get(name)]
        if (ignored := without_effect(changed, BROKER_OPTIONS)) is not None:
            self.reports.append(ignored)
        for name in self.topics:
            self._replica_manager.set_log_config(name, self.log_config(name))

    # ---- internal ----

    def _report_ignored(self, topic: str, settings: Iterable[str]) -> None:
        if (ignored := without_effect(sorted(settings), TOPIC_OPTIONS)) is not None:
            self.reports.append(f"topic {topic}: {ignored}")

    def topic_or_error(self, name_or_id: str | UUID) -> Topic:
        """Return the topic. BrokerError UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID if there is none."""
        if isinstance(name_or_id, UUID):
            topic, code = self._by_id.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, code = self.topics.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            raise BrokerError(code)
        return topic

    def _create_partitions(self, topic: Topic, numbers: range) -> None:
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
        reason = f"{error.strerror or error} while changing the topics in {self._log_manager.data_dir}"
        if not is_exhausted(error):
            self._log_manager.fail(reason)
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
