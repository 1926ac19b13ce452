"""Idempotent producers of a partition (KIP-98): what each wrote last, so that nothing is appended twice or out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.log.batch_info import BatchInfo
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.files import Files


class Duplicate(NamedTuple):
    """Where the records of a batch that came again already are."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerStateManager:
    """Producers by id, and the snapshot files of the partition's directory.

    `end_offset` is the offset up to which (not included) batches are accounted for.
    """

    def __init__(self, tp: TopicPartition, directory: str, files: Files, *, expiration_ms: int = 86_400_000) -> None:
        self.tp = tp
        self.directory = directory
        self.end_offset = 0

    def check(self, info: BatchInfo) -> Duplicate | None:
        """May the batch of a client be appended? None: yes. `BrokerError` 45 out of order, 47 older epoch, 48."""
        raise NotImplementedError

    def update(self, info: BatchInfo) -> None:
        """A batch was appended, or was found in the log when it was opened."""
        raise NotImplementedError

    def load(self, log_start_offset: int, log_end_offset: int, now_wall_ms: int) -> int:
        """Start over from the newest usable snapshot at or below `log_end_offset`.

        Returns the offset from which the log's batches are to be told to `update` (when there was no snapshot: the
        log's start).
        """
        raise NotImplementedError

    def take_snapshot(self) -> None:
        """Write `<end_offset>.snapshot`, unless there is one."""
        raise NotImplementedError

    def delete_snapshots_before(self, offset: int) -> None:
        """Forget snapshots below `offset` (when segments before it have gone)."""
        raise NotImplementedError

    def clear(self, offset: int) -> None:
        """Forget everything; the log is empty and goes on at `offset`."""
        raise NotImplementedError

    def remove_expired(self, now_wall_ms: int) -> None:
        """Forget producers that wrote nothing for `expiration_ms`."""
        raise NotImplementedError
