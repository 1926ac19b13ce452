"""Observer of __cluster_metadata: fetches the log of the active controller and applies it to an image.

Only records below the high watermark are applied, because the controller also sends records that it may still lose.
Records between BeginTransaction and EndTransaction are applied together. A snapshot replaces the image. The node keeps
no copy on its disk: each start reads the log again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from kcli.broker.cluster.image import Changes, MetadataImage
from kcli.broker.log.validator import batches_of_leader
from kcli.broker.node.peers import Address, PeerError, Peers
from kcli.broker.serving.timer import Timer
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kcli.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotRequest,
    SnapshotId,
    TopicSnapshotRequest,
)
from kcli.protocol.metadata_records import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    decode_control_record,
    decode_record,
)
from kcli.protocol.records.batch import BatchInfo, Buffer
from kcli.protocol.records.scan import iter_records
from kcli.structs import TopicPartition

_MAX_WAIT_MS = 500
_TIMEOUT_MS = 5000.0
_FETCH_BYTES = 8 << 20
_BACKOFF_MS = 100.0
_UNKNOWN = -1
_ANY_EPOCH = 2**31 - 1
_MAX_SNAPSHOT_BYTES = 1 << 30
_OTHER_EPOCH = {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}


class Observer:
    """Follows the metadata log from the beginning.

    `publish(image, changes)` is called after each series of records; `on_applied(offset)` with each offset up to which
    all is applied; `on_controller(node id, address)` when the active controller is another one.
    """

    def __init__(
        self,
        peers: Peers,
        timer: Timer,
        clock: Clock,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: UUID,
        publish: Callable[[MetadataImage, Changes], None],
        on_applied: Callable[[int], None],
        on_controller: Callable[[Address | None], None],
        log: Callable[[str], None],
    ) -> None:
        self.image = MetadataImage()
        #: The number of snapshots that were read.
        self.snapshots = 0
        self._peer = peers.controller("metadata")
        self._timer = timer
        self._clock = clock
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._directory_id = directory_id
        self._publish = publish
        self._on_applied = on_applied
        self._on_controller = on_controller
        self._log = log
        self._leader_epoch = 0
        self._high_watermark = _UNKNOWN
        self._pending: deque[BatchInfo] = deque()
        # Next offset and last epoch of the records that are read, those of an open transaction included.
        self._read_to = 0, 0
        self._transaction: list[Any] | None = None
        self._fault = ""
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Observer {self.image!r} next={self._next_offset} high_watermark={self._high_watermark}>"

    @property
    def leader_epoch(self) -> int:
        """The epoch of the controller whose log is followed."""
        return self._leader_epoch

    def start(self) -> None:
        """Begin to fetch."""
        self._fetch()

    def close(self) -> None:
        """Fetch no more."""
        self._is_closed = True

    @property
    def _next_offset(self) -> int:
        return self._pending[-1].last_offset + 1 if self._pending else self._read_to[0]

    # ---- fetching ----

    def _fetch(self) -> None:
        if self._is_closed:
            return
        last_epoch = self._pending[-1].leader_epoch if self._pending else self._read_to[1]
        partition = FetchPartition(
            current_leader_epoch=self._leader_epoch,
            fetch_offset=self._next_offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=0,
            replica_directory_id=self._directory_id,
            high_watermark=self._high_watermark,
        )
        request = FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(replica_id=self._node_id),
            max_wait_ms=_MAX_WAIT_MS,
            max_bytes=_FETCH_BYTES,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, topic=METADATA_TOPIC, partitions=[partition])],
        )
        self._peer.send(request, self._on_fetched, timeout_ms=_TIMEOUT_MS)

    def _on_fetched(self, answer: FetchResponse | PeerError) -> None:
        if self._is_closed:
            return
        if isinstance(answer, PeerError):
            self._retry(str(answer))
            return
        rows = [row for topic in answer.responses for row in topic.partitions]
        if answer.error_code or len(rows) != 1:
            self._retry(f"Fetch of {METADATA_TOPIC}: {ErrorCode.of(answer.error_code).name}", forget=True)
            return
        row = rows[0]
        endpoints = {endpoint.node_id: (endpoint.host, endpoint.port) for endpoint in answer.node_endpoints}
        if not self._follow_leader(row, endpoints):
            return
        diverging_end, snapshot_end = row.diverging_epoch.end_offset, row.snapshot_id.end_offset
        first_kept = self._read_to[0] + (
            not self._pending
        )  # without more records, the epoch of the last one is another
        if 0 <= diverging_end < first_kept or 0 <= snapshot_end < self._read_to[0]:
            self._refuse_older(max(diverging_end, snapshot_end))
            return
        if diverging_end >= 0:
            self._drop_from(diverging_end)
        elif row.snapshot_id.end_offset >= 0:
            id = SnapshotId(end_offset=row.snapshot_id.end_offset, epoch=row.snapshot_id.epoch)
            self._fetch_snapshot(id, bytearray())
            return
        else:
            try:
                batches = self._new_batches(row.records or b"")
            except CorruptRecords as fault:
                self._retry(str(fault), forget=True)
                return
            self._take(batches, row.high_watermark)
        if self._fault:
            self._fault = ""
            self._log("the metadata log is read again")
        self._fetch()

    def _follow_leader(self, row: PartitionData, endpoints: dict[int, Address]) -> bool:
        """Take over epoch and address of the leader; return False if the fetch has to be sent again."""
        leader = row.current_leader
        if 0 <= leader.leader_epoch < self._leader_epoch:
            self._retry(f"the answer is of epoch {leader.leader_epoch}, before {self._leader_epoch}", forget=True)
            return False
        if leader.leader_epoch > self._leader_epoch:
            self._leader_epoch = leader.leader_epoch
            if leader.leader_id in endpoints:
                self._on_controller(endpoints[leader.leader_id])
            if row.error_code in _OTHER_EPOCH:
                self._fetch()
                return False
        if row.error_code:
            self._retry(f"Fetch of {METADATA_TOPIC}: {ErrorCode.of(row.error_code).name}", forget=True)
            return False
        return True

    def _retry(self, reason: str, *, forget: bool = False) -> None:
        if reason != self._fault:
            self._fault = reason
            self._log(f"the metadata log cannot be read: {reason}; trying again")
        if forget:
            self._on_controller(None)
        self._timer.call_at(self._clock.now_ms() + _BACKOFF_MS, self._fetch)

    # ---- records ----

    def _new_batches(self, data: Buffer) -> list[BatchInfo]:
        """Return the batches after those known. CorruptRecords if one is damaged or missing: the log has no gaps."""
        next_offset, new = self._next_offset, []
        for batch in batches_of_leader(memoryview(data), _ANY_EPOCH):
            if batch.base_offset > next_offset:
                raise CorruptRecords(f"the records from offset {next_offset} to {batch.base_offset - 1} are missing")
            if batch.last_offset >= next_offset:
                new.append(batch)
                next_offset = batch.last_offset + 1
        return new

    def _take(self, batches: list[BatchInfo], high_watermark: int) -> None:
        """Keep the received batches, and apply those below the high watermark."""
        self._pending += batches
        self._high_watermark = max(self._high_watermark, high_watermark)
        changes = Changes()
        while self._pending and self._pending[0].last_offset < self._high_watermark:
            info = self._pending.popleft()
            self._apply_batch(info, self.image, changes)
            self._read_to = info.last_offset + 1, info.leader_epoch
            if self._transaction is None:
                self.image.offset, self.image.epoch = info.last_offset, info.leader_epoch
        if changes.kinds:
            self._publish(self.image, changes)
        self._on_applied(self.image.offset)

    def _apply_batch(self, info: BatchInfo, image: MetadataImage, changes: Changes) -> None:
        """Apply the records of a batch. One that is unknown or does not fit is reported and left out."""
        try:
            for record in iter_records(info.records):
                try:
                    if info.is_control:
                        control = decode_control_record(record.key or b"", record.value or b"")
                        if isinstance(control, KRaftVersionRecord):
                            image.features["kraft.version"] = control.kraft_version
                    else:
                        self._apply_record(decode_record(record.value or b""), image, changes)
                except ProtocolError as fault:
                    self._log(f"metadata at offset {record.offset} cannot be applied: {fault}")
        except CorruptRecords as fault:
            self._log(f"metadata at offset {info.base_offset} cannot be applied: {fault}")

    def _apply_record(self, record: Any, image: MetadataImage, changes: Changes) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            records, self._transaction = self._transaction or [], None
            for written in records:
                image.apply(written, changes)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            image.apply(record, changes)

    def _drop_from(self, end_offset: int) -> None:
        """Drop records that are not applied, because the controller has lost them."""
        while self._pending and self._pending[-1].last_offset >= end_offset:
            self._pending.pop()

    def _refuse_older(self, end_offset: int) -> None:
        """Keep the metadata, because the controller has lost some that are applied, as after a restore from a backup.

        To apply what is left would delete the replicas of topics that the controller does not know. Apache Kafka's
        brokers stop here.
        """
        self._retry(
            f"the controller has lost metadata: its log ends at offset {end_offset}, and this node has applied those "
            f"below {self._read_to[0]}; restore the controller's directory, or restart this node to take over what it "
            "has (replicas of unknown topics are deleted)"
        )

    # ---- snapshots ----

    def _fetch_snapshot(self, id: SnapshotId, data: bytearray) -> None:
        partition = PartitionSnapshotRequest(
            current_leader_epoch=self._leader_epoch,
            snapshot_id=id,
            position=len(data),
            replica_directory_id=self._directory_id,
        )
        request = FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._node_id,
            max_bytes=_FETCH_BYTES,
            topics=[TopicSnapshotRequest(name=METADATA_TOPIC, partitions=[partition])],
        )
        self._peer.send(request, partial(self._on_snapshot, id, data), timeout_ms=_TIMEOUT_MS)

    def _on_snapshot(self, id: SnapshotId, data: bytearray, answer: FetchSnapshotResponse | PeerError) -> None:
        if self._is_closed:
            return
        if isinstance(answer, PeerError):
            self._retry(str(answer))
            return
        rows = [row for topic in answer.topics for row in topic.partitions]
        code = answer.error_code or (rows[0].error_code if rows else ErrorCode.UNKNOWN_SERVER_ERROR)
        if code:
            self._retry(f"FetchSnapshot of {METADATA_TOPIC}: {ErrorCode.of(code).name}")
            return
        row = rows[0]
        section = row.unaligned_records
        if not section or row.position != len(data) or not len(data) + len(section) <= row.size <= _MAX_SNAPSHOT_BYTES:
            self._retry(
                f"FetchSnapshot of {METADATA_TOPIC}: {len(section)} bytes at {row.position} of {row.size} do not "
                f"follow {len(data)} bytes"
            )
            return
        data += section
        if len(data) < row.size:
            self._fetch_snapshot(id, data)
            return
        whole = _whole_snapshot(data)
        if whole is None:  # topics that it lacks would be deleted here
            self._retry(f"FetchSnapshot of {METADATA_TOPIC}: the snapshot is damaged", forget=True)
            return
        image, changes = MetadataImage(), Changes()
        for info in whole:
            self._apply_batch(info, image, changes)
        self.snapshots += 1
        self._replace(image, changes, id.end_offset, id.epoch)
        self._fetch()

    def _replace(self, image: MetadataImage, changes: Changes, next_offset: int, epoch: int) -> None:
        """Publish another image, with everything in it as changed and what it lacks as removed."""
        changes.removed_topics += [topic for topic in self.image.topics.values() if topic.topic_id not in image.names]
        changes.brokers |= dict.fromkeys(self.image.brokers)
        changes.configs |= dict.fromkeys(self.image.configs)
        changes.partitions |= {
            TopicPartition(name, number): None for name, topic in image.topics.items() for number in topic.partitions
        }
        image.offset, image.epoch = next_offset - 1, epoch
        self.image, self._read_to, self._transaction = image, (next_offset, epoch), None
        self._pending.clear()
        self._publish(image, changes)
        self._on_applied(image.offset)


def _whole_snapshot(data: bytearray) -> list[BatchInfo] | None:
    """Return the batches of a snapshot; None if one is damaged or missing."""
    try:
        batches = batches_of_leader(memoryview(data), _ANY_EPOCH)
        if not batches or sum(batch.size for batch in batches) != len(data) or not batches[-1].is_control:
            return None
        *_, last = iter_records(batches[-1].records)
        is_whole = isinstance(decode_control_record(last.key or b"", last.value or b""), SnapshotFooterRecord)
    except (CorruptRecords, ProtocolError, ValueError):
        return None
    return batches if is_whole else None
