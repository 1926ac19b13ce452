"""Requests for the facts that the rules of `health` examine. Changes nothing; an error is a failure of one fact."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from kcli.admin.health.inventory import (
    BROKER_SETTINGS,
    BROKERS,
    DISKS,
    FACTS,
    MIN_ISR,
    TOPIC_SETTINGS,
    TOPICS,
    TRANSACTIONS,
    UNCLEAN_ELECTION,
    VERSIONS,
    Failure,
    Inventory,
    LogDir,
)
from kcli.client.requests import Results, ask_each, half_deadline
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError, WakeupError
from kcli.structs import ANONYMOUS, Node, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.cluster import Broker, NodeVersions
    from kcli.admin.configs import Setting
    from kcli.admin.logs.open_transactions import OpenTransaction
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster, TopicInfo
    from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
    from kcli.protocol.wire import Message, Request

T = TypeVar("T")
R = TypeVar("R", bound="Message")

_PATIENCE_MS = 5_000.0
_TOPICS_PER_REQUEST = 1_000


def inspect_cluster(client: ConsumerNetworkClient, deadline_ms: float, *, facts: Collection[str] = FACTS) -> Inventory:
    """Request these facts. Raise KcliError only if the topics and brokers themselves cannot be requested."""
    inspection = _Inspection(client, deadline_ms)
    cluster = client.topics_metadata(None, half_deadline(client, deadline_ms))
    topics = {name: topic for name, topic in cluster.topics.items() if not topic.error}
    inspection.failures += [
        Failure(TOPICS, name, error)
        for name in sorted(cluster.topics)
        if (error := cluster.topic_error(name)) is not None
    ]
    brokers = inspection.brokers(cluster)
    live = [node for node in sorted(cluster.nodes.values()) if node.id >= 0]
    versions, unreachable = inspection.versions(live)
    reachable = [node for node in live if node.id not in unreachable]
    return Inventory(
        client.clock.wall_ms(),
        brokers,
        topics,
        topic_settings=inspection.topic_settings(topics) if TOPIC_SETTINGS in facts else {},
        broker_settings=inspection.broker_settings(reachable) if BROKER_SETTINGS in facts else {},
        versions=versions if VERSIONS in facts else {},
        log_dirs=inspection.log_dirs(reachable) if DISKS in facts else {},
        transactions=inspection.transactions(topics, {node.id for node in reachable}) if TRANSACTIONS in facts else (),
        unreachable=unreachable,
        failures=tuple(failure for failure in inspection.failures if failure.fact in facts),
        restricted=client.principal != ANONYMOUS,
    )


class _Inspection:
    """One inspection: the client, its deadline, and the failures so far."""

    def __init__(self, client: ConsumerNetworkClient, deadline_ms: float) -> None:
        self._client = client
        self._deadline_ms = deadline_ms
        self.failures: list[Failure] = []

    def _until_ms(self) -> float:
        return half_deadline(self._client, self._deadline_ms)

    def _attempt(self, fact: str, action: Callable[[], T], otherwise: T) -> T:
        """Return the result of an action; an error becomes a failure of the fact."""
        try:
            return action()
        except WakeupError:
            raise
        except KcliError as error:
            self.failures.append(Failure(fact, "", error))
            return otherwise

    def brokers(self, cluster: Cluster) -> tuple[Broker, ...]:
        """Return the registered brokers, fenced ones too; those of the metadata if the request fails."""
        from kcli.admin.cluster import Broker, describe_cluster

        listed = tuple(Broker(*node) for node in sorted(cluster.nodes.values()) if node.id >= 0)
        return self._attempt(
            BROKERS, lambda: tuple(describe_cluster(self._client, self._until_ms()).brokers) or listed, listed
        )

    def versions(self, nodes: list[Node]) -> tuple[dict[int, NodeVersions], dict[int, KcliError]]:
        """Return the versions of each broker, and the brokers that do not answer within five seconds."""
        from kcli.admin.cluster import api_versions

        until_ms = min(self._until_ms(), self._client.clock.now_ms() + _PATIENCE_MS)
        results = api_versions(self._client, nodes, until_ms)
        unreachable = {node.id: error for node, error in results.errors.items()}
        return {node.id: versions for node, versions in results.values.items()}, unreachable

    def topic_settings(self, topics: Mapping[str, TopicInfo]) -> dict[str, dict[str, str]]:
        """Return the examined settings of each topic."""
        from kcli.admin.configs import TOPIC, describe_configs

        settings: dict[str, dict[str, str]] = {}
        names = sorted(topics)
        for start in range(0, len(names), _TOPICS_PER_REQUEST):
            some = names[start : start + _TOPICS_PER_REQUEST]
            found: Results[str, list[Setting]] = self._attempt(
                TOPIC_SETTINGS,
                lambda some=some: describe_configs(  # type: ignore[misc]
                    self._client, TOPIC, some, self._until_ms(), keys=(MIN_ISR, UNCLEAN_ELECTION)
                ),
                Results(),
            )
            for name, values in found.values.items():
                settings[name] = {setting.name: setting.value or "" for setting in values}
            self.failures += [Failure(TOPIC_SETTINGS, name, error) for name, error in found.errors.items()]
        return settings

    def broker_settings(self, nodes: list[Node]) -> dict[int, dict[str, Setting]]:
        """Return all settings of each broker by name."""
        from kcli.admin.configs import BROKER, configs_request, read_configs

        def read(_node: Node, response: DescribeConfigsResponse) -> dict[str, Setting] | KcliError:
            configs = read_configs(response)
            for error in configs.errors.values():
                return error
            return {setting.name: setting for settings in configs.values.values() for setting in settings}

        def build(node: Node) -> DescribeConfigsRequest:
            return configs_request(BROKER, [str(node.id)])

        return self._of_brokers(BROKER_SETTINGS, nodes, build, read)

    def log_dirs(self, nodes: list[Node]) -> dict[int, tuple[LogDir, ...]]:
        """Return the data directories of each broker."""
        from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

        request = DescribeLogDirsRequest(topics=None)
        return self._of_brokers(DISKS, nodes, lambda _node: request, _read_log_dirs)

    def _of_brokers(
        self,
        fact: str,
        nodes: list[Node],
        build: Callable[[Node], Request[R]],
        read: Callable[[Node, R], T | KcliError],
    ) -> dict[int, T]:
        results = ask_each(self._client, nodes, build, read, self._until_ms())
        self.failures += [Failure(fact, f"broker {node.id}", error) for node, error in results.errors.items()]
        return {node.id: value for node, value in results.values.items()}

    def transactions(self, topics: Mapping[str, TopicInfo], reachable: Collection[int]) -> tuple[OpenTransaction, ...]:
        """Return the open transactions of partitions whose last stable offset is below the high watermark."""
        from kcli.admin.logs.open_transactions import survey_transactions
        from kcli.client.offset_lookup import LATEST, list_offsets

        partitions = [
            TopicPartition(info.topic, info.partition)
            for topic in topics.values()
            for info in topic.partitions.values()
            if info.leader in reachable
        ]

        def survey() -> tuple[OpenTransaction, ...]:
            stable = list_offsets(self._client, dict.fromkeys(partitions, LATEST), self._until_ms(), 1)
            ends = list_offsets(self._client, dict.fromkeys(stable.values, LATEST), self._until_ms())
            held_back = [tp for tp, end in ends.values.items() if stable.values[tp].offset < end.offset]
            surveyed = survey_transactions(self._client, held_back, self._until_ms())
            errors = {str(tp): error for tp, error in {**stable.errors, **ends.errors}.items()} | dict(surveyed.errors)
            self.failures += [Failure(TRANSACTIONS, where, error) for where, error in errors.items()]
            return surveyed.transactions

        return self._attempt(TRANSACTIONS, survey, ())


def _read_log_dirs(_node: Node, response: DescribeLogDirsResponse) -> tuple[LogDir, ...] | KcliError:
    if response.error_code:
        return response.broker_error(response.error_code)
    if not response.results:  # the refusal of brokers before 3.2, which have no error code for it
        return response.broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return tuple(
        LogDir(
            log_dir.log_dir,
            sum(partition.partition_size for topic in log_dir.topics for partition in topic.partitions),
            log_dir.total_bytes,
            log_dir.usable_bytes,
            response.broker_error(log_dir.error_code) if log_dir.error_code else None,
        )
        for log_dir in response.results
    )
