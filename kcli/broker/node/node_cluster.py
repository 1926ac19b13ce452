"""NodeCluster: the cluster as a node reads it from the image of the metadata log.

The node applies each batch of metadata to the image, then calls `NodeCluster.apply`, then `ReplicaManager.apply`: a new
partition's log is made with the settings of its topic.

Settings that this version does not know, because the controller or another broker is of another version, are reported
and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kcli.broker.cluster_view import ClusterView, LiveBroker
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.dynamic_config import DynamicConfig
from kcli.broker.metadata.features import SUPPORTED_FEATURES
from kcli.broker.metadata.image import BROKER_CONFIG, TOPIC_CONFIG
from kcli.broker.topic_configs import TOPIC_OPTIONS
from kcli.broker.topic_rules import check_new_name
from kcli.broker.topic_store import Topic
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.config_defs import Option
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.metadata.image import Changes, MetadataImage, PartitionState, Registration, TopicState
    from kcli.broker.quotas import Entity
    from kcli.clock import Clock
    from kcli.protocol.messages.create_topics import CreateTopicsResponse
    from kcli.structs import TopicPartition

NO_BROKER = -1
#: Send a request to the controller; the callback gets the response, or the error if there is none.
AskController = Callable[[CreateTopicsRequest, "Callable[[CreateTopicsResponse | Exception], None]"], None]


class NodeCluster(ClusterView):
    """Brokers, topics and settings of the image.

    The callbacks in `on_log_config` get a topic and its new log configuration.
    """

    def __init__(
        self, image: MetadataImage, config: BrokerConfig, cluster_id: str, clock: Clock, ask_controller: AskController
    ) -> None:
        super().__init__(config, cluster_id, DynamicConfig(config, {}))
        self.on_log_config: list[Callable[[str, LogConfig], None]] = []
        self._image = image
        self._clock = clock
        self._ask_controller = ask_controller
        self._requested: set[str] = set()
        self._load()

    # ---- brokers and partitions ----

    @property
    def controller_id(self) -> int:
        """This broker while it is unfenced, else any that is: each of them forwards to the controller."""
        brokers = self._image.brokers
        own = brokers.get(self.node_id)
        if own is not None and not own.is_fenced:
            return self.node_id
        return next((one.node_id for one in brokers.values() if not one.is_fenced), NO_BROKER)

    def brokers(self, listener: str, *, with_fenced: bool = False) -> list[LiveBroker]:
        rows = [_address(one, listener) for one in self._image.brokers.values() if with_fenced or not one.is_fenced]
        return [row for row in rows if row is not None]

    def has_broker(self, node_id: int) -> bool:
        return node_id in self._image.brokers

    def partition_state(self, tp: TopicPartition) -> PartitionState | None:
        return self._image.partition(tp)

    @property
    def quotas(self) -> Mapping[Entity, Mapping[str, float]]:
        return self._image.quotas

    @property
    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED_FEATURES

    @property
    def features(self) -> Mapping[str, int]:
        return self._image.features

    @property
    def features_epoch(self) -> int:
        return self._image.offset

    def resource_configs(self, kind: int) -> Mapping[str, Mapping[str, str]]:
        return self._image.resource_configs(kind)

    # ---- following the image ----

    def apply(self, image: MetadataImage, changes: Changes) -> None:
        """Follow the changes of a batch. Another image than before, such as one of a snapshot, is read as a whole."""
        if image is not self._image:
            self._image = image
            self._load()
            return
        self._forget([topic.name for topic in changes.removed_topics])
        names = {tp.topic for tp in changes.partitions}
        names |= {name for kind, name in changes.configs if kind == TOPIC_CONFIG}
        with_new_config = [name for name in names if name in image.topics and self._set_topic(image.topics[name])]
        if any(kind == BROKER_CONFIG for kind, _ in changes.configs) and self._follow_broker_configs():
            with_new_config = list(self.topics)
        self._report_log_configs(with_new_config)

    def _load(self) -> None:
        self._forget([name for name, topic in self.topics.items() if topic.topic_id not in self._image.names])
        for state in self._image.topics.values():
            self._set_topic(state)
        self._follow_broker_configs()
        self._report_log_configs(list(self.topics))

    def _forget(self, names: list[str]) -> None:
        for name in names:
            topic = self.topics.pop(name, None)
            if topic is not None:
                del self._by_id[topic.topic_id]
                for callback in self.on_topic_deleted:
                    callback(name, self._clock.wall_ms())

    def _set_topic(self, state: TopicState) -> bool:
        """Add or change a topic; return True if its settings are new."""
        overrides = self._image.configs.get((TOPIC_CONFIG, state.name), {})
        configs = self._known(f"topic {state.name}", overrides, TOPIC_OPTIONS)
        topic = self.topics.get(state.name)
        if topic is None:
            topic = Topic(state.name, state.topic_id, len(state.partitions), configs)
            self.topics[state.name] = self._by_id[state.topic_id] = topic
            return True
        topic.partitions = len(state.partitions)
        has_changed = topic.configs != configs
        topic.configs = configs
        return has_changed

    def _follow_broker_configs(self) -> bool:
        """Take over the dynamic settings of this broker and of all; return False if nothing changes."""
        changed = {
            name: self._known(f"broker {name or '(all)'}", overrides, BROKER_OPTIONS)
            for (kind, name), overrides in self._image.configs.items()
            if kind == BROKER_CONFIG
        }
        if changed == self.dynamic.changed:
            return False
        try:
            self.dynamic.follow(changed)
        except ConfigError as error:
            self.reports.append(f"the new broker settings have no effect: {error.message}")
            return False
        return True

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

    def _report_log_configs(self, names: list[str]) -> None:
        for name in names:
            for callback in self.on_log_config:
                callback(name, self.log_config(name))

    # ---- creation by the controller ----

    def auto_create(self, name: str) -> Topic:
        if self.internal_configs(name):
            return self.ensure_internal(name)
        check_new_name(name, self.topics)
        settings = self.settings
        partitions, replicas = settings.num_partitions, settings.default_replication_factor
        self._request(CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas))
        raise _not_yet(name)

    def ensure_internal(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in self.internal_configs(name).items()]
        partitions, replicas = self.internal_counts(name)
        self._request(
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=configs)
        )
        raise _not_yet(name)

    def _request(self, topic: CreatableTopic) -> None:
        """Request a topic from the controller, unless such a request is in flight."""
        name = topic.name
        if name in self._requested:
            return
        self._requested.add(name)

        def done(answer: CreateTopicsResponse | Exception) -> None:
            self._requested.discard(name)
            if (reason := _refusal(answer)) is not None:
                self.reports.append(f"topic {name} was not created: {reason}")

        timeout_ms = self.settings.request_timeout_ms
        self._ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), done)


def _refusal(answer: Any) -> str | None:
    """Return the reason why the controller did not create the topic. A topic that another broker created is fine."""
    if isinstance(answer, Exception):
        return str(answer)
    for row in answer.topics:
        if row.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            code = ErrorCode.of(row.error_code)
            return f"{code.name}: {row.error_message}" if row.error_message else code.name
    return None


def _not_yet(name: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} is being created")


def _address(broker: Registration, listener: str) -> LiveBroker | None:
    found = broker.listener(listener)
    if found is None:
        return None
    return LiveBroker(broker.node_id, found.host, found.port, broker.rack, broker.is_fenced)
