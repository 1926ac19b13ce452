"""MetadataLog: __cluster_metadata-0 on disk, with its snapshots, in Kafka's own formats (KIP-595, KIP-630, KIP-853).

A controller's data directory has, as in Kafka: `bootstrap.checkpoint` with the first records of a new cluster; and the
log's directory with segments, `quorum-state`, `leader-epoch-checkpoint`, `partition.metadata`, and its snapshots in
files `<end offset>-<epoch>.checkpoint`. The snapshot `0-0` names the voters of a new cluster; it is never replicated.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from kcli.broker.data_dir import KAFKA_METADATA_LOG, uuid_text, write_topic_id
from kcli.broker.files import Files, LogFile
from kcli.broker.log.file_records import LogDamage, has_valid_checksum, iter_batches, next_valid_batch
from kcli.broker.log.log import Log
from kcli.broker.log.log_config import LogConfig
from kcli.errors import ConfigError, CorruptRecords, ProtocolError
from kcli.network.file_slice import FileSlice
from kcli.protocol.metadata_records import (
    CONTROL_TYPES,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    decode_control_record,
    decode_record,
    encode_control_record,
    encode_record,
)
from kcli.protocol.records.batch import read_batch_info, walk_batches
from kcli.protocol.records.builder import build_batch
from kcli.protocol.records.record import NewRecord
from kcli.protocol.records.scan import read_pairs
from kcli.structs import TopicPartition

BOOTSTRAP = "bootstrap.checkpoint"
QUORUM_STATE = "quorum-state"

_SEGMENT = re.compile(r"\d{20}\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_KEPT_SNAPSHOTS = 2
#: Kafka refuses batches above 8 MiB; the largest records have some hundred bytes.
MAX_BATCH_RECORDS = 10_000
_READ_BYTES = 1 << 20
_NO_LIMIT = 2**31 - 1
_YEARS_MS = 10**15
_MAX_EPOCH = 2**31 - 1

Apply = Callable[[Any, int], None]


def has_records(data_dir: str, files: Files) -> bool:
    """Return True if a data directory has a metadata log with records. OSError if it cannot be read."""
    directory = os.path.join(data_dir, KAFKA_METADATA_LOG)
    names = files.list(directory) if files.exists(directory) else []
    snapshots = filter(None, map(_SNAPSHOT.fullmatch, names))
    segments = [os.path.join(directory, name) for name in names if name.endswith(".log")]
    return any(int(match[1]) for match in snapshots) or any(map(files.size, segments))


class SnapshotId(NamedTuple):
    """A snapshot stands for all records below `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


_BOOTSTRAP_ID = SnapshotId(0, 0)


class Divergence(NamedTuple):
    """The largest epoch that the log has in common with a replica, and its end offset; the replica truncates there."""

    epoch: int
    end_offset: int


class MetadataLog:
    """The log of a controller, which is its only voter: what is appended is committed."""

    def __init__(self, data_dir: str, files: Files, *, now_wall_ms: int, report: Callable[[str], None]) -> None:
        """Open the log, and create it in a new directory. Every problem is reported as a sentence.

        After a crash, incomplete batches at its end are removed. OSError, ConfigError or CorruptRecords if it cannot
        be read. CorruptRecords, too, for damage before other records: without them the nodes would delete topics.
        """
        self.data_dir = data_dir
        self.directory = os.path.join(data_dir, KAFKA_METADATA_LOG)
        self._files = files
        self._refuse_damage()
        self._log = Log.open(
            self.directory,
            TopicPartition(METADATA_TOPIC, 0),
            METADATA_TOPIC_ID,
            LogConfig(max_message_bytes=_NO_LIMIT, retention_ms=-1, segment_ms=_YEARS_MS, flush_ms=_YEARS_MS),
            files,
            clean=False,
            now_wall_ms=now_wall_ms,
            report=report,
        )
        write_topic_id(files, self.directory, METADATA_TOPIC_ID)
        self.snapshots = self._find_snapshots()
        newest = self.latest_snapshot
        if newest is not None and newest.end_offset > self.end_offset:
            report(
                f"{self.directory} ends at offset {self.end_offset}, before its snapshot {newest.file_name}: the log "
                "begins again at the snapshot's end"
            )
            self._log.restart_at(newest.end_offset, now_wall_ms=now_wall_ms)
            self.snapshots = [newest]
        if self._log.log_start_offset > 0 and newest is None:
            raise ConfigError(f"{self.directory} begins at offset {self._log.log_start_offset} and has no snapshot")
        self._log.advance_high_watermark(self.end_offset)

    def __repr__(self) -> str:
        offsets = f"{self.start_offset}..{self.end_offset}"
        return f"<MetadataLog {offsets} epoch={self.last_epoch} {len(self.snapshots)} snapshots>"

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record; the high watermark, too."""
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 if there is none."""
        newest = self.latest_snapshot
        return max(self._log.epochs.latest_epoch, newest.epoch if newest else 0, 0)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that replicas may read."""
        return self.snapshots[-1] if self.snapshots else None

    def _refuse_damage(self) -> None:
        """Raise CorruptRecords if records follow a damaged batch, before a recovery removes them."""
        names = self._files.list(self.directory) if self._files.exists(self.directory) else []
        with ExitStack() as stack:
            files = []
            for name in sorted(filter(_SEGMENT.fullmatch, names)):
                files.append(self._files.open(os.path.join(self.directory, name)))
                stack.callback(files[-1].close)
            while files and not files[-1].size:
                files.pop()
            for file in files:
                damage = _damage_before_records(file, is_last=file is files[-1])
                if damage is not None:
                    raise CorruptRecords(
                        f"{file.path} is damaged {damage}; records after the damage can still be read, so nothing was "
                        "changed: restore the file from a copy"
                    )

    def _find_snapshots(self) -> list[SnapshotId]:
        matches = filter(None, map(_SNAPSHOT.fullmatch, self._files.list(self.directory)))
        found = (SnapshotId(int(match[1]), int(match[2])) for match in matches)
        return sorted(snapshot for snapshot in found if snapshot != _BOOTSTRAP_ID)

    # ---- a new cluster, and a new leader ----

    def write_bootstrap(self, records: Sequence[Any], voters: Sequence[Any], now_wall_ms: int) -> None:
        """Write the checkpoints of a new cluster: its first records, and in `0-0` the control records of its voters."""
        first = os.path.join(self.data_dir, BOOTSTRAP)
        self._files.write_atomically(first, encode_snapshot((), records, 0, now_wall_ms))
        quorum = os.path.join(self.directory, _BOOTSTRAP_ID.file_name)
        self._files.write_atomically(quorum, encode_snapshot(voters, (), 0, now_wall_ms))

    def read_bootstrap(self) -> list[Any]:
        """Return the first records of a new cluster that a tool has formatted, such as its users; [] without them."""
        path = os.path.join(self.data_dir, BOOTSTRAP)
        if not self._files.exists(path):
            return []
        decoded = _decode(_whole_batches(self._files.read_bytes(path), path))
        return [record for record, _ in decoded if type(record) not in CONTROL_TYPES]

    def begin_epoch(self, node_id: int) -> int:
        """Elect the only voter: write the next epoch to quorum-state, and return it."""
        path = os.path.join(self.directory, QUORUM_STATE)
        stored = _read_epoch(self._files.read_bytes(path), path) if self._files.exists(path) else 0
        epoch = max(stored, self.last_epoch) + 1
        state = {
            "leaderId": node_id,
            "leaderEpoch": epoch,
            "votedId": -1,
            "votedDirectoryId": uuid_text(UUID(int=0)),
            "data_version": 1,
        }
        self._files.write_atomically(path, json.dumps(state, separators=(",", ":")).encode())
        return epoch

    # ---- appending and replaying ----

    def append(self, records: Sequence[Any], epoch: int, now_wall_ms: int) -> int:
        """Append metadata records, or control records; return the offset of the first.

        Up to MAX_BATCH_RECORDS are one batch: all of them are in the log, or none. The caller puts more of them into a
        transaction. They are on the disk when this returns. OSError if they cannot be written, with EIO if they are in
        the log nevertheless, all or a part of them.
        """
        is_control = type(records[0]) in CONTROL_TYPES
        first_offset = self.end_offset
        self._log.active_segment.establish()  # so that a lack of descriptors is found before anything is appended
        for start in range(0, len(records), MAX_BATCH_RECORDS):
            rows = _rows(records[start : start + MAX_BATCH_RECORDS], now_wall_ms)
            data = bytearray(build_batch(rows, control=is_control))
            try:
                self._log.append(data, leader_epoch=epoch, now_wall_ms=now_wall_ms, from_client=False)
            except OSError as error:
                raise error if not start else OSError(errno.EIO, error.strerror, self.directory) from error
        try:
            self._log.flush()
            if self._log.active_segment.base_offset >= first_offset:  # its file is new
                self._files.sync_dir(self.directory)
        except OSError as error:
            raise OSError(errno.EIO, error.strerror, self.directory) from error
        self._log.advance_high_watermark(self.end_offset)
        return first_offset

    def replay(self, apply: Apply) -> bool:
        """Call `apply(record, offset)` with the records of the newest snapshot, then with those of the log after it.

        Control records are among them. Records of a transaction that was not ended, or was aborted, are left out.
        Return True if the log ends in a transaction: the leader must abort it before it appends others.
        """
        newest = self.latest_snapshot
        if newest is not None:
            path = os.path.join(self.directory, newest.file_name)
            record = None
            for record, _ in _decode(_whole_batches(self._files.read_bytes(path), path)):
                apply(record, newest.end_offset - 1)
            if not isinstance(record, SnapshotFooterRecord):
                raise CorruptRecords(f"{path} is damaged: its last records are missing; restore it from a copy")
        open_records: list[tuple[Any, int]] | None = None
        for record, offset in _decode(self._batches(newest.end_offset if newest else 0)):
            if isinstance(record, BeginTransactionRecord):
                open_records = []
            elif open_records is not None and isinstance(record, AbortTransactionRecord):
                open_records = None
                apply(record, offset)
            elif open_records is not None and isinstance(record, EndTransactionRecord):
                for pair in open_records:
                    apply(*pair)
                open_records = None
                apply(record, offset)
            elif open_records is not None:
                open_records.append((record, offset))
            else:
                apply(record, offset)
        return open_records is not None

    def _batches(self, offset: int) -> Iterator[memoryview]:
        while offset < self.end_offset:
            records = self._log.read(offset, _READ_BYTES, upto=self.end_offset, min_one_message=True).records
            section = memoryview(bytes(records) if records else b"")
            walk = walk_batches(section, 0, len(section))
            if not walk.starts:
                raise CorruptRecords(f"{self.directory} cannot be read at offset {offset}")
            for start, end in zip(walk.starts, walk.ends, strict=True):
                if read_batch_info(section, start).last_offset >= offset:
                    yield section[start:end]
            offset = read_batch_info(section, walk.starts[-1]).last_offset + 1

    # ---- reading by replicas ----

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Return batches from `offset` on, at least one; None at the end of the log."""
        return self._log.read(offset, max_bytes, upto=self.end_offset, min_one_message=True).records

    def check(self, offset: int, epoch: int) -> SnapshotId | Divergence | None:
        """Compare with the end of a replica's log; None: it may go on. Otherwise what it must do first."""
        newest = self.latest_snapshot
        if offset == 0 and newest is not None:
            return newest
        if offset == 0 and self.start_offset == 0:
            return None
        if newest is not None and (
            offset < self.start_offset
            or epoch < self.snapshots[0].epoch
            or (offset == self.start_offset and epoch != self.snapshots[0].epoch)
        ):
            return newest
        own_epoch, end_offset = self._log.end_offset_for_epoch(epoch)
        if own_epoch < 0:
            own_epoch, end_offset = (newest.epoch, newest.end_offset) if newest else (0, 0)
        return None if own_epoch == epoch and end_offset >= offset else Divergence(own_epoch, end_offset)

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[FileSlice, int] | None:
        """Return a section of a snapshot's file and the file's size; None if there is no such snapshot."""
        if snapshot not in self.snapshots:
            return None
        file = self._files.open(os.path.join(self.directory, snapshot.file_name))
        length = max(min(max_bytes, file.size - position), 0)
        return FileSlice(file, position, length), file.size

    # ---- snapshots ----

    @property
    def bytes_since_snapshot(self) -> int:
        """The size of the records that are in no snapshot, about: whole segments."""
        newest = self.latest_snapshot
        start = newest.end_offset if newest else 0
        return sum(segment.size for segment in self._log.segments if segment.base_offset >= start)

    def write_snapshot(self, control: Sequence[Any], records: Iterable[Any], now_wall_ms: int) -> SnapshotId | None:
        """Write a snapshot of all records up to now, and remove segments and snapshots before the last two.

        `control` are the control records of the quorum. None if the newest snapshot stands for the same records.
        """
        snapshot = SnapshotId(self.end_offset, self.last_epoch)
        if self.snapshots[-1:] == [snapshot]:
            return None
        path = os.path.join(self.directory, snapshot.file_name)
        self._files.write_atomically(path, encode_snapshot(control, records, snapshot.epoch, now_wall_ms))
        self.snapshots.append(snapshot)
        self._log.roll(now_wall_ms)
        while len(self.snapshots) > _KEPT_SNAPSHOTS:
            old = self.snapshots.pop(0)
            self._files.remove(os.path.join(self.directory, old.file_name))
        if len(self.snapshots) == _KEPT_SNAPSHOTS:
            self._log.delete_records(self.snapshots[0].end_offset)
        return snapshot

    def close(self, *, clean: bool = True) -> None:
        """Close the files; `clean` False: as a crash would leave them."""
        self._log.close(clean=clean)


def encode_snapshot(control: Sequence[Any], records: Iterable[Any], epoch: int, now_wall_ms: int) -> bytes:
    """Encode a snapshot: its header, control records, metadata records in batches, and its footer."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=now_wall_ms)
    rest, parts, offset = iter(records), [], 0
    groups: list[Sequence[Any]] = [[header, *control]]
    while group := (groups.pop() if groups else list(islice(rest, MAX_BATCH_RECORDS))):
        parts.append(_snapshot_batch(group, offset, epoch, now_wall_ms))
        offset += len(group)
    parts.append(_snapshot_batch([SnapshotFooterRecord()], offset, epoch, now_wall_ms))
    return b"".join(parts)


def _snapshot_batch(records: Sequence[Any], offset: int, epoch: int, now_wall_ms: int) -> bytes:
    is_control = type(records[0]) in CONTROL_TYPES
    return build_batch(_rows(records, now_wall_ms), base_offset=offset, leader_epoch=epoch, control=is_control)


def _rows(records: Sequence[Any], now_wall_ms: int) -> list[NewRecord]:
    if type(records[0]) in CONTROL_TYPES:
        return [NewRecord(*encode_control_record(record), now_wall_ms) for record in records]
    return [NewRecord(None, encode_record(record), now_wall_ms) for record in records]


def _whole_batches(data: bytes, path: str) -> Iterator[memoryview]:
    """Yield the batches of a snapshot's file. CorruptRecords if one is damaged or incomplete."""
    view = memoryview(data)
    walk = walk_batches(view, 0, len(view))
    if walk.stopped_at != len(view):
        raise CorruptRecords(f"{path} is damaged at byte {walk.stopped_at}")
    for start, end in zip(walk.starts, walk.ends, strict=True):
        if not has_valid_checksum(read_batch_info(view[start:end])):
            raise CorruptRecords(f"{path} is damaged at byte {start}: the checksum is wrong")
        yield view[start:end]


def _decode(batches: Iterable[memoryview]) -> Iterator[tuple[Any, int]]:
    """Yield the records of batches with their offsets; control records of unknown types are left out."""
    for data in batches:
        info = read_batch_info(data)
        for delta, key, value in read_pairs(data):
            offset = info.base_offset + delta
            if info.is_control:
                decoded = decode_control_record(key or b"", value or b"")
            elif value is None:
                raise ProtocolError(f"the metadata record at offset {offset} has no value")
            else:
                decoded = decode_record(value)
            if decoded is not None:
                yield decoded, offset


def _damage_before_records(file: LogFile, *, is_last: bool) -> LogDamage | None:
    """Return the first damage of a segment if whole batches follow it; in a segment before others: any damage."""
    position = next_offset = 0
    try:
        for position, info in iter_batches(file, 0, file.size, bodies=True):
            if not has_valid_checksum(info):
                raise LogDamage(position, f"the checksum of the batch at offset {info.base_offset} is wrong")
            next_offset = info.last_offset + 1
    except LogDamage as damage:
        if not is_last or next_valid_batch(file, damage.position, file.size, next_offset) is not None:
            return damage
    return None


def _read_epoch(data: bytes, path: str) -> int:
    try:
        epoch = json.loads(data)["leaderEpoch"]
        if type(epoch) is int and 0 <= epoch < _MAX_EPOCH:
            return epoch
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ConfigError(
        f"{path} is not JSON with a valid leaderEpoch; restore it, or remove it if the log next to it is complete"
    )
