"""Quorum: the metadata log as its leader serves it to brokers: Fetch, FetchSnapshot and DescribeQuorum.

Brokers are observers: they read the log, and do not vote. Any may, also one that is not registered. Errors and their
order are those of Kafka's KafkaRaftClient (KIP-595, KIP-630, KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kcli.broker.cluster.metadata_log import MetadataLog, SnapshotId
from kcli.broker.handlers.describe_quorum import described
from kcli.broker.serving.pending import Pending
from kcli.broker.serving.request_context import RequestContext
from kcli.broker.serving.timer import Timer, TimerTask
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import describe_quorum, fetch, fetch_snapshot
from kcli.protocol.metadata_records import METADATA_TOPIC, METADATA_TOPIC_ID

# Versions of Fetch responses.
_FIRST_WITH_LEADER, _FIRST_WITH_ENDPOINTS = 12, 16
# As in Kafka: an observer that has not fetched for this time is no longer described.
_OBSERVER_MS = 300_000.0


class VoterListener(NamedTuple):
    """An address of the controller."""

    name: str
    host: str
    port: int


@dataclass
class _Observer:
    """The progress of a replica: its log end offset, and the times of its last fetch and of being caught up."""

    directory_id: UUID
    log_end_offset: int
    fetched_ms: float
    fetched_wall_ms: int
    caught_up_wall_ms: int = -1


class _WaitingFetch(NamedTuple):
    request: fetch.FetchRequest
    version: int
    task: TimerTask


class Quorum:
    """The leader of the metadata log, its only voter; and the fetches that wait for new records."""

    def __init__(
        self,
        log: MetadataLog,
        timer: Timer,
        *,
        node_id: int,
        directory_id: UUID,
        cluster_id: str,
        epoch: int,
        listeners: Sequence[VoterListener],
    ) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.epoch = epoch
        self.listeners = tuple(listeners)
        self._log = log
        self._timer = timer
        self._cluster_id = cluster_id
        self._observers: dict[int, _Observer] = {}
        self._waiting: dict[Pending[fetch.FetchResponse], _WaitingFetch] = {}

    def __repr__(self) -> str:
        return f"<Quorum leader={self.node_id} epoch={self.epoch} {len(self._waiting)} waiting fetches>"

    # ---- Fetch ----

    def answer_fetch(
        self, request: fetch.FetchRequest, context: RequestContext
    ) -> fetch.FetchResponse | Pending[fetch.FetchResponse]:
        """Return records after the observer's log; wait up to `max_wait_ms` if there are none."""
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return fetch.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if not _is_of_metadata(request):
            return fetch.FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked = request.topics[0].partitions[0]
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or asked.last_fetched_epoch < 0
            or asked.last_fetched_epoch > asked.current_leader_epoch
        ):
            data = fetch.PartitionData(error_code=ErrorCode.INVALID_REQUEST, high_watermark=-1)
            return self._fetched(data, context.api_version)
        data = self._read(request)
        is_at_end = not data.error_code and asked.fetch_offset >= self._log.end_offset
        if not data.error_code and data.snapshot_id.end_offset < 0 and data.diverging_epoch.epoch < 0:
            self._observe(request, context)
            if is_at_end and request.max_wait_ms > 0 and asked.high_watermark >= data.high_watermark:
                return self._wait(request, context)
        return self._fetched(data, context.api_version)

    def _read(self, request: fetch.FetchRequest) -> fetch.PartitionData:
        asked = request.topics[0].partitions[0]
        code = self._epoch_error(asked.current_leader_epoch)
        if code:
            return fetch.PartitionData(error_code=code, high_watermark=-1)
        data = fetch.PartitionData(high_watermark=self._log.end_offset, log_start_offset=self._log.start_offset)
        obstacle = self._log.check(asked.fetch_offset, asked.last_fetched_epoch)
        if isinstance(obstacle, SnapshotId):
            data.snapshot_id = fetch.SnapshotId(end_offset=obstacle.end_offset, epoch=obstacle.epoch)
        elif obstacle is not None:
            data.diverging_epoch = fetch.EpochEndOffset(epoch=obstacle.epoch, end_offset=obstacle.end_offset)
        else:
            data.records = self._log.read(asked.fetch_offset, request.max_bytes)  # type: ignore[assignment]
        return data

    def _epoch_error(self, epoch: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if epoch > self.epoch else ErrorCode.NONE

    def _fetched(self, data: fetch.PartitionData, version: int) -> fetch.FetchResponse:
        """Return the response; Kafka names the leader in each, where the version can carry it."""
        if version >= _FIRST_WITH_LEADER:
            data.current_leader = fetch.LeaderIdAndEpoch(leader_id=self.node_id, leader_epoch=self.epoch)
        data.records = b"" if data.records is None else data.records
        topic = fetch.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
        response = fetch.FetchResponse(responses=[topic])
        if version >= _FIRST_WITH_ENDPOINTS:
            address = self.listeners[0]
            endpoint = fetch.NodeEndpoint(node_id=self.node_id, host=address.host, port=address.port)
            response.node_endpoints = [endpoint]
        return response

    def _wait(self, request: fetch.FetchRequest, context: RequestContext) -> Pending[fetch.FetchResponse]:
        pending: Pending[fetch.FetchResponse] = Pending()
        task = self._timer.call_at(context.now_ms + request.max_wait_ms, lambda: self._expire(pending))
        self._waiting[pending] = _WaitingFetch(request, context.api_version, task)
        return pending

    def _expire(self, pending: Pending[fetch.FetchResponse]) -> None:
        waiting = self._waiting.pop(pending)
        pending.complete(self._fetched(self._read(waiting.request), waiting.version))

    def appended(self) -> None:
        """Answer the waiting fetches, because there are new records."""
        waiting, self._waiting = self._waiting, {}
        for pending, (request, version, task) in waiting.items():
            task.cancel()
            pending.complete(self._fetched(self._read(request), version))

    def _observe(self, request: fetch.FetchRequest, context: RequestContext) -> None:
        """Note how far a replica has got. It is caught up at the time of its last fetch that had all records then."""
        replica_id = request.replica_state.replica_id if context.api_version >= 15 else request.replica_id
        if replica_id < 0 or replica_id == self.node_id:
            return
        asked = request.topics[0].partitions[0]
        before = self._observers.get(replica_id)
        caught_up_ms = before.caught_up_wall_ms if before else -1
        if asked.fetch_offset >= self._log.end_offset:
            caught_up_ms = context.now_wall_ms
        self._observers[replica_id] = _Observer(
            asked.replica_directory_id, asked.fetch_offset, context.now_ms, context.now_wall_ms, caught_up_ms
        )

    # ---- FetchSnapshot ----

    def answer_fetch_snapshot(
        self, request: fetch_snapshot.FetchSnapshotRequest, context: RequestContext
    ) -> fetch_snapshot.FetchSnapshotResponse:
        """Return a section of a snapshot."""
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            return fetch_snapshot.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return fetch_snapshot.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic = request.topics[0]
        data = self._snapshot_section(topic.name, topic.partitions[0], request.max_bytes)
        response = fetch_snapshot.FetchSnapshotResponse(
            topics=[fetch_snapshot.TopicSnapshot(name=topic.name, partitions=[data])]
        )
        if context.api_version >= 1:
            address = self.listeners[0]
            endpoint = fetch_snapshot.NodeEndpoint(node_id=self.node_id, host=address.host, port=address.port)
            response.node_endpoints = [endpoint]
        return response

    def _snapshot_section(
        self, topic: str, asked: fetch_snapshot.PartitionSnapshotRequest, max_bytes: int
    ) -> fetch_snapshot.PartitionSnapshot:
        data = fetch_snapshot.PartitionSnapshot(index=asked.partition)
        if topic != METADATA_TOPIC or asked.partition != 0:
            data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return data
        data.current_leader = fetch_snapshot.LeaderIdAndEpoch(leader_id=self.node_id, leader_epoch=self.epoch)
        data.error_code = self._epoch_error(asked.current_leader_epoch)
        if data.error_code:
            return data
        id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        section = self._log.read_snapshot(id, asked.position, max_bytes)
        if section is None:
            data.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= asked.position < section[1]:
            data.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            data.snapshot_id, data.position = asked.snapshot_id, asked.position
            data.unaligned_records, data.size = section  # type: ignore[assignment]
        return data

    # ---- DescribeQuorum ----

    def answer_describe(
        self, request: describe_quorum.DescribeQuorumRequest, context: RequestContext
    ) -> describe_quorum.DescribeQuorumResponse:
        """Return the voter and the observers."""
        return described(
            request,
            context,
            leader_id=self.node_id,
            directory_id=self.directory_id,
            epoch=self.epoch,
            end_offset=self._log.end_offset,
            observers=[
                describe_quorum.ReplicaState(
                    replica_id=replica_id,
                    replica_directory_id=observer.directory_id,
                    log_end_offset=observer.log_end_offset,
                    last_fetch_timestamp=observer.fetched_wall_ms,
                    last_caught_up_timestamp=observer.caught_up_wall_ms,
                )
                for replica_id, observer in sorted(self._observers.items())
                if context.now_ms - observer.fetched_ms < _OBSERVER_MS
            ],
            listeners=[
                describe_quorum.Listener(name=listener.name, host=listener.host, port=listener.port)
                for listener in self.listeners
            ],
        )


def _is_of_metadata(request: fetch.FetchRequest) -> bool:
    """True if the request names exactly the one partition of the metadata log."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    is_named = topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC
    return is_named and topic.partitions[0].partition == 0
