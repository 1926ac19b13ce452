"""Checkpoint files: Kafka's small text tables of offsets, a version, a row count, and one line per row.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `replication-offset-checkpoint` of a data
directory have rows of topic, partition and offset; `leader-epoch-checkpoint` of a partition has rows of epoch and start
offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint. `ConfigError` names a damaged file.

    A missing file has no offsets, nor has an empty one: Kafka creates checkpoints empty before the first write.
    """
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in _read_rows(files, path, 3):
        offsets[TopicPartition(topic, _number(partition, path))] = _number(offset, path)
    return offsets


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint atomically."""
    write_rows(files, path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())))


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) rows of a leader-epoch-checkpoint. `ConfigError` names a damaged file."""
    return [(_number(epoch, path), _number(start, path)) for epoch, start in _read_rows(files, path, 2)]


def write_rows(files: Files, path: str, rows: Iterable[str]) -> None:
    """Replace the file at `path` by the version, the number of rows and the rows."""
    lines = list(rows)
    files.write_atomically(path, "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode())


def _read_rows(files: Files, path: str, columns: int) -> list[list[str]]:
    if not files.exists(path):
        return []
    try:
        lines = files.read_bytes(path).decode().splitlines()
        if not lines:
            return []
    except UnicodeDecodeError:
        raise _damaged(path, "it is not text") from None
    if len(lines) < 2:
        raise _damaged(path, "its version and count are missing")
    if lines[0] != _VERSION:
        raise _damaged(path, f"its version is {lines[0][:20]!r}")
    rows = [line.split(" ") for line in lines[2:]]
    if len(rows) != _number(lines[1], path):
        raise _damaged(path, f"it has {len(rows)} rows but a count of {lines[1]}")
    if any(len(row) != columns for row in rows):
        raise _damaged(path, f"a row does not have {columns} columns")
    return rows


def _number(text: str, path: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise _damaged(path, f"{text[:20]!r} is not a number")


def _damaged(path: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the checkpoint file {os.path.basename(path)} is damaged: {reason}; remove it to have it rebuilt", path=path
    )
