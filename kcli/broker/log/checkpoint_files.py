"""Checkpoint files: Kafka's small text tables of offsets, a version, a row count, and one line per row.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `replication-offset-checkpoint` of a data
directory have rows of topic, partition and offset; `leader-epoch-checkpoint` of a partition has rows of epoch and start
offset.

A start does not fail because of a damaged file whose contents the logs have, too: it is reported, and written again.
Apache Kafka 4.3.1 takes the data directory offline for any of them. The log start offsets are nowhere else: without
them deleted records would return.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

_VERSION = "0"
_MOST_DIGITS = 19  # of an int64


def read_offsets(
    files: Files, path: str, report_rebuilt: Callable[[str], None] | None = None
) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint.

    A missing file has no offsets, nor has an empty one: Kafka creates checkpoints empty before the first write. A
    damaged one has none after it was reported; without `report_rebuilt`, ConfigError names it.
    """
    rows = _read_rows(files, path, 3, report_rebuilt)
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint atomically."""
    write_rows(files, path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())))


def read_epochs(files: Files, path: str, report_rebuilt: Callable[[str], None]) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) rows of a leader-epoch-checkpoint; a damaged one is reported and has none."""
    return [(int(epoch), int(start)) for epoch, start in _read_rows(files, path, 2, report_rebuilt)]


def write_rows(files: Files, path: str, rows: Iterable[str]) -> None:
    """Replace the file at `path` by the version, the number of rows and the rows."""
    lines = list(rows)
    files.write_atomically(path, "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode())


def _read_rows(files: Files, path: str, columns: int, report_rebuilt: Callable[[str], None] | None) -> list[list[str]]:
    if not files.exists(path):
        return []
    try:
        return _parse(files.read_bytes(path), columns)
    except ValueError as damage:
        if report_rebuilt is None:
            raise ConfigError(
                f"the checkpoint file {os.path.basename(path)} is damaged: {damage}; remove it to have it rebuilt",
                path=path,
            ) from None
        report_rebuilt(f"the checkpoint file {path} is damaged: {damage}; it is rebuilt")
        return []


def _parse(data: bytes, columns: int) -> list[list[str]]:
    """Return the rows; their last two columns are numbers. ValueError with the reason for a damaged file."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    if not lines:
        return []
    if len(lines) < 2:
        raise ValueError("its version and count are missing")
    if lines[0] != _VERSION:
        raise ValueError(f"its version is {lines[0][:20]!r}")
    rows = [line.split(" ") for line in lines[2:]]
    if any(len(row) != columns for row in rows):
        raise ValueError(f"a row does not have {columns} columns")
    for text in (lines[1], *(number for row in rows for number in row[-2:])):
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise ValueError(f"{text[:20]!r} is not a number")
    if len(rows) != int(lines[1]):
        raise ValueError(f"it has {len(rows)} rows but a count of {lines[1]}")
    return rows
