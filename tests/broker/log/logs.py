"""Helpers for log tests: logs on disk or in memory, and batches whose values name their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kcli.broker.files import DiskFiles, Files
from kcli.broker.log.file_records import iter_batches
from kcli.broker.log.log import AppendInfo, Log, StoredOffsets
from kcli.broker.log.log_config import LogConfig
from kcli.broker.log.producer_checks import NOT_VERIFIED
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.record import Record
from kcli.protocol.records.scan import iter_records
from kcli.structs import TopicPartition

TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
NOW = 1_700_000_000_000


def batch(
    *values: bytes, time_ms: int = NOW, times_ms: Sequence[int] | None = None, key: bytes | None = None, **options: Any
) -> bytearray:
    """Return a batch as a producer sends it, with base offset 0."""
    times = times_ms if times_ms is not None else [time_ms] * len(values)
    rows = [NewRecord(key, value, stamp) for value, stamp in zip(values, times, strict=True)]
    return bytearray(build_batch(rows, **options))


@dataclass
class Keeper:
    """Opens the log of one partition repeatedly; `reports` are those of the last opening."""

    directory: str
    files: Files = field(default_factory=DiskFiles)
    reports: list[str] = field(default_factory=list)

    def open(
        self,
        *,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_replica: bool = False,
        **config: Any,
    ) -> Log:
        self.reports.clear()
        log = Log.open(
            self.directory, TP, TOPIC_ID, LogConfig(**config), self.files,
            stored=StoredOffsets(recovery_point, log_start_offset),
            clean=clean, now_wall_ms=NOW, report=self.reports.append,
            is_replica=is_replica,
        )  # fmt: skip
        log.advance_high_watermark(log.log_end_offset)
        return log

    @property
    def path(self) -> Path:
        return Path(self.directory)

    def file(self, base_offset: int, kind: str = ".log") -> Path:
        return self.path / f"{base_offset:020d}{kind}"

    @property
    def names(self) -> list[str]:
        return self.files.list(self.directory)

    def reported(self, text: str) -> bool:
        """True if a report contains this text."""
        return any(text in report for report in self.reports)


def append(log: Log, *values: bytes, now_wall_ms: int = NOW, leader_epoch: int = 0, **options: Any) -> AppendInfo:
    """Append one batch and move the high watermark to its end."""
    info = log.append(batch(*values, **options), leader_epoch=leader_epoch, now_wall_ms=now_wall_ms)
    log.advance_high_watermark(log.log_end_offset)
    return info


def fill(log: Log, count: int, *, size: int = 100, start: int = 0, time_step_ms: int = 0) -> list[bytes]:
    """Append `count` batches of one record each; return their values."""
    values = [b"%d:" % number + b"x" * size for number in range(start, start + count)]
    for number, value in enumerate(values):
        append(log, value, time_ms=NOW + number * time_step_ms)
    return values


def scan(log: Log, offset: int | None = None, max_bytes: int = 10_000) -> Iterator[Record]:
    """Yield all records as a consumer reads them, in several fetches."""
    at = log.log_start_offset if offset is None else offset
    while at < log.high_watermark:
        records = log.read(at, max_bytes, upto=log.high_watermark, min_one_message=True).records
        if records is None:
            return
        whole = 0
        for info in whole_batches(bytes(records)):
            whole += 1
            yield from (record for record in iter_records(info.records) if record.offset >= at)
            at = info.last_offset + 1
        assert whole, "no progress"


def values(log: Log, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in scan(log, offset)]


def whole_batches(data: bytes) -> list[Any]:
    """Return the complete batches of a fetched section."""
    from kcli.protocol.records.batch import walk_batches

    found = walk_batches(data, 0, len(data))
    end = found.ends[-1] if found.ends else 0
    return [info for _, info in iter_batches(_Bytes(data), 0, end, bodies=True)]


class _Bytes:
    """Bytes as a file for `iter_batches`."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


class Transactions:
    """Writes transactions to a log as a broker does, and knows which records are stable and not aborted."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.aborted: list[tuple[int, int]] = []  # producer and first offset, in the order of the markers
        self._open: dict[int, tuple[int, list[int]]] = {}
        self._hidden: set[int] = set()
        self._sequences: dict[int, int] = {}

    def write(self, producer: int | None, *records: bytes, key: bytes | None = None) -> None:
        """Append a batch of this producer's transaction; None: a batch without a producer."""
        options: dict[str, Any] = {}
        if producer is not None:
            sequence = self._sequences.get(producer, 0)
            self._sequences[producer] = sequence + len(records)
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        info = self._append(batch(*records, key=key, **options))
        if producer is not None:
            _, offsets = self._open.setdefault(producer, (info.base_offset, []))
            offsets += range(info.base_offset, info.last_offset + 1)

    def end(self, producer: int, *, commit: bool) -> None:
        """Append a commit or abort marker."""
        self._append(marker(producer, commit=commit))
        first_offset, offsets = self._open.pop(producer, (-1, []))
        if not commit and offsets:
            self.aborted.append((producer, first_offset))
            self._hidden.update(offsets)

    def _append(self, data: bytearray) -> AppendInfo:
        info = self.log.append(data, leader_epoch=0, now_wall_ms=NOW, from_client=False, verification=NOT_VERIFIED)
        self.log.advance_high_watermark(self.log.log_end_offset)
        return info

    @property
    def stable_offset(self) -> int:
        return min([first for first, _ in self._open.values()], default=self.log.log_end_offset)

    def visible(self, offset: int) -> bool:
        """True if a read_committed consumer sees a record (not a marker) at this offset."""
        return offset < self.stable_offset and offset not in self._hidden


def marker(producer: int, *, commit: bool) -> bytearray:
    """Return a commit or abort marker of coordinator epoch 3."""
    options = {"producer_id": producer, "producer_epoch": 0, "transactional": True, "control": True}
    return batch(b"\0\0\0\0\0\3", key=b"\0\0\0\1" if commit else b"\0\0\0\0", **options)


def scan_committed(log: Log, offset: int | None = None, max_bytes: int = 10_000) -> Iterator[Record]:
    """Yield the records that a read_committed consumer shows, by the rules of Kafka's consumer, in several fetches."""
    at = log.log_start_offset if offset is None else offset
    while at < log.last_stable_offset:
        read = log.read(at, max_bytes, upto=log.last_stable_offset, min_one_message=True)
        if read.records is None:
            return
        pending = sorted(log.aborted_transactions(read.start, len(read.records)), key=lambda one: one.first_offset)
        aborting: set[int] = set()
        for info in whole_batches(bytes(read.records)):
            while pending and pending[0].first_offset <= info.last_offset:
                aborting.add(pending.pop(0).producer_id)
            if info.is_control:
                aborting.discard(info.producer_id)
            elif not (info.is_transactional and info.producer_id in aborting):
                yield from (record for record in iter_records(info.records) if record.offset >= at)
            at = max(at, info.last_offset + 1)
