"""Members of consumer groups (KIP-848): on the coordinator under a manual clock, or on any broker."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kcli.broker.config import BrokerConfig
from kcli.broker.coordinator_log import key_hash
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.messages.list_groups import ListGroupsResponse
from kcli.protocol.wire import Message
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.group.harness import Connection, ask
from tests.broker.group.offsets_harness import OffsetsHarness, OffsetsRecorder, OffsetsSocketHarness
from tests.broker.group.store_harness import new_partitions
from tests.broker.group.written_records import batches_of, records_of
from tests.real_kafka import SETTINGS, read_until_equal

_GROUP = 32  # the kind of resource
_PROBED_MS = 700  # a heartbeat interval that no broker of the tests has by itself


class ConsumerGroupsHarness(OffsetsHarness):
    """A coordinator with topics; settings are those of the broker, with underscores for dots."""

    def __init__(self, **settings: str) -> None:
        self.group_configs: dict[str, dict[str, str]] = {}
        super().__init__()
        given = {key.replace("_", "."): value for key, value in settings.items()}
        properties = {
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "100",
        }
        self.config = BrokerConfig.from_properties({**properties, **given})
        self.cluster.__dict__.update(
            settings=self.config,
            features={"group.version": 1},
            features_epoch=0,
            image=SimpleNamespace(resource_configs=lambda kind: self.group_configs),
            advertised={"PLAINTEXT": ("127.0.0.1", 9092)},
            brokers=lambda listener, with_fenced=False: [SimpleNamespace(node_id=1, rack=None)],
        )
        self.restart()

    def configure_group(self, group: str, settings: dict[str, str]) -> None:
        self.group_configs[group] = settings

    def create_partitions(self, topic: str, count: int) -> None:
        self.cluster.topics[topic].partitions = new_partitions(count)

    def batches_of(self, group: str) -> Iterable[memoryview]:
        """Return the batches of the partition of __consumer_offsets that the group's records are in."""
        if OFFSETS_TOPIC not in self.cluster.topics:
            return []
        count = len(self.cluster.topics[OFFSETS_TOPIC].partitions)
        log = self.replicas.logs[TopicPartition(OFFSETS_TOPIC, key_hash(group) % count)]
        return [memoryview(data) for _, data in log.batches]

    def partitions(self, answer: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """Return the assignment of an answer by topic name; None if it has none."""
        if answer.assignment is None:
            return None
        found = {self.cluster.topic_by_id(t.topic_id).name: t.partitions for t in answer.assignment.topic_partitions}
        return {name: sorted(numbers) for name, numbers in found.items()}


class ConsumerGroupsSocketHarness(OffsetsSocketHarness):
    """Any broker by sockets; changes of settings are awaited."""

    def configure_group(self, group: str, settings: dict[str, str]) -> None:
        """Set the settings of a group, and wait until the coordinator has them."""
        self._alter_group(group, settings)
        assert read_until_equal(settings, lambda: self._settings_of(group, *settings)) == settings
        self._wait_for_all_changes()

    def create_topic(self, name: str, partitions: int) -> UUID:
        topic_id = super().create_topic(name, partitions)
        self._wait_for_all_changes()
        return topic_id

    def _wait_for_all_changes(self) -> None:
        """Wait until the coordinator has the changes that the broker describes.

        A broker of Apache Kafka takes the records of the metadata log in steps. In each it describes the changes first;
        then the coordinator gets the topics and the settings of groups, in any order. So a further change, the settings
        of another group, is made, which is in a later step: when they are in effect, the steps before it are complete.
        """
        probe = Member(self, "probe", f"probe.{time.time_ns():x}")
        self._alter_group(probe.group, {"consumer.heartbeat.interval.ms": str(_PROBED_MS)})
        found = read_until_equal(_PROBED_MS, lambda: int(probe.join([]).heartbeat_interval_ms))
        assert found == _PROBED_MS, "the coordinator does not see the settings"
        probe.leave()

    def _alter_group(self, group: str, settings: dict[str, str]) -> None:
        altered = [AlterableConfig(name=name, value=value) for name, value in settings.items()]
        resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group, configs=altered)
        (answer,) = ask(self.connect(), IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert not answer.error_code, answer

    def _settings_of(self, group: str, *names: str) -> dict[str, str | None]:
        resource = DescribeConfigsResource(resource_type=_GROUP, resource_name=group, configuration_keys=list(names))
        (answer,) = ask(self.connect(), DescribeConfigsRequest(resources=[resource])).results
        return {one.name: one.value for one in answer.configs}

    def batches_of(self, group: str) -> Iterable[memoryview]:
        return batches_of(self.connect(), group, int(SETTINGS["offsets.topic.num.partitions"]))

    def create_partitions(self, topic: str, count: int) -> None:
        client = self.connect()
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)], timeout_ms=10_000
        )
        assert ask(client, request).results[0].error_code == 0


