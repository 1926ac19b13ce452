"""Harnesses for scenarios with topics and offsets: the offset store without sockets, or any broker by sockets."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kcli.broker.group.group_coordinator import GroupCoordinator
from kcli.broker.group.offset_store import OffsetStore
from kcli.broker.handlers import offset_commit
from kcli.broker.security.allow_all import AllowAll
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.group.harness import (
    Connection,
    CoordinatorConnection,
    CoordinatorHarness,
    Recorder,
    SocketHarness,
    ask,
)
from tests.broker.group.store_harness import MemoryReplicas, Topics, load_all

Topic = Any  # a name, or an id in versions with topic ids
Row = tuple[int, int, int, str, int]


class OffsetsRecorder(Recorder):
    """A recorder that replaces topic names and ids, too, by values that do not depend on the broker."""

    def __init__(self, harness: Any) -> None:
        super().__init__(harness)
        self._ids: dict[UUID, str] = {UUID(int=0): "no id", UUID(int=77): "unknown id"}

    def new_topic(self, partitions: int = 2) -> tuple[str, UUID]:
        """Create a topic that no other test uses; return its name and id."""
        name = f"topic.{len(self._ids)}.{self._run}"
        return name, self.create_topic(name, partitions)

    def create_topic(self, name: str, partitions: int = 2) -> UUID:
        topic_id: UUID = self._harness.create_topic(name, partitions)  # type: ignore[attr-defined]
        self._ids[topic_id] = f"id {len(self._ids)}"
        return topic_id

    def delete_topic(self, name: str) -> None:
        self._harness.delete_topic(name)  # type: ignore[attr-defined]

    def _normalized(self, value: Any) -> Any:
        if isinstance(value, UUID):
            return self._ids[value]
        if isinstance(value, bytes):
            return value.replace(self._run.encode(), b"RUN")
        return super()._normalized(value)


class OffsetsHarness(CoordinatorHarness):
    """Coordinator and offset store over logs in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = MemoryReplicas()
        self.cluster = Topics(self.replicas)
        self.cluster.__dict__.update(node_id=1, host="127.0.0.1", port=9092)
        self.restart()

    def restart(self) -> None:
        self.offsets = OffsetStore(self.config, self.replicas, self.cluster, self.clock)  # type: ignore[arg-type]
        self.groups = GroupCoordinator(self.config, self.timer, self.clock, self.offsets, self.cluster)
        self.offsets.register(self.groups)
        load_all(self.offsets, self.cluster)
        self.broker = SimpleNamespace(
            groups=self.groups, cluster=self.cluster, offsets=self.offsets, authorizer=AllowAll()
        )

    def connect(self, client_id: str | None = "tester") -> CoordinatorConnection:
        return _Connection(self, client_id)

    def create_topic(self, name: str, partitions: int) -> UUID:
        return self.cluster.add(name, partitions)

    def delete_topic(self, name: str) -> None:
        del self.cluster.topics[name]
        self.offsets.forget_topic(name, self.clock.wall_ms())


class _Connection(CoordinatorConnection):
    def _commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        clock = self._harness.clock
        context = RequestContext(8, version, 7, self._client_id, "c-1", "127.0.0.1", clock.now_ms(), clock.wall_ms())
        return offset_commit.handle(self._harness.broker, request, context)  # type: ignore[arg-type]


class OffsetsSocketHarness(SocketHarness):
    """Any broker by sockets; creation and deletion of topics are awaited."""

    def create_topic(self, name: str, partitions: int) -> UUID:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        (made,) = ask(self.connect(), CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
        assert made.error_code == 0, made
        self._wait_for(name, "created", known=True)
        return made.topic_id

    def delete_topic(self, name: str) -> None:
        watcher = self.connect()
        assert commit(watcher, "watcher of deletions", {name: [(0, 1)]}) == [(name, [(0, 0)])]
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        assert ask(watcher, request, 6).responses[0].error_code == 0
        self._wait_for(name, "deleted", known=False)
        deadline = time.monotonic() + 20
        while fetch(watcher, "watcher of deletions", None)[1]:
            assert time.monotonic() < deadline, "the offsets of a deleted topic were not deleted"
            time.sleep(0.02)

    def _wait_for(self, name: str, what: str, *, known: bool) -> None:
        client, deadline = self.connect(), time.monotonic() + 20
        while (commit(client, "watcher", {name: [(0, 1)]}) == [(name, [(0, 0)])]) != known:
            assert time.monotonic() < deadline, f"{name} was not {what}"
            time.sleep(0.02)


# ---- requests, with responses as plain rows ----


def commit(
    client: Connection,
    group: str,
    topics: dict[Topic, list[tuple[Any, ...]]],
    version: int = 9,
    *,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    retention_ms: int = -1,
) -> list[tuple[Topic, list[tuple[int, int]]]]:
    """Commit rows of (partition, offset, epoch, metadata); return per topic the partitions with their errors."""
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(partitions=[_commit_row(*row) for row in rows], **_named(topic))
            for topic, rows in topics.items()
        ],
    )
    response = ask(client, request, version)
    return [
        (topic.topic_id if version >= 10 else topic.name, [(p.partition_index, p.error_code) for p in topic.partitions])
        for topic in response.topics
    ]


def _commit_row(
    partition: int, offset: int, epoch: int = -1, metadata: str | None = ""
) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
    )


def _named(topic: Topic) -> dict[str, Any]:
    return {"topic_id": topic} if isinstance(topic, UUID) else {"name": topic}


def fetch(
    client: Connection,
    group: str,
    topics: dict[Topic, list[int]] | None,
    version: int = 9,
    *,
    stable: bool = False,
) -> tuple[int, list[tuple[Topic, list[Row]]]]:
    """Return the error of the group, and per topic its rows of (partition, offset, epoch, metadata, error)."""
    if version < 8:
        old = (
            None
            if topics is None
            else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
        )
        request = OffsetFetchRequest(group_id=group, topics=old, require_stable=stable)
        response: Any = ask(client, request, version)
    else:
        request = OffsetFetchRequest(groups=[fetch_group(group, topics)], require_stable=stable)
        (response,) = ask(client, request, version).groups
        assert response.group_id == group
    return response.error_code, rows_of(response.topics)


def fetch_group(group: str, topics: dict[Topic, list[int]] | None) -> OffsetFetchRequestGroup:
    new = None
    if topics is not None:
        new = [OffsetFetchRequestTopics(partition_indexes=p, **_named(t)) for t, p in topics.items()]
    return OffsetFetchRequestGroup(group_id=group, topics=new)


def rows_of(topics: list[Any]) -> list[tuple[Topic, list[Row]]]:
    return [(topic.name or topic.topic_id, [_row(p) for p in topic.partitions]) for topic in topics]


def _row(p: Any) -> Row:
    return p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code


def delete(
    client: Connection, group: str, topics: dict[str, list[int]]
) -> tuple[int, list[tuple[str, list[tuple[int, int]]]]]:
    """Delete offsets; return the error of the group, and per topic the partitions with their errors."""
    requested = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in ps])
        for t, ps in topics.items()
    ]
    response = ask(client, OffsetDeleteRequest(group_id=group, topics=requested))
    return response.error_code, [
        (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions]) for topic in response.topics
    ]
