"""Decisions of log compaction: the cleanable range, the records of a batch to keep, the segments to merge. Pure.

Kafka's rules: https://kafka.apache.org/documentation/#compaction, KIP-534 for tombstones. A batch keeps its first and
last offset when records are removed from it, so offsets have gaps. The last batch of an idempotent producer is kept
even without records, because it carries the producer's last sequence number.

Records of aborted transactions are removed. A marker is kept as long as its transaction has batches, and then, like a
tombstone, for `delete.retention.ms`: a reader that already has the records needs it to know their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.segment_index import AbortedTransaction
from kcli.errors import RecordTooLarge
from kcli.protocol.records.batch import BatchInfo, Buffer
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.protocol.records.record import ABORT_MARKER, COMMIT_MARKER, NewRecord, control_type
from kcli.protocol.records.scan import iter_records
from kcli.settings import LONG_MAX, MAX_DECOMPRESSED_BYTES

_LONG_KEY_BYTES = 32
_MAX_OFFSET_SPAN = (1 << 31) - 1


class SegmentStats(NamedTuple):
    """The properties of a segment that cleaning depends on. Timestamps are -1 when absent or not needed."""

    base_offset: int
    size: int
    largest_timestamp_ms: int
    first_timestamp_ms: int = -1


class DirtySection(NamedTuple):
    """The cleanable offsets of a log, `start` to `end` (exclusive). `ratio`: dirty bytes divided by all bytes."""

    start: int
    end: int
    dirty_bytes: int
    ratio: float
    is_overdue: bool

    def is_due(self, config: LogConfig) -> bool:
        """Return whether the log should be cleaned now, by `min.cleanable.dirty.ratio` or `max.compaction.lag.ms`."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def find_dirty_section(
    segments: Sequence[SegmentStats],
    *,
    cleaned_up_to: int,
    log_start_offset: int,
    last_stable_offset: int,
    config: LogConfig,
    now_wall_ms: int,
) -> DirtySection:
    """Return the dirty part of a log. The last of `segments` is the active one, which is never cleaned.

    `cleaned_up_to` is the offset where the last cleaning ended; it is ignored when it is outside of the log.
    """
    active = segments[-1].base_offset
    start = cleaned_up_to if log_start_offset <= cleaned_up_to <= active else log_start_offset
    # Whole segments only: the outcome of transactions in the segment with the last stable offset may be unknown.
    end = max(
        (segment.base_offset for segment in segments if segment.base_offset <= last_stable_offset),
        default=log_start_offset,
    )
    next_offset = {segment.base_offset: following.base_offset for segment, following in pairwise(segments)}
    dirty = [
        segment for segment in segments[:-1] if next_offset[segment.base_offset] > start and segment.base_offset < end
    ]
    newest_ms = now_wall_ms - config.min_compaction_lag_ms
    if config.min_compaction_lag_ms > 0:
        end = min([end, *(segment.base_offset for segment in dirty if segment.largest_timestamp_ms > newest_ms)])
        dirty = [segment for segment in dirty if segment.base_offset < end]
    clean_bytes = sum(segment.size for segment in segments[:-1] if next_offset[segment.base_offset] <= start)
    dirty_bytes = sum(segment.size for segment in dirty)
    oldest_ms = min(
        (segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms >= 0), default=now_wall_ms
    )
    overdue = now_wall_ms - oldest_ms > config.max_compaction_lag_ms
    total = clean_bytes + dirty_bytes
    return DirtySection(start, max(start, end), dirty_bytes, dirty_bytes / total if total else 0.0, overdue)


def group_segments(segments: Sequence[SegmentStats], max_bytes: int) -> list[range]:
    """Return runs of segments that can be merged into one, as ranges of indices; each is at most `max_bytes` large."""
    groups = []
    first = size = 0
    for index, segment in enumerate(segments):
        end = segments[index + 1].base_offset if index + 1 < len(segments) else segment.base_offset
        too_wide = end - segments[first].base_offset > _MAX_OFFSET_SPAN
        if index > first and (size + segment.size > max_bytes or too_wide):
            groups.append(range(first, index))
            first, size = index, 0
        size += segment.size
    return [*groups, range(first, len(segments))] if segments else []


