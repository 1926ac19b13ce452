"""State of this one-node cluster: its identity, its topics and their settings, and the operations that change them.

A crash leaves each topic complete or absent. A new topic is in the store before its directories are created, and the
next start creates the missing ones. A deleted topic becomes a tombstone in the store before its directories are
removed, and the next start removes the rest.

A change that fails because descriptors or disk space ran out is taken back and refused, and the broker goes on. Other
disk errors take the data directory offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.cluster_view import DEFAULT, ClusterView, LiveBroker
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import without_effect
from kcli.broker.data_dir import random_uuid
from kcli.broker.dynamic_config import DynamicConfig
from kcli.broker.files import is_exhausted
from kcli.broker.metadata.cluster_values import PartitionState
from kcli.broker.metadata.features import FEATURES_OF_SINGLE
from kcli.broker.topic_configs import TOPIC_OPTIONS, check_topic_configs
from kcli.broker.topic_rules import (
    check_assignments,
    check_counts,
    check_new_name,
    check_partition_limit,
    check_replicas,
    new_partition_count,
)
from kcli.broker.topic_store import Catalogue, Topic, TopicStore, adopt_partitions
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files
    from kcli.broker.log_manager import LogManager
    from kcli.broker.quotas import Entity
    from kcli.broker.replica_manager import ReplicaManager


class ClusterState(ClusterView):
    """The topics and settings of a single broker, which it stores and changes itself.

    Create it before the logs are opened, because opening needs `log_config`, and call `start` afterwards.
    """

    def __init__(
        self, config: BrokerConfig, files: Files, log_manager: LogManager, replica_manager: ReplicaManager
    ) -> None:
        """Read the topic store. ConfigError if it is damaged."""
        self._store = TopicStore(files, log_manager.data_dir)
        stored = self._store.load()
        self._catalogue, self._is_new = stored or Catalogue(), stored is None
        super().__init__(config, log_manager.cluster_id, DynamicConfig(config, self._catalogue.broker_configs))
        if stored is None:
            self.dynamic.seed()
        self._is_pending = False
        self._together: list[Topic] | None = None  # new topics that are not saved yet, within `creating_together`
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self.topics = self._catalogue.topics
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}

    @property
    def controller_id(self) -> int:
        return self.node_id

    def brokers(self, listener: str, *, with_fenced: bool = False) -> list[LiveBroker]:
        host, port = self.address(listener)
        return [LiveBroker(self.node_id, host, port, self.dynamic.initial.broker_rack)]

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < topic.partitions:
            return None
        partition = self._replica_manager.partition(tp)
        only = (self.node_id,)
        return PartitionState(only, only, self.node_id, partition.leader_epoch if partition else 0)

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return FEATURES_OF_SINGLE

    @property
    def features(self) -> Mapping[str, int]:
        return self._catalogue.features

    @property
    def features_epoch(self) -> int:
        return self._catalogue.features_epoch

    @property
    def quotas(self) -> dict[Entity, dict[str, float]]:
        return self._catalogue.quotas

    def start(self) -> None:
        """Reconcile the store with the directories, and lead all partitions. ConfigError if they are in conflict."""
        if self._is_new and self._log_manager.dir.has_kafka_metadata and self._log_manager.logs:
            self.reports.append(
                f"{self._log_manager.data_dir} has the metadata log of a controller, which a broker without a "
                "controller does not read: topics are adopted with default settings"
            )
        self.reports += adopt_partitions(self._catalogue, self._log_manager, self.internal_configs)
        self._by_id = {topic.topic_id: topic for topic in self.topics.values()}
        self._save()
        for topic in self.topics.values():
            self._create_partitions(topic, range(topic.partitions))
        if self.quotas:
            self._replica_manager.set_client_quotas(self.quotas)

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
        check_new_name(name, self.topics)
        if assignments:
            check_assignments(assignments, (self.node_id,))
            partitions, replication_factor = len(assignments), 1
        partitions = self.settings.num_partitions if partitions == DEFAULT else partitions
        if replication_factor == DEFAULT:
            replication_factor = self.settings.default_replication_factor
        check_counts(partitions, replication_factor)
        if replication_factor > 1:
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is {replication_factor}, but there is only 1 broker",
            )
        topic = Topic(name, random_uuid(), partitions, dict(configs or {}))
        check_topic_configs(self.settings, topic.configs)
        if not validate_only:
            self._add_topic(topic)
            if not topic.is_internal:
                self._report_ignored(name, topic.configs)
        return topic

    def auto_create(self, name: str) -> Topic:
        return self.ensure_internal(name) if self.internal_configs(name) else self.create_topic(name)

    def ensure_internal(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        return self.create_topic(name, *self.internal_counts(name), self.internal_configs(name))

    @contextmanager
    def creating_together(self) -> Iterator[dict[str, BrokerError]]:
        """Save the topics that are created within, and create their partitions, at the end of the context."""
        created: list[Topic] = []
        failures: dict[str, BrokerError] = {}
        self._together = created
        try:
            yield failures
        finally:
            self._together = None
            if created:
                failures.update(self._complete_topics(created))

    def _add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        if self._together is not None:
            self._together.append(topic)
        else:
            for failure in self._complete_topics([topic]).values():
                raise failure

    def _complete_topics(self, topics: Sequence[Topic]) -> dict[str, BrokerError]:
        """Save new topics with one write, and create their partitions. Take back those that fail, and return why."""
        failures = {}
        try:
            self._save()
        except BrokerError as error:
            failures = {topic.name: error for topic in topics}
        for topic in topics:
            if topic.name not in failures:
                try:
                    self._create_partitions(topic, range(topic.partitions))
                except BrokerError as error:
                    failures[topic.name] = error
        for topic in topics:
            if topic.name in failures:
                del self.topics[topic.name], self._by_id[topic.topic_id]
                if not self._discard_partitions(topic, range(topic.partitions)):
                    self._catalogue.deleted[topic.topic_id] = topic.name  # the next start removes the rest
        if failures:
            self._save_again()
        return failures

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
        new_partition_count(name, existing, total, assignments)
        for replicas in assignments or ():
            check_replicas(replicas, (self.node_id,))
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

    def resource_configs(self, kind: int) -> Mapping[str, Mapping[str, str]]:
        return self._catalogue.resource_configs.get(kind, {})

    def set_resource_configs(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        of_kind = self._catalogue.resource_configs.setdefault(kind, {})
        previous = dict(of_kind)
        of_kind.pop(name, None)
        if configs:
            of_kind[name] = dict(configs)
        try:
            self._save()
        except BrokerError:
            self._catalogue.resource_configs[kind] = previous
            raise

    def follow(
        self,
        features: dict[str, int],
        quotas: dict[Entity, dict[str, float]],
        broker_configs: dict[str, dict[str, str]],
    ) -> None:
        """Take over what a decision has changed. BrokerError if it cannot be saved."""
        catalogue = self._catalogue
        before = catalogue.features, catalogue.quotas, catalogue.broker_configs
        catalogue.features, catalogue.quotas, catalogue.broker_configs = features, quotas, broker_configs
        catalogue.features_epoch += 1
        try:
            self._save()
        except BrokerError:
            catalogue.features, catalogue.quotas, catalogue.broker_configs = before
            catalogue.features_epoch -= 1
            raise
        self.dynamic.follow(broker_configs)
        self._replica_manager.set_client_quotas(quotas)

    # ---- internal ----

    def _report_ignored(self, topic: str, settings: Iterable[str]) -> None:
        if (ignored := without_effect(sorted(settings), TOPIC_OPTIONS)) is not None:
            self.reports.append(f"topic {topic}: {ignored}")

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
