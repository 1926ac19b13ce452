"""One partition that this broker leads: its leader epoch, the checks of each access, and the high watermark.

The high watermark is the smallest log end offset of all in-sync replicas. Without followers it is the log end offset
after each append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.log.log import AppendInfo, Log, LogOffsetMetadata
    from kcli.broker.log.segment_index import AbortedTransaction
    from kcli.network.file_slice import FileSlice
    from kcli.protocol.primitives import Buffer

ANY_EPOCH = -1


class PartitionFetch(NamedTuple):
    """One partition of a Fetch request. Its topic has a name (until v12) or an id; an unknown epoch is -1."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = ANY_EPOCH
    last_fetched_epoch: int = ANY_EPOCH


class PartitionRead(NamedTuple):
    """The result of reading a partition. With an error, the offsets are -1.

    `start` is the position of the fetch offset in the log. `aborted` are the aborted transactions in the records, for a
    read_committed consumer. If the reader's log diverges from this one, `diverging` is
    the (epoch, end offset) up to which they agree (KIP-595).
    """

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileSlice | None = None
    start: LogOffsetMetadata | None = None
    diverging: tuple[int, int] | None = None
    aborted: Sequence[AbortedTransaction] = ()

    @property
    def size(self) -> int:
        """Size of the records in bytes."""
        return 0 if self.records is None else len(self.records)


class Partition:
    """A partition that this broker leads. `follower_ends`: log end offset by follower, empty on a single node."""

    def __init__(self, tp: TopicPartition, topic_id: UUID, log: Log) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.is_leader = True
        # Each new leader has a new epoch, so that readers can distinguish its records from earlier ones (KIP-101). The
        # epoch is stored with the first record appended in it; until then the next start computes the same number.
        self.leader_epoch = log.epochs.latest_epoch + 1
        self.follower_ends: dict[int, int] = {}
        self.advance_high_watermark()

    def __repr__(self) -> str:
        log = self.log
        offsets = f"{log.log_start_offset}..{log.high_watermark}..{log.log_end_offset}"
        return f"<Partition {self.tp} epoch={self.leader_epoch} {offsets}>"

    def append(self, records: Buffer, *, now_wall_ms: int, from_client: bool = True) -> AppendInfo:
        """Append one batch. BrokerError if it is refused, OSError if it cannot be written."""
        self.check_leader()
        info = self.log.append(
            records, leader_epoch=self.leader_epoch, now_wall_ms=now_wall_ms, from_client=from_client
        )
        self.advance_high_watermark()
        return info

    def advance_high_watermark(self) -> bool:
        """Advance to the smallest end offset of the in-sync replicas; False if nothing changes. It never decreases."""
        log = self.log
        common = min(log.log_end_offset, *self.follower_ends.values()) if self.follower_ends else log.log_end_offset
        if common <= log.high_watermark:
            return False
        log.advance_high_watermark(common)
        return True

    def delete_records(self, upto: int) -> int:
        """Delete the records below `upto` (-1: the high watermark), and return the new log start offset.

        BrokerError: 1 above the high watermark, 17 for an internal topic, 44 if the cleanup policy has no delete.
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
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, requested=upto)
        return log.delete_records(upto)

    def read(
        self, requested: PartitionFetch, max_bytes: int, *, read_committed: bool, min_one_message: bool
    ) -> PartitionRead:
        """Read from the requested offset up to the high watermark or last stable offset. Errors are in the result."""
        log = self.log
        try:
            self.check_epoch(requested.current_leader_epoch)
            self.check_leader()
            diverging = self._divergence(requested)
            if diverging is None:
                upto = log.last_stable_offset if read_committed else log.high_watermark
                data = log.read(requested.offset, max_bytes, upto=upto, min_one_message=min_one_message)
        except BrokerError as error:
            return PartitionRead(error.code)
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        if diverging is not None:
            return PartitionRead(ErrorCode.NONE, *offsets, diverging=diverging)
        # If the first batch exceeds the remaining bytes, return nothing, because a part of a batch is useless.
        records = data.records if min_one_message or not data.first_batch_only else None
        aborted: Sequence[AbortedTransaction] = ()
        if read_committed and records is not None:
            aborted = log.aborted_transactions(data.start, len(records))
        return PartitionRead(ErrorCode.NONE, *offsets, records, data.start, None, aborted)

    def bytes_to_read(self, requested: PartitionFetch, start: LogOffsetMetadata, *, read_committed: bool) -> int | None:
        """Return the number of bytes that a delayed fetch would get now; None if it must not wait any longer.

        It must not wait if it reads an older segment than the active one (which does not grow), or if reading would
        return an error or a divergence. Above the end for this reader, it waits only within the first batch after that
        end, as in Kafka since 3.8 (KAFKA-16452).
        """
        try:
            self.check_epoch(requested.current_leader_epoch)
            self.check_leader()
            if self._divergence(requested) is not None:
                return None
        except BrokerError:
            return None
        end = self._fetchable_end(read_committed)
        if start.offset == end.offset or start[1:] == end[1:]:
            return 0
        if start.offset > end.offset or start.segment_base_offset != end.segment_base_offset:
            return None
        return min(end.position - start.position, requested.max_bytes)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and its end offset; (-1, -1) if unknown (KIP-101)."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def check_leader(self) -> None:
        if not self.is_leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=self.tp)

    def check_epoch(self, epoch: int) -> None:
        """Check the leader epoch that the client knows, -1 if it sends none (KIP-320)."""
        if epoch in (ANY_EPOCH, self.leader_epoch):
            return
        older = epoch < self.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise BrokerError(code, partition=self.tp, requested=epoch, current=self.leader_epoch)

    def _divergence(self, requested: PartitionFetch) -> tuple[int, int] | None:
        epoch = requested.last_fetched_epoch
        if epoch < 0:
            return None
        common, end = self.end_offset_for_epoch(epoch)
        if common < 0 or end < 0:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, partition=self.tp, last_fetched_epoch=epoch)
        return (common, end) if common < epoch or end < requested.offset else None

    def _fetchable_end(self, read_committed: bool) -> LogOffsetMetadata:
        log = self.log
        offset = log.last_stable_offset if read_committed else log.high_watermark
        end = log.end_metadata
        return end if end.offset == offset else log.offset_metadata(offset)