class LatestOffsets:
    """The last offset of each key in the dirty part, up to `end` (exclusive); at most `max_keys` keys."""

    def __init__(self, max_keys: int) -> None:
        self.end = -1
        self._max_keys = max_keys
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._max_keys

    def add(self, info: BatchInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        """Add all records of a batch. One that decompresses to more than `max_bytes` supersedes no record."""
        with suppress(RecordTooLarge):
            for record in iter_records(info.records, max_bytes):
                if record.key is not None:
                    self._offsets[_short(record.key)] = record.offset
        self.end = info.last_offset + 1

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Return whether no record after `offset` has this key."""
        return offset >= self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    if len(key) <= _LONG_KEY_BYTES:
        return key
    from hashlib import blake2b  # slow to import, and few topics have such keys

    return blake2b(key, digest_size=_LONG_KEY_BYTES).digest()


class CleanedTransactions:
    """The transactions of the batches that a cleaning reads, in the order of the log.

    `aborted` are the aborted transactions whose records are in this part of the log. `retained` are those whose records
    were removed but whose markers remain; they make up the index of the cleaned segment.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.retained: list[AbortedTransaction] = []
        self._later = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()  # the producers whose current transaction has batches

    def is_removable(self, info: BatchInfo) -> bool:
        """Return whether a batch has only records of an aborted transaction, or a marker without its transaction.

        Call it once for each batch.
        """
        while self._later and self._later[-1].first_offset <= info.last_offset:
            transaction = self._later.pop()
            self._aborted[transaction.producer_id] = transaction
        if info.is_control:
            return self._ends_without_batches(info)
        if not info.is_transactional:
            return False
        self._with_batches.add(info.producer_id)
        return info.producer_id in self._aborted

    def _ends_without_batches(self, info: BatchInfo) -> bool:
        marker = next(iter_records(info.records), None)
        if marker is None:
            return True
        if control_type(marker.key) not in (ABORT_MARKER, COMMIT_MARKER):
            return False
        has_batches = info.producer_id in self._with_batches
        self._with_batches.discard(info.producer_id)
        aborted = self._aborted.pop(info.producer_id, None)
        if aborted is not None and has_batches:
            self.retained.append(aborted)
        return not has_batches


def filter_batch(
    info: BatchInfo,
    latest: LatestOffsets,
    *,
    is_removable: bool = False,
    is_producers_last: bool,
    delete_retention_ms: int,
    now_wall_ms: int,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Buffer | None:
    """Return the batch without superseded records: the same bytes, a new batch, or None when no record is kept.

    The first cleaning that finds a tombstone, or a marker that is removable, sets a delete horizon in its batch,
    `delete_retention_ms` from now; a cleaning after that time removes it. `is_removable`: see `CleanedTransactions`.
    `is_producers_last`: the batch is the last one of a known producer. A batch that decompresses to more than
    `max_bytes` is kept as it is, unless it is removed as a whole.
    """
    horizon_ms = info.delete_horizon_ms
    is_before_horizon = horizon_ms is None or now_wall_ms < horizon_ms
    try:
        records = list(iter_records(info.records, max_bytes))
    except RecordTooLarge:
        return None if is_removable and not is_producers_last else info.records
    if info.is_control:
        kept = records if not is_removable or is_before_horizon else []
        needs_horizon = is_removable and bool(kept)
    elif is_removable:
        kept, needs_horizon = [], False
    else:
        kept = [
            record
            for record in records
            if record.offset >= latest.end
            or (
                record.key is not None
                and (record.value is not None or is_before_horizon)
                and latest.is_latest(record.key, record.offset)
            )
        ]
        needs_horizon = any(record.value is None for record in kept)
    if horizon_ms is None and needs_horizon:
        horizon_ms = min(now_wall_ms + delete_retention_ms, LONG_MAX)
    if not kept:
        if not is_producers_last:
            return None
        horizon_ms = None
    if len(kept) == len(records) and horizon_ms == info.delete_horizon_ms:
        return info.records
    recompute_max = bool(kept) and not info.is_append_time
    return build_batch(
        [NewRecord(record.key, record.value, record.timestamp_ms, record.headers) for record in kept],
        compression=CODEC_NAMES[info.codec if kept else 0],
        base_offset=info.base_offset,
        offset_deltas=[record.offset - info.base_offset for record in kept],
        last_offset_delta=info.last_offset - info.base_offset,
        leader_epoch=info.leader_epoch,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
        transactional=info.is_transactional,
        control=info.is_control,
        timestamp_type="append" if info.is_append_time else "create",
        max_timestamp_ms=None if recompute_max else info.max_timestamp_ms,
        delete_horizon_ms=horizon_ms,
    )
