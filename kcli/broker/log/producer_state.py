"""Producers of a partition (KIP-98): their last batches, to detect duplicates, their transactions, and snapshots.

Kafka's ProducerStateManager. The `.snapshot` files are Kafka's ProducerSnapshot messages, version 1.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.log.producer_checks import (
    MAX_SEQUENCE,
    Duplicate,
    ProducerState,
    TransactionMarker,
    Verification,
    WrittenBatch,
    check_epoch,
    check_kind,
    check_marker,
    check_sequence,
    check_transaction,
    find_duplicate,
    is_in_transaction,
)
from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import BatchInfo
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.record import ABORT_MARKER, COMMIT_MARKER, control_type
from kcli.protocol.records.scan import iter_records
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files


class CompletedTransaction(NamedTuple):
    """A transaction that ended: the offset of its first record, and that of its commit or abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateManager:
    """Producers by id, and the snapshot files of the partition's directory.

    Batches below `end_offset` are included. With a snapshot, opening a log does not have to read all of it; without a
    valid one it does. `has_transactions`: a producer of the newest snapshot or of a later batch used transactions.
    """

    def __init__(self, tp: TopicPartition, directory: str, files: Files, *, expiration_ms: int = 86_400_000) -> None:
        self.tp = tp
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerState] = {}
        self.end_offset = 0
        self.has_transactions = False
        self._files = files
        self._open: dict[int, int] = {}  # producer by first offset of its open transaction, in order of the offsets
        self._verifications: dict[int, Verification] = {}  # by producer
        self._unreplicated: dict[int, int] = {}  # marker by first offset; markers above the high watermark only

    def __repr__(self) -> str:
        return f"<ProducerStateManager {self.tp} {len(self.producers)} producers up to {self.end_offset}>"

    def check(
        self, info: BatchInfo, given: Verification | None = None, *, from_client: bool = True
    ) -> Duplicate | None:
        """Check a batch. None: append it. `Duplicate`: it is already in the log; the response is a success.

        `given` is the verification of its transaction. `BrokerError` for a refusal: OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_PRODUCER_EPOCH, or INVALID_TXN_STATE. Not `from_client`: a coordinator's batch in a transaction of a
        client, which has no sequence numbers.
        """
        if not info.has_producer:
            return None
        state = self.producers.get(info.producer_id)
        if state is not None and self._is_next(info, state):
            return None
        if from_client and state is not None and (duplicate := find_duplicate(info, state)) is not None:
            return duplicate
        pending = self._verifications.get(info.producer_id) if self._verifications else None
        if info.is_transactional:
            check_transaction(info, state, pending, given)
        check_epoch(info.producer_id, info.producer_epoch, state)
        if from_client:
            check_sequence(info, state, pending)
        check_kind(info, state)
        return None

    def _is_next(self, info: BatchInfo, state: ProducerState) -> bool:
        """Return True for most batches: those that continue a producer without a transaction and a verification."""
        return (
            info.base_sequence == state.last_sequence + 1
            and info.producer_epoch == state.epoch
            and not (self._verifications or info.is_transactional or state.transaction_offset >= 0)
        )

    def check_marker(self, marker: TransactionMarker) -> None:
        """Check the epochs of a marker: INVALID_PRODUCER_EPOCH, or TRANSACTION_COORDINATOR_FENCED."""
        check_marker(marker, self.producers.get(marker.producer_id))

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, adds: bool, now_wall_ms: int
    ) -> Verification | None:
        """Begin to verify a producer's transaction, or join the verification that has begun.

        None if the log has the transaction already, so that nothing has to be verified. BrokerError
        INVALID_PRODUCER_EPOCH. See `Verification`.
        """
        state = self.producers.get(producer_id)
        check_epoch(producer_id, epoch, state)
        if is_in_transaction(state, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = Verification(epoch, sequence, adds=adds, created_ms=now_wall_ms)
            self._verifications[producer_id] = verification
        verification.include(epoch, sequence)
        return verification

    def update(self, info: BatchInfo) -> CompletedTransaction | None:
        """Add a batch that was appended, or read at the opening of the log (a control batch with all its bytes).

        Return the transaction that the batch ended, if it is the marker of one that has records.
        """
        self.end_offset = info.last_offset + 1
        if not info.has_producer:
            return None
        state = self.producers.setdefault(info.producer_id, ProducerState())
        if info.is_transactional:
            self.has_transactions = True
            if self._verifications:
                self._end_verification(info)
        if info.is_control:
            return self._end_transaction(info, state)
        if info.is_transactional and state.transaction_offset < 0:
            state.transaction_offset = info.base_offset
            self._open[info.base_offset] = info.producer_id
        _add_batch(state, info)
        return None

    def _end_verification(self, info: BatchInfo) -> None:
        """Forget the verification that this batch needed, or that this marker has overtaken.

        With an epoch per transaction, a marker of the verified epoch ended the previous transaction.
        """
        verification = self._verifications.get(info.producer_id)
        if verification is not None and not (
            info.is_control and verification.adds and info.producer_epoch == verification.epoch
        ):
            del self._verifications[info.producer_id]

    def _end_transaction(self, info: BatchInfo, state: ProducerState) -> CompletedTransaction | None:
        """Apply a commit or abort marker. An empty batch is the rest of a marker that was compacted."""
        state.set_epoch(info.producer_epoch)
        marker = next(iter_records(info.records), None)
        if marker is None or control_type(marker.key) not in (ABORT_MARKER, COMMIT_MARKER):
            return None
        if marker.value is not None and len(marker.value) >= 6:  # a version and the transaction coordinator's epoch
            state.coordinator_epoch = int.from_bytes(marker.value[2:6], "big", signed=True)
        state.last_timestamp_ms = marker.timestamp_ms
        first_offset, state.transaction_offset = state.transaction_offset, -1
        if self._open.pop(first_offset, None) is None:
            return None
        self._unreplicated[first_offset] = info.last_offset
        is_aborted = control_type(marker.key) == ABORT_MARKER
        return CompletedTransaction(info.producer_id, first_offset, info.last_offset, is_aborted)

    def has_as_last_batch(self, info: BatchInfo) -> bool:
        """Return whether a batch is the last one of a known producer: of its records, else of its markers."""
        state = self.producers.get(info.producer_id)
        if state is None:
            return False
        if state.batches:
            return state.batches[-1].last_offset == info.last_offset
        return info.is_control and state.epoch == info.producer_epoch

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open or whose marker is not below the high watermark.

        read_committed consumers cannot read beyond it.
        """
        offset = next(iter(self._open), None)
        if self._unreplicated:
            ended = min(self._unreplicated)
            return ended if offset is None else min(ended, offset)
        return offset

    def on_high_watermark(self, offset: int) -> None:
        """Release the ended transactions whose markers are below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {first: marker for first, marker in self._unreplicated.items() if marker >= offset}

    def remove_expired(self, now_wall_ms: int) -> None:
        """Remove producers without an open transaction that wrote nothing for `expiration_ms`."""
        expired = [
            producer_id
            for producer_id, state in self.producers.items()
            if state.transaction_offset < 0 and now_wall_ms - state.last_timestamp_ms >= self.expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_wall_ms - verification.created_ms >= self.expiration_ms:
                del self._verifications[producer_id]

    def load(
        self, log_start_offset: int, log_end_offset: int, now_wall_ms: int, snapshots: list[int] | None = None
    ) -> int:
        """Load the newest valid snapshot within the log. Damaged snapshots and those after the log's end are removed.

        One at the log's start has the producers whose records are all deleted. Kafka ignores it, and refuses their next
        batch after a crash with OUT_OF_ORDER_SEQUENCE_NUMBER.

        `snapshots` are the offsets of all snapshot files, if they are known already. Return the offset from which the
        caller must `update` with the log's batches: the snapshot's or the log start.
        """
        for offset in reversed(self.snapshots() if snapshots is None else snapshots):
            if log_start_offset <= offset <= log_end_offset:
                entries = self.read_snapshot(offset)
                if entries is None:
                    self.delete_snapshot(offset)
                    continue
                self._restore(entries, offset)
                self.remove_expired(now_wall_ms)
                return offset
            if offset > log_end_offset:
                self.delete_snapshot(offset)
        self._restore([], log_start_offset)
        return log_start_offset

    def at_or_before(self, offset: int) -> ProducerStateManager:
        """Return the producers at `offset`, or at the newest valid snapshot before it, or none at offset 0."""
        state = ProducerStateManager(self.tp, self.directory, self._files)
        for snapshot in reversed(self.snapshots()):
            entries = self.read_snapshot(snapshot) if snapshot <= offset else None
            if entries is not None:
                state._restore(entries, snapshot)
                break
        return state

    def read_snapshot(self, offset: int) -> list[ProducerEntry] | None:
        """Return the producers in the snapshot at `offset`; None if it is missing or damaged."""
        try:
            return decode_snapshot(self._files.read_bytes(self._path(offset)))
        except (FileNotFoundError, CorruptRecords):
            return None

    def _restore(self, entries: list[ProducerEntry], end_offset: int) -> None:
        self.producers = {entry.producer_id: _from_entry(entry) for entry in entries}
        self.end_offset = end_offset
        self.has_transactions = any(entry.used_transactions for entry in entries)
        starts = sorted((entry.transaction_offset, entry.producer_id) for entry in entries)
        self._open = {offset: producer_id for offset, producer_id in starts if offset >= 0}
        self._unreplicated = {}

    def take_snapshot(self) -> None:
        """Write `<end_offset>.snapshot` unless it exists: when a segment is rolled, and at a clean shutdown."""
        path = self._path(self.end_offset)
        if self.end_offset > 0 and not self._files.exists(path):
            entries = [_to_entry(producer_id, state) for producer_id, state in self.producers.items()]
            self._files.write_atomically(path, encode_snapshot(entries))

    def snapshots(self) -> list[int]:
        """Return the offsets of the snapshot files in increasing order."""
        return snapshot_offsets(self._files.list(self.directory))

    def delete_snapshots_before(self, offset: int) -> None:
        """Remove the snapshots below `offset`, after the deletion of the segments before it."""
        for snapshot in self.snapshots():
            if snapshot < offset:
                self.delete_snapshot(snapshot)

    def delete_snapshots_after(self, offset: int) -> None:
        """Remove the snapshots above `offset`, before the records from there on are truncated."""
        for snapshot in self.snapshots():
            if snapshot > offset:
                self.delete_snapshot(snapshot)

    def delete_stray_snapshots(self, base_offsets: Container[int]) -> None:
        """Remove snapshots, except the newest, that do not start a segment: each clean shutdown writes one."""
        for snapshot in self.snapshots()[:-1]:
            if snapshot not in base_offsets:
                self.delete_snapshot(snapshot)

    def _path(self, offset: int) -> str:
        return os.path.join(self.directory, f"{offset:020d}.snapshot")

    def delete_snapshot(self, offset: int) -> None:
        """Remove one snapshot, if it exists."""
        if self._files.exists(self._path(offset)):
            self._files.remove(self._path(offset))


def _add_batch(state: ProducerState, info: BatchInfo) -> None:
    state.set_epoch(info.producer_epoch)
    written = (info.base_sequence, info.last_sequence, info.base_offset, info.last_offset, info.max_timestamp_ms)
    state.batches.append(WrittenBatch(*written))
    state.last_timestamp_ms = info.max_timestamp_ms


def _to_entry(producer_id: int, state: ProducerState) -> ProducerEntry:
    last = state.batches[-1] if state.batches else None
    return ProducerEntry(
        producer_id,
        state.epoch,
        state.last_sequence,
        last.last_offset if last else -1,
        last.last_offset - last.base_offset if last else 0,
        state.last_timestamp_ms,
        state.coordinator_epoch,
        state.transaction_offset,
    )


def _from_entry(entry: ProducerEntry) -> ProducerState:
    state = ProducerState(entry.epoch, entry.timestamp_ms)
    state.coordinator_epoch = entry.coordinator_epoch
    state.transaction_offset = entry.transaction_offset
    if entry.last_offset >= 0:
        base_sequence = entry.last_sequence - entry.offset_delta
        if base_sequence < 0:  # the sequence numbers wrapped to 0 within the batch
            base_sequence += MAX_SEQUENCE + 1
        base_offset = entry.last_offset - entry.offset_delta
        written = (base_sequence, entry.last_sequence, base_offset, entry.last_offset, entry.timestamp_ms)
        state.batches.append(WrittenBatch(*written))
    return state


# ---- snapshot files ----

VERSION = 1
_SUFFIX = ".snapshot"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshots among the names of a directory, in increasing order."""
    stems = [name[: -len(_SUFFIX)] for name in names if name.endswith(_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


_HEADER = struct.Struct(">hIi")  # version, CRC-32C of everything after it, count
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")


class ProducerEntry(NamedTuple):
    """A producer and its last batch (-1: none). `offset_delta` is the last offset of the batch minus its first."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_offset: int

    @property
    def used_transactions(self) -> bool:
        """True if the producer has an open transaction or has ended one."""
        return self.coordinator_epoch >= 0 or self.transaction_offset >= 0


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Encode the contents of a snapshot file."""
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join([struct.pack(">i", len(rows)), *rows])
    return _HEADER.pack(VERSION, crc32c(body), len(rows))[:_CRC_FROM] + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decode the contents of a snapshot file. `CorruptRecords` for a damaged one."""
    if len(data) < _HEADER.size:
        raise CorruptRecords(f"a producer snapshot of {len(data)} bytes ends too early")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptRecords(f"a producer snapshot has the unknown version {version}")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        raise CorruptRecords("the checksum of a producer snapshot is wrong")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptRecords(f"a producer snapshot of {len(data)} bytes has a count of {count} producers")
    return [ProducerEntry(*row) for row in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]
