"""ClusterView: the brokers, topics and settings of the cluster, as handlers read them.

`ClusterState` is the one of a single broker and changes them itself. `node.node_cluster.NodeCluster` is the one of a
node: it follows the metadata log, and its changes are requests to the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.broker.topic_configs import log_config
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.dynamic_config import DynamicConfig
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.metadata.cluster_values import PartitionState
    from kcli.broker.quotas import Entity
    from kcli.broker.topic_store import Topic

_SEGMENT_BYTES = "104857600"  # of the internal topic for share groups
DEFAULT = -1  # as partition count or replication factor: the default in the broker's settings


class LiveBroker(NamedTuple):
    """A broker with the address of one of its listeners. `is_fenced`: it is registered, but does not serve."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class ClusterView:
    """Topics by name, brokers, dynamic settings, and the advertised addresses, which are set when the broker listens.

    The callbacks in `on_topic_deleted` get the topic's name and the wall-clock time. `reports` holds messages to log.
    """

    def __init__(self, config: BrokerConfig, cluster_id: str, dynamic: DynamicConfig) -> None:
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.dynamic = dynamic
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._defaults: tuple[BrokerConfig, LogConfig] | None = None  # settings, and topics without overrides in them
        #: The address that clients of each listener are told, by the listener's name.
        self.advertised = {
            one.name: (one.advertised_host or one.host, one.advertised_port or one.port) for one in config.endpoints
        }
        self.on_topic_deleted: list[Callable[[str, int], None]] = []
        self.reports: list[str] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.cluster_id} node={self.node_id} {len(self.topics)} topics>"

    # ---- brokers and partitions ----

    @property
    def controller_id(self) -> int:
        """The broker to which clients send changes: one that makes or forwards them; -1 if there is none."""
        raise NotImplementedError

    def brokers(self, listener: str, *, with_fenced: bool = False) -> list[LiveBroker]:
        """Return the brokers with a listener of this name; the fenced ones only if `with_fenced`."""
        raise NotImplementedError

    def has_broker(self, node_id: int) -> bool:
        """Return whether this broker is registered, fenced or not."""
        return node_id == self.node_id

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        """Return leader, replicas and epochs of a partition; None if it does not exist."""
        raise NotImplementedError

    @property
    def quotas(self) -> Mapping[Entity, Mapping[str, float]]:
        """The client quotas by entity: pairs of type and name, sorted by type; the name None is the default."""
        return {}

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        """The first and last level of each feature that this broker supports (KIP-584)."""
        raise NotImplementedError

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized level of each feature of the cluster; an absent feature has level 0."""
        raise NotImplementedError

    @property
    def features_epoch(self) -> int:
        """The version of `features`: clients ignore an answer with a lower one than they have seen."""
        raise NotImplementedError

    def address(self, listener: str) -> tuple[str, int]:
        """Return the host and port of this broker for clients of a listener; an unknown name means the first one."""
        return self.advertised.get(listener) or next(iter(self.advertised.values()))

    # ---- topics and settings ----

    @property
    def settings(self) -> BrokerConfig:
        """The broker's settings, including those changed at run time."""
        return self.dynamic.settings

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def topic_or_error(self, name_or_id: str | UUID) -> Topic:
        """Return the topic. BrokerError UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID if there is none."""
        if isinstance(name_or_id, UUID):
            topic, code = self._by_id.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, code = self.topics.get(name_or_id), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            raise BrokerError(code)
        return topic

    def log_config(self, name: str) -> LogConfig:
        """Return the log configuration of a topic; the defaults for an unknown one."""
        topic, settings = self.topics.get(name), self.settings
        overrides = topic.configs if topic else self.internal_configs(name)
        if overrides:
            return log_config(settings, overrides)
        if self._defaults is None or self._defaults[0] is not settings:
            self._defaults = settings, log_config(settings, {})
        return self._defaults[1]

    def internal_counts(self, name: str) -> tuple[int, int]:
        """Return the number of partitions and the replication factor of an internal topic."""
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
        return counts[name]

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
            size = str(settings.transaction_state_log_segment_bytes)
            return {"cleanup.policy": "compact", **codec, "segment.bytes": size, **in_sync, **elections}
        if name == SHARE_GROUPS_TOPIC:
            in_sync = {"min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr)}
            kept = {"cleanup.policy": "delete", "retention.ms": "-1"}
            return {**kept, "compression.type": "producer", "segment.bytes": _SEGMENT_BYTES, **in_sync}
        return {}

    def broker_configs(self, broker: str) -> Mapping[str, str]:
        """Return the overrides of this broker (its id as text) or of all brokers ("")."""
        return self.dynamic.changed.get(broker, {})

    def resource_configs(self, kind: int) -> Mapping[str, Mapping[str, str]]:
        """Return the overrides of groups (kind 32) or of client metrics (16), by name; none without overrides."""
        raise NotImplementedError

    def check_broker(self, broker: str) -> None:
        """Raise INVALID_REQUEST unless this names this broker or all brokers."""
        self.dynamic.check_broker(broker)

    # ---- creation ----

    def auto_create(self, name: str) -> Topic:
        """Create a topic that a client named in a Metadata request. BrokerError if its name is not valid.

        On a node: request it from the controller, and raise UNKNOWN_TOPIC_OR_PARTITION, because it is not there yet.
        """
        raise NotImplementedError

    def ensure_internal(self, name: str) -> Topic:
        """Return the internal topic of that name; create it with its partitions and settings if it does not exist.

        On a node: request it from the controller, and raise UNKNOWN_TOPIC_OR_PARTITION, because it is not there yet.
        """
        raise NotImplementedError

    # ---- changes, which only a single broker makes itself ----

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
        raise _not_here()

    def creating_together(self) -> AbstractContextManager[Mapping[str, BrokerError]]:
        """Return a context in which created topics may be saved together, at its end: one write instead of many.

        Its value then has the errors of the topics that could not be stored, by name.
        """
        return nullcontext({})

    def create_partitions(
        self, name: str, total: int, *, assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Increase a topic to `total` partitions. BrokerError with the code that CreatePartitions returns."""
        raise _not_here()

    def delete_topic(self, name_or_id: str | UUID, *, now_wall_ms: int) -> Topic:
        """Delete a topic and its data. BrokerError with the code that DeleteTopics returns."""
        raise _not_here()

    def set_topic_configs(self, name: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the overrides of a topic. BrokerError if they are not valid."""
        raise _not_here()

    def set_broker_configs(self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False) -> None:
        """Replace the overrides of this broker (its id as text) or of all brokers ("").

        BrokerError if they are not valid, or cannot be changed at run time.
        """
        raise _not_here()

    def set_resource_configs(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        """Replace the overrides of a group (kind 32) or of client metrics (16). The caller has validated them."""
        raise _not_here()

    def save_pending(self) -> None:
        """Save changes that could not be saved when they were made."""


def _not_here() -> BrokerError:
    return BrokerError(ErrorCode.NOT_CONTROLLER, "the controller changes topics and settings, not this broker")
