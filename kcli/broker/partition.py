"""One partition as this broker leads it: who may write and read, how far, and under which leader epoch.

Around a `Log`, this is where replicas have their place: the high watermark is what every in-sync replica has, and with
no follower that is the log's end after each append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.log.log import AppendInfo, Log, LogOffsetMetadata
    from kcli.network.file_slice import FileSlice
    from kcli.protocol.primitives import Buffer

ANY_EPOCH = -1


class PartitionFetch(NamedTuple):
    """What a Fetch asks of one partition. Its topic has a name (until v12) or an id; epochs are -1 when not told."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = ANY_EPOCH
    last_fetched_epoch: int = ANY_EPOCH


class PartitionRead(NamedTuple):
    """What reading a partition gave. With an error, the offsets are -1.

    `start` is where the fetch offset lies in the log; `diverging` the (epoch, end offset) up to which the reader's log
    and ours agree (KIP-595), when they do not.
    """

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileSlice | None = None
    start: LogOffsetMetadata | None = None
    diverging: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Bytes of records."""
        return 0 if self.records is None else len(self.records)


class Partition:
    """A partition that this broker leads. `follower_ends`: log end by follower, none while there is one node."""

    def __init__(self, tp: TopicPartition, topic_id: UUID, log: Log) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.is_leader = True
        # A new leader has a new epoch, so that readers can tell its records from those of the one before (KIP-101).
        # It is stored with the first record appended under it; until then the next start comes to the same number.
        self.leader_epoch = log.epochs.latest_epoch + 1
        self.follower_ends: dict[int, int] = {}
        self.advance_high_watermark()

    def __repr__(self) -> str:
        log = self.log
        offsets = f"{log.log_start_offset}..{log.high_watermark}..{log.log_end_offset}"
        return f"<Partition {self.tp} epoch={self.leader_epoch} {offsets}>"

    def append(self, records: Buffer, *, now_wall_ms: int, from_client: bool = True) -> AppendInfo:
        """Write one batch. `BrokerError` when it is refused, `OSError` when it could not be written."""
        self.check_leader()
        info = self.log.append(
            records, leader_epoch=self.leader_epoch, now_wall_ms=now_wall_ms, from_client=from_client
        )
        self.advance_high_watermark()
        return info

    def advance_high_watermark(self) -> bool:
        """Move it to what all in-sync replicas have; False when it is there already. It never goes back."""
        log = self.log
        common = min(log.log_end_offset, *self.follower_ends.values()) if self.follower_ends else log.log_end_offset
        if common <= log.high_watermark:
            return False
        log.advance_high_watermark(common)
        return True

    def delete_records(self, upto: int) -> int:
        """Delete the records below `upto`, -1 for the high watermark; the first offset there is then.

        `BrokerError`: 1 beyond the high watermark, 17 for an internal topic, 44 where the policy is not to delete.
        """
        self.check_leader()
        log = self.log
        if self.tp.topic in INTERNAL_TOPICS:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, partition=self.tp)
        if "delete" not in log.config.cleanup_policy:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, partition=self.tp)
        if upto == -1:
            upto = log.high_watermark
        if not 0 <= upto <= log.high_watermark:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, asked=upto)
        return log.delete_records(upto)

    def read(
        self, wanted: PartitionFetch, max_bytes: int, *, read_committed: bool, min_one_message: bool
    ) -> PartitionRead:
        """Records from `wanted.offset` on, below the high watermark or the last stable offset; its errors are rows."""
        log = self.log
        try:
            self.check_epoch(wanted.current_leader_epoch)
            self.check_leader()
            diverging = self._divergence(wanted)
            if diverging is None:
                upto = log.last_stable_offset if read_committed else log.high_watermark
                found = log.read(wanted.offset, max_bytes, upto=upto, min_one_message=min_one_message)
        except BrokerError as refusal:
            return PartitionRead(refusal.code)
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        if diverging is not None:
            return PartitionRead(ErrorCode.NONE, *offsets, diverging=diverging)
        # The first batch may not fit what is left for this partition: a part of it would be of no use.
        records = found.records if min_one_message or not found.first_batch_only else None
        return PartitionRead(ErrorCode.NONE, *offsets, records, found.start)

    def bytes_to_read(self, wanted: PartitionFetch, start: LogOffsetMetadata, *, read_committed: bool) -> int | None:
        """How many bytes a parked fetch would get now; None when it should not wait for more.

        It should not when it reads an older segment than the newest (no more comes there), when the log was cut below
        it, or when reading would give an error or a divergence.
        """
        try:
            self.check_epoch(wanted.current_leader_epoch)
            self.check_leader()
            if self._divergence(wanted) is not None:
                return None
        except BrokerError:
            return None
        end = self._fetchable_end(read_committed)
        if start.offset == end.offset:
            return 0
        if start.offset > end.offset or start.segment_base_offset != end.segment_base_offset:
            return None
        return min(end.position - start.position, wanted.max_bytes)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch`, and where it ends; (-1, -1) when that is not known (KIP-101)."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def check_leader(self) -> None:
        if not self.is_leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=self.tp)

    def check_epoch(self, epoch: int) -> None:
        """`epoch` is the leader epoch that the client believes in, -1 when it does not say (KIP-320)."""
        if epoch in (ANY_EPOCH, self.leader_epoch):
            return
        older = epoch < self.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise BrokerError(code, partition=self.tp, theirs=epoch, ours=self.leader_epoch)

    def _divergence(self, wanted: PartitionFetch) -> tuple[int, int] | None:
        epoch = wanted.last_fetched_epoch
        if epoch < 0:
            return None
        common, end = self.end_offset_for_epoch(epoch)
        if common < 0 or end < 0:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, last_fetched_epoch=epoch)
        return (common, end) if common < epoch or end < wanted.offset else None

    def _fetchable_end(self, read_committed: bool) -> LogOffsetMetadata:
        log = self.log
        offset = log.last_stable_offset if read_committed else log.high_watermark
        end = log.end_metadata
        return end if end.offset == offset else log.offset_metadata(offset)
