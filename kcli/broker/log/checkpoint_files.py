"""Checkpoint files: Kafka's small text tables of offsets, one line per row below a version and a count.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and `replication-offset-checkpoint` of a data
directory have rows of topic, partition and offset.
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
    """The offsets of a checkpoint. `ConfigError` names a file that is garbage.

    There are none without the file, nor in one of no bytes: a real Kafka makes those before it has anything to say.
    """
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in _read_rows(files, path, 3):
        offsets[TopicPartition(topic, _number(partition, path))] = _number(offset, path)
    return offsets


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint, whole or not at all."""
    write_rows(files, path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())))


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) rows of a partition's leader-epoch-checkpoint; `ConfigError` for garbage."""
    return [(_number(epoch, path), _number(start, path)) for epoch, start in _read_rows(files, path, 2)]


def write_rows(files: Files, path: str, rows: Iterable[str]) -> None:
    """Replace the file at `path` by these lines below the version and their count."""
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
        raise _garbage(path, "it is not text") from None
    if len(lines) < 2:
        raise _garbage(path, "its version and its count are missing")
    if lines[0] != _VERSION:
        raise _garbage(path, f"its version is {lines[0][:20]!r}")
    rows = [line.split(" ") for line in lines[2:]]
    if len(rows) != _number(lines[1], path):
        raise _garbage(path, f"it has {len(rows)} rows and claims {lines[1]}")
    if any(len(row) != columns for row in rows):
        raise _garbage(path, f"a row has not {columns} columns")
    return rows


def _number(text: str, path: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise _garbage(path, f"{text[:20]!r} is not a number")


def _garbage(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"the checkpoint file {os.path.basename(path)} is damaged: {why}; remove it to have it made anew", path=path
    )
