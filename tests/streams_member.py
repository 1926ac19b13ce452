"""A member of a streams group (KIP-1071) without an application: it sends only heartbeats."""

import time
import uuid
from collections.abc import Sequence

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.routing import ask_coordinator
from kcli.protocol.wire import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    Nullable,
    NullableArray,
    NullableString,
    Request,
    String,
    message,
    struct,
)
from kcli.structs import TopicPartition


@struct
class _Nothing:
    """The element type of lists that are always empty here."""


@struct
class _TaskIds:
    subtopology_id: String = ""
    partitions: Array[Int32] = []


@struct
class _Subtopology:
    subtopology_id: String = ""
    source_topics: Array[String] = []
    source_topic_regex: Array[String] = []
    state_changelog_topics: Array[_Nothing] = []
    repartition_sink_topics: Array[String] = []
    repartition_source_topics: Array[_Nothing] = []
    copartition_groups: Array[_Nothing] = []


@struct
class _Topology:
    epoch: Int32 = 0
    subtopologies: Array[_Subtopology] = []


@message(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    """Join with epoch 0 and a topology, stay with the current epoch and tasks, leave with epoch -1."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    topology: Nullable[_Topology] = None
    active_tasks: NullableArray[_TaskIds] = None
    standby_tasks: NullableArray[_TaskIds] = None
    warmup_tasks: NullableArray[_TaskIds] = None
    process_id: NullableString = None
    user_endpoint: Nullable[_Nothing] = None
    client_tags: NullableArray[_Nothing] = None
    task_offsets: NullableArray[_Nothing] = None
    task_end_offsets: NullableArray[_Nothing] = None
    shutdown_application: Bool = False


@struct
class _Status:
    status_code: Int8 = 0
    status_detail: String = ""


@message(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    """The epoch, and the tasks if they have changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: NullableArray[_Status] = None
    active_tasks: NullableArray[_TaskIds] = None
    standby_tasks: NullableArray[_TaskIds] = None
    warmup_tasks: NullableArray[_TaskIds] = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: NullableArray[_Nothing] = None


class StreamsMember:
    """A member with one subtopology that reads `topics`. The group removes it unless `beat` is called regularly."""

    def __init__(self, bootstrap_servers: str, group: str, topics: Sequence[str], client_id: str = "streams") -> None:
        properties = {"bootstrap.servers": bootstrap_servers, "client.id": client_id}
        self._client = connect(ClientConfig.from_properties(properties))
        self.group = group
        self.topics = sorted(topics)
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.tasks: list[int] = []
        self._heartbeat_s = 0.0

    def join(self, timeout_s: float = 20) -> "StreamsMember":
        """Join, and wait until tasks are assigned."""
        parts = [_Subtopology(subtopology_id="0", source_topics=self.topics)]
        self._send(rebalance_timeout_ms=10_000, topology=_Topology(subtopologies=parts), process_id=self.id)
        deadline = time.monotonic() + timeout_s
        while not self.tasks:
            assert time.monotonic() < deadline, f"{self.group} got no tasks"
            time.sleep(min(self._heartbeat_s, 0.2))
            self.beat()
        self.beat()  # confirms the tasks
        return self

    def beat(self) -> None:
        """Send a heartbeat with the current tasks, and apply the assigned tasks."""
        self._send()

    def assigned(self) -> set[TopicPartition]:
        """Return the partitions that the tasks read."""
        return {TopicPartition(topic, task) for topic in self.topics for task in self.tasks}

    def leave(self) -> None:
        """Leave the group and close the connection."""
        self.epoch = -1
        self._send()
        self._client.close()

    def _send(self, **first: object) -> None:
        held = [_TaskIds(subtopology_id="0", partitions=self.tasks)] if self.tasks else []
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch,
            active_tasks=held,
            standby_tasks=[],
            warmup_tasks=[],
            **first,
        )
        answer = ask_coordinator(self._client, self.group, request, self._client.clock.now_ms() + 20_000)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        self._heartbeat_s = answer.heartbeat_interval_ms / 1000
        if answer.active_tasks is not None:
            self.tasks = [number for task in answer.active_tasks for number in task.partitions]
