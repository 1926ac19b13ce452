"""ClusterView: the brokers, topics and settings of the cluster, as handlers read them in the image.

Each batch of metadata is applied to the image, then to the `ClusterView`, then to the partitions: a new partition's log
is made with the settings of its topic.

Settings that this version does not know, because the controller or another broker is of another version, are reported
and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from kcli.broker.cluster.dynamic_config import DynamicConfig
from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.broker.cluster.image import BROKER_CONFIG, TOPIC_CONFIG
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS, log_config
from kcli.broker.cluster.topic_rules import check_new_name
from kcli.broker.config import BROKER_OPTIONS
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.structs import OFFSETS_TOPIC, SHARE_GROUPS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.image import Changes, MetadataImage, PartitionState, Registration, TopicState
    from kcli.broker.config import BrokerConfig
    from kcli.broker.config_defs import Option
    from kcli.broker.log.log_config import LogConfig
    from kcli.clock import Clock
    from kcli.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

NO_BROKER = -1
DEFAULT = -1  # as partition count or replication factor: the default in the broker's settings
_SEGMENT_BYTES = "104857600"  # of the internal topic for share groups
#: Have a topic created; the callback gets the response, or the error if there is none.
AskController: TypeAlias = "Callable[[CreateTopicsRequest, Callable[[CreateTopicsResponse | Exception], None]], None]"


class LiveBroker(NamedTuple):
    """A broker with the address of one of its listeners. `is_fenced`: it is registered, but does not serve."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class ClusterView:
    """The image with the dynamic settings, and the advertised addresses, which are set when the broker listens.

    The callbacks in `on_topic_deleted` get the topic's name and the wall-clock time. `reports` holds messages to log.
    """

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        cluster_id: str,
        clock: Clock,
        ask_controller: AskController,
        supported_features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
        quorum_features: Mapping[str, int] = {},
    ) -> None:
        """`quorum_features` are levels that are in no record of features."""
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.dynamic = DynamicConfig(config, {})
        self._overrides: dict[str, dict[str, str]] = {}  # of topics that have any, as far as this version knows them
        self._defaults: tuple[BrokerConfig, LogConfig] | None = None  # settings, and topics without overrides in them
        #: The address that clients of each listener are told, by the listener's name.
        self.advertised = {
            endpoint.name: (endpoint.advertised_host or endpoint.host, endpoint.advertised_port or endpoint.port)
            for endpoint in config.endpoints
        }
        self.on_topic_deleted: list[Callable[[str, int], None]] = []
        self.reports: list[str] = []
        self.image = image
        self._clock = clock
        self._ask_controller = ask_controller
        self._supported_features = supported_features
        self._quorum_features = quorum_features
        self._requested: set[str] = set()
        self._load()

    def __repr__(self) -> str:
        return f"<ClusterView {self.cluster_id} node={self.node_id} {len(self.topics)} topics>"

    # ---- brokers and partitions ----

    @property
    def controller_id(self) -> int:
        """This broker while it is unfenced, else any that is: each of them forwards to the controller."""
        brokers = self.image.brokers
        own = brokers.get(self.node_id)
        if own is not None and not own.is_fenced:
            return self.node_id
        return next((broker.node_id for broker in brokers.values() if not broker.is_fenced), NO_BROKER)

    def brokers(self, listener: str, *, with_fenced: bool = False) -> list[LiveBroker]:
        """Return the brokers with a listener of this name; the fenced ones only if `with_fenced`."""
        rows = [
            _address(broker, listener) for broker in self.image.brokers.values() if with_fenced or not broker.is_fenced
        ]
        return [row for row in rows if row is not None]

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        """Return leader, replicas and epochs of a partition; None if it does not exist."""
        return self.image.partition(tp)

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        """The first and last level of each feature that this broker supports (KIP-584)."""
        return self._supported_features

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized level of each feature of the cluster; an absent feature has level 0."""
        return {**self._quorum_features, **self.image.features}

    @property
    def features_epoch(self) -> int:
        """The version of `features`: clients ignore an answer with a lower one than they have seen."""
        return self.image.offset

    def address(self, listener: str) -> tuple[str, int]:
        """Return the host and port of this broker for clients of a listener; an unknown name means the first one."""
        return self.advertised.get(listener) or next(iter(self.advertised.values()))

    # ---- topics and settings ----

    @property
    def settings(self) -> BrokerConfig:
        """The broker's settings, including those changed at run time."""
        return self.dynamic.settings

    @property
    def topics(self) -> Mapping[str, TopicState]:
        return self.image.topics

    def topic_by_id(self, topic_id: UUID) -> TopicState | None:
        return self.image.topic_by_id(topic_id)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the overrides of a topic as text."""
        return self._overrides.get(name, {})

    def log_config(self, name: str) -> LogConfig:
        """Return the log configuration of a topic; the defaults for an unknown one."""
        settings = self.settings
        overrides = self.topic_configs(name) if name in self.topics else self.internal_configs(name)
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

    # ---- following the image ----

    def apply(self, image: MetadataImage, changes: Changes) -> None:
        """Follow the changes of a batch. Another image than before, such as one of a snapshot, is read as a whole."""
        before, self.image = self.image, image
        if before is not image:
            self._forget([name for name, topic in before.topics.items() if topic.topic_id not in image.names])
            self._load()
            return
        self._forget([topic.name for topic in changes.removed_topics])
        for kind, name in changes.configs:
            if kind == TOPIC_CONFIG and name in image.topics:
                self._follow_topic_configs(name)
        if any(kind == BROKER_CONFIG for kind, _ in changes.configs):
            self._follow_broker_configs()

    def _load(self) -> None:
        self._overrides.clear()
        for kind, name in self.image.configs:
            if kind == TOPIC_CONFIG and name in self.image.topics:
                self._follow_topic_configs(name)
        self._follow_broker_configs()

    def _forget(self, names: list[str]) -> None:
        for name in names:
            self._overrides.pop(name, None)
            for callback in self.on_topic_deleted:
                callback(name, self._clock.wall_ms())

    def _follow_topic_configs(self, name: str) -> None:
        configs = self.image.configs.get((TOPIC_CONFIG, name), {})
        self._overrides[name] = self._known(f"topic {name}", configs, TOPIC_OPTIONS)

    def _follow_broker_configs(self) -> None:
        """Take over the dynamic settings of this broker and of all."""
        changed = {
            name: self._known(f"broker {name or '(all)'}", overrides, BROKER_OPTIONS)
            for (kind, name), overrides in self.image.configs.items()
            if kind == BROKER_CONFIG
        }
        try:
            self.dynamic.follow(changed)
        except ConfigError as error:
            self.reports.append(f"the new broker settings have no effect: {error.message}")

    def _known(self, owner: str, overrides: Mapping[str, str], options: Mapping[str, Option]) -> dict[str, str]:
        known = {}
        for name, value in overrides.items():
            try:
                if name not in options:
                    raise ConfigError("this version does not know it")
                options[name].parse(value)
            except ConfigError as error:
                self.reports.append(f"{owner}: the setting {name} has no effect: {error.message}")
            else:
                known[name] = value
        return known

    # ---- creation ----

    def auto_create(self, name: str) -> TopicState:
        """Create a topic that a client named in a Metadata request. BrokerError if its name is not valid.

        On a node: request it from the controller, and raise UNKNOWN_TOPIC_OR_PARTITION, because it is not there yet.
        """
        if self.internal_configs(name):
            return self.ensure_internal(name)
        check_new_name(name, self.topics)
        settings = self.settings
        return self._request(name, settings.num_partitions, settings.default_replication_factor, {})

    def ensure_internal(self, name: str) -> TopicState:
        """Return the internal topic of that name; create it with its partitions and settings as `auto_create` does."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        return self._request(name, *self.internal_counts(name), self.internal_configs(name))

    def _request(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> TopicState:
        """Request a topic, unless such a request is in flight, and return it if it is there already."""

        def done(answer: CreateTopicsResponse | Exception) -> None:
            self._requested.discard(name)
            if (reason := _refusal(answer)) is not None:
                self.reports.append(f"topic {name} was not created: {reason}")

        if name not in self._requested:
            self._requested.add(name)
            self._ask_controller(_creation(name, partitions, replicas, configs, self.settings.request_timeout_ms), done)
        if name not in self.topics:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is being created")
        return self.topics[name]


def _creation(
    name: str, partitions: int, replicas: int, configs: Mapping[str, str], timeout_ms: int
) -> CreateTopicsRequest:
    from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    rows = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=rows)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def _refusal(answer: Any) -> str | None:
    """Return the reason why the controller did not create the topic. A topic that another broker created is fine."""
    if isinstance(answer, Exception):
        return str(answer)
    for row in answer.topics:
        if row.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            code = ErrorCode.of(row.error_code)
            return f"{code.name}: {row.error_message}" if row.error_message else code.name
    return None


def _address(broker: Registration, listener: str) -> LiveBroker | None:
    found = broker.listener(listener)
    if found is None:
        return None
    return LiveBroker(broker.node_id, found.host, found.port, broker.rack, broker.is_fenced)
