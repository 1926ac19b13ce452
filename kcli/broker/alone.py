"""Alone: a broker that applies its own decisions. It is a cluster of one.

A request that changes the cluster becomes the decision of kcli's controller: records and a response. The records go to
the metadata log in the data directory, Kafka's own, and from there to the image. There is no controller process, no
registration and no heartbeat. The directory can later be started as a broker of a cluster with a controller in the same
process, kcli's or Apache Kafka's, and the other way round.

New partitions get their directories before their records are in the log, and removed ones lose theirs afterwards; see
`adoption` for what a crash in between leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from kcli.broker.adoption import adopted, check_brokers, earlier_records, led, registration, remove_leftovers
from kcli.broker.cluster.cluster_values import PRODUCER_IDS_PER_BLOCK, Registration, TopicState
from kcli.broker.cluster.features import FEATURES_OF_SINGLE, KRAFT_VERSION
from kcli.broker.cluster.image import BROKER_CONFIG, TOPIC_CONFIG, Changes, MetadataImage
from kcli.broker.cluster.journal import Journal
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS, log_config
from kcli.broker.cluster.view import DEFAULT, ClusterView
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import without_effect
from kcli.broker.data_dir import KAFKA_METADATA_LOG, parse_uuid, random_uuid, uuid_text
from kcli.broker.files import is_exhausted, retry_without
from kcli.broker.handlers.api_table import HANDLERS, ApiTable
from kcli.broker.serving.server_loop import advertised_listeners
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol import metadata_records as records
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.config import BrokerConfig
    from kcli.broker.config_defs import Option
    from kcli.broker.controller.controller import Controller
    from kcli.broker.counters import MBean
    from kcli.broker.files import Files
    from kcli.broker.log.log_config import LogConfig
    from kcli.broker.log_manager import LogManager
    from kcli.broker.node.peers import NetworkPeers
    from kcli.broker.replica_manager import ReplicaManager
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.security.authorizer import AclBinding
    from kcli.broker.security.credentials import Change
    from kcli.broker.security.image_security import ImageSecurity
    from kcli.broker.security.listeners import Endpoint
    from kcli.broker.serving.request_context import RequestContext
    from kcli.clock import Clock
    from kcli.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kcli.protocol.wire import Message, Request

T = TypeVar("T")


class Host(Protocol):
    """The parts of a `Broker` that this uses."""

    config: BrokerConfig
    clock: Clock
    log_manager: LogManager
    replica_manager: ReplicaManager
    authorizer: AnyAuthorizer

    files: Files
    endpoints: tuple[Endpoint, ...]

    def log(self, text: str, /) -> None:
        """Log a message for the operator."""

    def listen(self) -> None:
        """Accept connections of clients."""


class Alone:
    """The cluster of a broker without a controller: its metadata log, its image, and the decisions about both.

    Create it before the logs are opened, because that needs `cluster.log_config`, and call `open_partitions` then.
    """

    apis: ApiTable = HANDLERS
    has_other_replicas = False
    is_serving = True
    failure: KcliError | None = None
    peers: NetworkPeers | None = None
    bytes_fetched = 0

    def __init__(self, broker: Host) -> None:
        """Open and read the metadata log; a new one gets its first records. KcliError or OSError if that fails."""
        config, files = broker.config, broker.files
        self.image = MetadataImage()
        self._broker = broker
        self._config = config
        self._manager = broker.replica_manager
        self._logs = broker.log_manager
        self._files = files
        self._directory_id = parse_uuid(broker.log_manager.directory_id)
        self._changes = Changes()
        self._left: dict[UUID, str] = {}  # removed topics whose directories may be there
        earlier = earlier_records(files, self._logs, self._new_partition)
        self._journal = Journal(
            self._logs.data_dir, files, config, broker.clock, apply=self._apply_record, report=broker.log
        )
        try:
            self._journal.replay()
            if not self.image.features:  # the log is new, or a first start was interrupted
                self._begin(earlier)
            self._register()
        except BaseException:
            self._journal.close(clean=False)
            raise
        self.cluster = ClusterView(
            self.image,
            config,
            self._logs.cluster_id,
            broker.clock,
            self._create_own_topic,
            FEATURES_OF_SINGLE,
            {KRAFT_VERSION: 1},
        )
        self._next_producer_id = self._end_of_producer_ids = 0

    def __repr__(self) -> str:
        return f"<Alone {self.image!r}>"

    @staticmethod
    def new_cluster_id(config: BrokerConfig, log: Callable[[str], None]) -> str:
        """Return the id of a new cluster."""
        return uuid_text(random_uuid())

    @staticmethod
    def ignores(option: Option) -> bool:
        """Return whether a setting of brokers has no effect here."""
        return option.ignored or option.of_nodes

    @property
    def epoch(self) -> int:
        """The broker epoch of the registration in the log, with which a controller sees a clean stop."""
        return self.image.brokers[self._config.node_id].epoch

    @cached_property
    def security(self) -> ImageSecurity:
        """SCRAM users and delegation tokens; with them the authorizer follows the ACLs, from the first use on."""
        from kcli.broker.security.image_security import ImageSecurity

        return ImageSecurity(self.image, self._config, self._broker.authorizer, self._store_credentials)

    # ---- start and end ----

    def _begin(self, earlier: list[Any]) -> None:
        """Write the first records of a cluster, or those of the files of an earlier version."""
        journal, data_dir = self._journal, self._logs.data_dir
        self._append(earlier or [*journal.first_records(), *journal.first_settings()])
        if earlier:
            from kcli.broker.earlier_files import keep_copies

            keep_copies(self._files, data_dir)
            self._broker.log(
                f"{data_dir} was converted: topics, settings, ACLs, users and tokens are in {KAFKA_METADATA_LOG} now, "
                "as in Kafka; the files of the earlier version are kept, with the ending .converted"
            )

    def _register(self) -> None:
        """Register this broker in the log, if it is not, as one that was stopped. In the image it serves.

        ConfigError if the log is that of other brokers.
        """
        node_id, image, listeners = self._config.node_id, self.image, advertised_listeners(self._broker.endpoints)
        check_brokers(image, self._logs, node_id)
        if node_id not in image.brokers:
            self._append([registration(image, node_id, listeners, self._directory_id)])
        image.brokers[node_id] = Registration(
            node_id,
            image.brokers[node_id].epoch,
            image.brokers[node_id].incarnation_id,
            listeners,
            dict(FEATURES_OF_SINGLE),
            self._config.broker_rack,
            is_fenced=False,
            log_dirs=(self._directory_id,),
        )

    def open_partitions(self) -> None:
        """Bring directories and log together, and lead all partitions. ConfigError if they are in conflict."""
        image, logs, cluster = self.image, self._logs, self.cluster
        remove_leftovers(image, logs, self._left)
        self._left.clear()
        batch, reports = adopted(image, logs, self._new_partition, cluster.internal_configs)
        cluster.reports += reports
        batch += led(image, logs, self._new_partition, self._config.node_id)
        if batch:
            self._append(batch)
        cluster.apply(image, self._take_changes())
        for topic in image.topics.values():
            config = cluster.log_config(topic.name)
            for number in topic.partitions:
                self._create(TopicPartition(topic.name, number), topic.topic_id, config)
        self._manager.set_client_quotas(image.quotas)
        self._next_producer_id = max(image.next_producer_id, logs.highest_producer_id + 1)
        self._end_of_producer_ids = self._next_producer_id
        for tp, state in image.partitions():
            self._notify(tp, state.leader_epoch)

    def _new_partition(self, topic_id: UUID, number: int, leader_epoch: int = 0) -> records.PartitionRecord:
        node_id = self._config.node_id
        return records.PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=[node_id],
            isr=[node_id],
            leader=node_id,
            leader_epoch=leader_epoch,
            partition_epoch=0,
            directories=[self._directory_id],
        )

    def start(self) -> None:
        """Serve clients."""
        self._broker.listen()

    def leave(self) -> None:
        """Nothing: no controller needs to know."""

    def controller_mbeans(self) -> list[MBean]:
        """Return the metrics of a controller, which this broker is, too."""
        from kcli.broker.mbeans import controller_gauges

        topics = self.cluster.topics
        return controller_gauges(len(topics), sum(len(topic.partitions) for topic in topics.values()), 0, 1, 0)

    def close(self, *, clean: bool = True) -> None:
        """Close the metadata log; `clean` False: as a crash would leave it."""
        self._journal.close(clean=clean)

    # ---- decisions ----

    @cached_property
    def _controller(self) -> Controller:
        from random import Random

        from kcli.broker.controller.controller import Controller

        return Controller(
            self._config,
            self._logs.cluster_id,
            random=Random(),
            image=self.image,
            protocol_of=lambda context: self._config.protocol_of(context.listener),
        )

    def is_forwarded(self, api_key: int) -> bool:
        """True for an API about whose requests the controller decides."""
        return not HANDLERS[api_key].module

    def forward(self, request: Request[Any], context: RequestContext) -> Message:
        """Decide about a client's request, and carry that out before the answer."""

        def decide() -> Any:
            controller = self._controller
            controller.client_quotas, controller.authorizer = self._manager.client_quotas, self._broker.authorizer
            return controller.handle(request, context)

        decision = retry_without(self._logs.release_files, decide)
        answer: Message = decision.response
        if decision.records:
            from kcli.broker.controller.controller import not_written

            try:
                for error, names in self._carry_out(decision.records):
                    answer = not_written(decision._replace(response=answer), request, context, error, names)
            except BrokerError as error:
                return not_written(decision, request, context, error)
        return answer

    def change(self, decide: Callable[[Draft], T]) -> T:
        """Make a decision of this broker itself and carry it out. BrokerError if that fails, and no change."""
        from kcli.broker.cluster.decide.draft import Draft

        draft = Draft(self.image)
        result = decide(draft)
        if draft.records:
            for error, _ in self._carry_out(draft.records):
                raise error
        return result

    def create_topic(
        self,
        name: str,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> TopicState:
        """Create a topic. BrokerError with the code that CreateTopics returns."""
        from random import Random

        from kcli.broker.cluster.decide.draft_cluster import DraftCluster

        def create(draft: Draft) -> None:
            DraftCluster(draft, self._config, Random()).create_topic(name, partitions, replication_factor, configs)

        self.change(create)
        return self.cluster.topics[name]

    def _create_own_topic(
        self, request: CreateTopicsRequest, on_done: Callable[[CreateTopicsResponse | Exception], None]
    ) -> None:
        """Create a topic that this broker needs, or that a client has named. BrokerError if that fails."""
        from kcli.protocol.messages.create_topics import CreateTopicsResponse

        [topic] = request.topics
        configs = {config.name: config.value or "" for config in topic.configs}
        try:
            self.create_topic(topic.name, topic.num_partitions, topic.replication_factor, configs)
        finally:
            on_done(CreateTopicsResponse())

    def add_acls(self, bindings: Sequence[AclBinding]) -> None:
        """Add ACLs; those that exist are ignored."""
        from kcli.broker.cluster.decide.create_acls import add_acls

        self.change(lambda draft: add_acls(draft, bindings))

    def _store_credentials(self, changes: list[Change]) -> None:
        from kcli.broker.cluster.decide.alter_user_scram_credentials import write_credentials

        self.change(lambda draft: write_credentials(draft, changes))

    def next_producer_id(self) -> int:
        """Return a new producer id. Ids are reserved in the log in blocks; a restart skips the rest of one."""
        if self._next_producer_id == self._end_of_producer_ids:
            end = self._end_of_producer_ids + PRODUCER_IDS_PER_BLOCK
            reserved = records.ProducerIdsRecord(
                broker_id=self._config.node_id, broker_epoch=self.epoch, next_producer_id=end
            )
            self.change(lambda draft: draft.write(reserved))
            self._end_of_producer_ids = end
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # ---- carrying out ----

    def _carry_out(self, batch: Sequence[Any]) -> list[tuple[BrokerError, Collection[str]]]:
        """Make the logs of new partitions, append the records, and follow them.

        Return the errors of topics whose logs could not be made, with their names; their records are left out.
        BrokerError if nothing could be done.
        """
        created, failures = self._make_logs(batch)
        before = dict(self.image.configs)
        if failures:
            ids, names = {topic_id for topic_id, _, _ in failures}, {name for _, name, _ in failures}
            batch = [record for record in batch if not _is_of(record, ids, names)]
        try:
            if batch:
                self._append(batch)
        except BrokerError:
            self._discard(created)
            raise
        self._follow(before)
        return [(error, {name}) for _, name, error in failures]

    def _append(self, batch: Sequence[Any]) -> None:
        try:
            self._journal.append(batch)
        except OSError as error:
            raise self._offline(error) from error

    def _apply_record(self, record: Any, offset: int) -> None:
        """Apply a record that is in the log to the image."""
        self.image.apply(record, self._changes)
        self.image.offset = offset
        if isinstance(record, records.RemoveTopicRecord):
            removed = self._changes.removed_topics[-1]
            self._left[removed.topic_id] = removed.name

    def _take_changes(self) -> Changes:
        changes, self._changes = self._changes, Changes()
        return changes

    def _make_logs(self, batch: Sequence[Any]) -> tuple[list[TopicPartition], list[tuple[UUID, str, BrokerError]]]:
        """Make the logs of new partitions, those of each topic or none; return them, and the topics without."""
        names, overrides = dict(self.image.names), {}
        created: dict[str, list[TopicPartition]] = {}
        failures: dict[str, tuple[UUID, str, BrokerError]] = {}
        configs: dict[str, LogConfig] = {}
        for record in batch:
            if isinstance(record, records.TopicRecord):
                names[record.topic_id] = record.name
                overrides[record.name] = dict[str, str]()
            elif isinstance(record, records.ConfigRecord) and record.resource_name in overrides:
                overrides[record.resource_name][record.name] = record.value or ""
            elif isinstance(record, records.PartitionRecord):
                name = names[record.topic_id]
                if name in failures:
                    continue
                if name not in configs:
                    is_known = name not in overrides or not overrides[name]
                    configs[name] = (
                        self.cluster.log_config(name)
                        if is_known
                        else log_config(self.cluster.settings, overrides[name])
                    )
                tp = TopicPartition(name, record.partition_id)
                try:
                    self._create(tp, record.topic_id, configs[name])
                    created.setdefault(name, []).append(tp)
                except BrokerError as error:
                    failures[name] = record.topic_id, name, error
                    self._discard(created.pop(name, []))
        return [tp for partitions in created.values() for tp in partitions], list(failures.values())

    def _create(self, tp: TopicPartition, topic_id: UUID, config: LogConfig) -> None:
        try:
            partition = self._manager.create_partition(tp, topic_id, config)
        except OSError as error:
            raise self._offline(error) from error
        state = self.image.partition(tp)
        if state is not None:
            partition.leader_epoch = state.leader_epoch

    def _discard(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove logs that were made for a change that is refused. What remains of them the next start removes."""
        for tp in partitions:
            try:
                self._manager.discard_partition(tp)
            except OSError:
                continue

    def _follow(self, before: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        """Let the parts of the broker follow the records that were applied; `before` are the settings until then."""
        image, manager, changes = self.image, self._manager, self._take_changes()
        self.cluster.apply(image, changes)
        for topic in changes.removed_topics:
            outcomes = [self._delete(TopicPartition(topic.name, number)) for number in topic.partitions]
            if all(outcomes):
                del self._left[topic.topic_id]
        manager.follow_settings(image, changes, self.cluster.log_config)
        if "security" in vars(self):
            self.security.apply(image, changes)
        for topic in changes.removed_topics:
            for number in topic.partitions:
                self._notify(TopicPartition(topic.name, number), None)
        for tp in changes.partitions:
            if (state := image.partition(tp)) is not None:
                self._notify(tp, state.leader_epoch)
        self._report_without_effect(changes, before)
        if self._journal.snapshot_is_due and not self._left:
            self._write_snapshot()

    def _notify(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        """Tell the coordinators that this broker leads a partition from now on, None: no longer."""
        for callback in self._manager.on_leadership:
            callback(tp, leader_epoch)

    def _delete(self, tp: TopicPartition) -> bool:
        """Delete a partition of a removed topic. False if the next start must do that."""
        try:
            self._manager.delete_partition(tp)
        except OSError as error:
            if not is_exhausted(error):
                raise self._offline(error) from error
            return False
        return True

    def _report_without_effect(self, changes: Changes, before: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        for kind, name in changes.configs:
            configs, earlier = self.image.configs.get((kind, name), {}), before.get((kind, name), {})
            changed = sorted(key for key in configs if configs[key] != earlier.get(key))
            if kind == BROKER_CONFIG:
                self.cluster.reports += filter(None, [without_effect(changed, BROKER_OPTIONS)])
            elif kind == TOPIC_CONFIG and name not in INTERNAL_TOPICS:
                ignored = without_effect(changed, TOPIC_OPTIONS)
                self.cluster.reports += [] if ignored is None else [f"topic {name}: {ignored}"]

    def _write_snapshot(self) -> None:
        from kcli.broker.cluster.snapshot_records import records_of

        state, node_id = copy(self.image), self._config.node_id
        state.brokers = {node_id: self.image.brokers[node_id]._replace(is_fenced=True)}
        self._journal.write_snapshot((), records_of(state))

    def _offline(self, error: OSError) -> BrokerError:
        reason = f"{error.strerror or error} while changing the topics in {self._logs.data_dir}"
        if not is_exhausted(error):
            self._logs.fail(reason)
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, reason)


def _is_of(record: Any, ids: Collection[UUID], names: Collection[str]) -> bool:
    """Return whether a record of a decision is about one of these topics."""
    if isinstance(record, records.ConfigRecord):
        return record.resource_type == TOPIC_CONFIG and record.resource_name in names
    return getattr(record, "topic_id", None) in ids