class ConsumerGroupsRecorder(OffsetsRecorder):
    """A recorder for the stories of consumer groups. Each group has settings of its own."""

    def new_group(self, *, session_ms: int = 45_000, assignment_ms: int = 0) -> str:
        group = super().new_group()
        settings = {
            "consumer.session.timeout.ms": str(session_ms),
            "consumer.heartbeat.interval.ms": "500",
            "consumer.assignment.interval.ms": str(assignment_ms),
        }
        self._harness.configure_group(group, settings)  # type: ignore[attr-defined]
        self.groups.append(group)
        return group

    def record(self, response: Message) -> None:
        if isinstance(response, ListGroupsResponse):
            response.groups = [group for group in response.groups if not group.group_id.startswith("probe.")]
        super().record(response)

    def create_partitions(self, topic: str, count: int) -> None:
        self._harness.create_partitions(topic, count)  # type: ignore[attr-defined]

    def beat_until_assigned(self, member: Member, **fields: Any) -> Any:
        """Heartbeat until the coordinator has seen a change of topics, a little later; record the last answer."""
        while (answer := member.beat(**fields)).assignment is None:
            assert self.forget_last() < 1000, "the coordinator does not see the change"
        return answer

    def known_id(self, member_id: str) -> str:
        """Record a member id that the broker has made by a name; return the id."""
        for row in self.responses:
            if row[1].get("member_id") == member_id:
                row[1]["member_id"] = "made by the broker"
        self._replaced[member_id] = "made by the broker"
        return member_id

    def __init__(self, harness: Any) -> None:
        super().__init__(harness)
        self._replaced: dict[str, str] = {}
        self.groups: list[str] = []

    def written(self) -> list[Any]:
        """Return the records that the broker has written for the groups."""
        batches = self._harness.batches_of  # type: ignore[attr-defined]
        return [records_of(group, batches(group), self._normalized) for group in self.groups]

    def _normalized(self, value: Any) -> Any:
        if isinstance(value, str):
            for member_id, name in self._replaced.items():
                value = value.replace(member_id, name)
            # The description of the error is that of the library.
            value = value.partition("is not a valid regular expression: ")[0]
        return super()._normalized(value)


class Member:
    """A client that heartbeats: it keeps its epoch, and sends what it owns only when asked."""

    def __init__(
        self,
        harness: Any,
        member_id: str,
        group: str = "readers",
        *,
        instance_id: str | None = None,
        version: int | None = None,
    ) -> None:
        self.connection: Connection = harness.connect()
        self.member_id = member_id
        self.group = group
        self.instance_id = instance_id
        self.version = version
        self.epoch = 0

    def join(self, topics: list[str] | None, **fields: Any) -> Any:
        """Send the first heartbeat."""
        self.epoch = 0
        first = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": topics}
        return self.beat(**{**first, **fields})

    def beat(self, *, owns: Any = None, version: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat. `owns` is the answer whose assignment the member has now, or the partitions by topic id."""
        if isinstance(owns, ConsumerGroupHeartbeatResponse):
            assert owns.assignment is not None
            fields["topic_partitions"] = owns.assignment.topic_partitions
        elif owns is not None:
            fields["topic_partitions"] = [TopicPartitions(topic_id=one, partitions=owns[one]) for one in owns]
        common = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        request = ConsumerGroupHeartbeatRequest(**{**common, "instance_id": self.instance_id, **fields})
        answer = ask(self.connection, request, self.version if version is None else version)
        if not answer.error_code and answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
        return answer

    def leave(self, epoch: int = -1, **fields: Any) -> Any:
        """Send the last heartbeat; epoch -2 leaves for now."""
        return self.beat(member_epoch=epoch, **fields)
