"""Leader epochs of a partition (KIP-101): the start offset of each epoch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.log.checkpoint_files import LEADER_EPOCHS, read_epochs, write_rows

if TYPE_CHECKING:
    from kcli.broker.files import Files

UNDEFINED = (-1, -1)


class EpochStart(NamedTuple):
    """An epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """Epochs in memory and in the partition's leader-epoch-checkpoint; epochs and start offsets strictly increase."""

    def __init__(self, directory: str, files: Files, report: Callable[[str], None], *, has_file: bool = True) -> None:
        """Read the checkpoint, unless it is known not to exist. A damaged one is reported, and has no epochs."""
        self.directory = directory
        self._files = files
        self._entries: list[EpochStart] = []
        for epoch, start_offset in read_epochs(files, self.path, report) if has_file else ():
            self._insert(EpochStart(epoch, start_offset))

    def __repr__(self) -> str:
        return f"<LeaderEpochCache {' '.join(f'{epoch}@{start}' for epoch, start in self._entries) or 'empty'}>"

    @property
    def path(self) -> str:
        return os.path.join(self.directory, LEADER_EPOCHS)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 when there is none."""
        return self._entries[-1].epoch if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`, removing contradicting entries. A known epoch is ignored."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} and start offset {start_offset} must not be negative")
        last = self._entries[-1] if self._entries else None
        if last is None or epoch != last.epoch or start_offset < last.start_offset:
            previous = list(self._entries)
            self._insert(EpochStart(epoch, start_offset))
            try:
                self.flush()
            except OSError:
                self._entries = previous
                raise

    def _insert(self, entry: EpochStart) -> None:
        entries = self._entries
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch` and the start offset of the next one; (-1, -1) when unknown.

        For an epoch older than all known ones, return that epoch and the start offset of the first known one.
        """
        if epoch < 0:
            return UNDEFINED
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        largest_before = epoch
        for known_epoch, start_offset in self._entries:
            if known_epoch > epoch:
                return largest_before, start_offset
            largest_before = known_epoch
        return UNDEFINED

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the record at `offset`, -1 when it is unknown."""
        epoch_at = -1
        for epoch, start_offset in self._entries:
            if start_offset > offset:
                break
            epoch_at = epoch
        return epoch_at

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at or after `end_offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end before `start_offset`; the epoch at that offset now starts there."""
        earlier = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if earlier:
            kept = [EpochStart(earlier[-1].epoch, start_offset), *self._entries[len(earlier) :]]
            self._replace(kept)

    def clear(self) -> None:
        """Remove all epochs."""
        self._replace([])

    def _replace(self, entries: list[EpochStart]) -> None:
        if entries != self._entries:
            self._entries = entries
            self.flush()

    def flush(self) -> None:
        """Write the checkpoint."""
        write_rows(self._files, self.path, (f"{epoch} {start}" for epoch, start in self._entries))
