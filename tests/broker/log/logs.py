"""Helpers for log tests: logs on disk or in memory, and batches whose values name their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kcli.broker.files import DiskFiles, Files
from kcli.broker.log.file_records import iter_batches
from kcli.broker.log.log import AppendInfo, Log
from kcli.broker.log.log_config import LogConfig
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

    def open(self, *, clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0, **config: Any) -> Log:
        self.reports.clear()
        log = Log.open(
            self.directory, TP, TOPIC_ID, LogConfig(**config), self.files,
            recovery_point=recovery_point, log_start_offset=log_start_offset,
            clean=clean, now_wall_ms=NOW, report=self.reports.append,
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
