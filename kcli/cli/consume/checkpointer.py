"""`--checkpoint FILE`: the file, its lock, and the output that it describes.

The order of writes is that of a journal: records, then the file. Before the file is replaced, a regular output file is
synced, so that also after a power failure the output has all that the checkpoint stands for.

A restart after a kill cuts a regular output file to the length in the checkpoint, and reads on from there. With another
kind of output, such as a pipe, the records after the last checkpoint are printed again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.consumer import read_checkpoint
from kcli.consumer.read_checkpoint import Checkpoint, OutputMark, Selection
from kcli.errors import ConfigError, KcliError, Refused
from kcli.whole_files import replacing, sync_folder

if TYPE_CHECKING:
    from typing import BinaryIO
    from uuid import UUID

    from kcli.cli.consume.sink import Sink
    from kcli.client.metadata import Metadata
    from kcli.client.requests import Results
    from kcli.clock import Clock
    from kcli.consumer.read_range import ReadRange, ResolvedRange
    from kcli.consumer.subscription import FetchPosition
    from kcli.structs import TopicPartition

INTERVAL_MS = 500.0
_DIGEST_BYTES = 4096
_LARGEST_FILE = 64 << 20

Positions = Mapping["TopicPartition", "FetchPosition"]


class CheckpointFile:
    """A file that only one process uses, and that is replaced as a whole. Errors name the file."""

    def __init__(self, path: str) -> None:
        """Open and lock the file; it is created if it does not exist. Raise ConfigError, or Refused if it is in use."""
        if not path:
            raise ConfigError("--checkpoint: the path must not be empty")
        self.path = path
        self._real_path = os.path.realpath(path)
        self._fd = self._lock()

    def _lock(self) -> int:
        while True:
            try:
                fd = os.open(self._real_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise ConfigError(f"--checkpoint: {self.path} cannot be opened: {error.strerror}") from None
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise ConfigError(f"--checkpoint: {self.path} is not a regular file")
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(fd), os.stat(self._real_path)):
                        return fd
            except BlockingIOError:
                os.close(fd)
                raise Refused(f"--checkpoint: {self.path} is used by another process") from None
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # its user has replaced it meanwhile

    @property
    def status(self) -> os.stat_result:
        """The status of the file, which identifies it."""
        return os.fstat(self._fd)

    def load(self) -> Checkpoint | None:
        """Return the checkpoint; None if the file is new. Raise ConfigError for another file."""
        size = self.status.st_size
        if size > _LARGEST_FILE:
            raise ConfigError(f"--checkpoint: {self.path} is not a checkpoint of kcli consume; use another file")
        text = os.pread(self._fd, size, 0).decode(errors="replace")
        return read_checkpoint.parse_checkpoint(text, f"--checkpoint: {self.path}") if text else None

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file. Raise KcliError if that fails; then the old file is unchanged."""
        data = read_checkpoint.format_checkpoint(checkpoint).encode()
        fd = -1
        try:
            # The lock of the old file permits one process only, so the temporary name is always the same one.
            with replacing(self._real_path, partial=f"{self._real_path}.part", durable=True) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.fchmod(file.fileno(), stat.S_IMODE(self.status.st_mode))
                file.write(data)
                fd = os.dup(file.fileno())  # a lock belongs to all copies of a descriptor
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise KcliError(f"--checkpoint: {self.path} cannot be written: {error.strerror}") from error
        os.close(self._fd)
        self._fd = fd
        with suppress(OSError):  # where the system can do that for a folder
            sync_folder(os.path.dirname(self._real_path))

    def close(self) -> None:
        """Unlock the file."""
        os.close(self._fd)


class OutputFile:
    """Standard output, if it is a regular file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def of(cls, stream: BinaryIO) -> OutputFile | None:
        """Return the output file; None for a pipe, a terminal, or a stream without a file."""
        try:
            fd = stream.fileno()
        except (OSError, AttributeError):
            return None
        return cls(fd) if stat.S_ISREG(os.fstat(fd).st_mode) else None

    def is_same(self, status: os.stat_result) -> bool:
        """Return whether this is the file of a status."""
        return os.path.samestat(os.fstat(self._fd), status)

    @property
    def length(self) -> int:
        """The present size of the file in bytes."""
        return os.fstat(self._fd).st_size

    def mark(self, length: int) -> OutputMark:
        """Return the mark of the first `length` bytes; the mark's own length is the present size."""
        status = os.fstat(self._fd)
        return OutputMark(status.st_dev, status.st_ino, status.st_size, self._digest(length), self._path())

    def _digest(self, length: int) -> str:
        """Return the digest of the last bytes before `length`; "" if the system does not let them be read."""
        start = max(0, length - _DIGEST_BYTES)
        try:
            fd = os.open(f"/dev/fd/{self._fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            data = os.pread(fd, length - start, start)
        except OSError:
            return ""
        finally:
            os.close(fd)
        return hashlib.sha256(data).hexdigest()

    def _path(self) -> str:
        try:
            return os.readlink(f"/proc/self/fd/{self._fd}")
        except OSError:
            return ""

    def cut(self, length: int) -> None:
        """Cut the file to its first `length` bytes, and write after them."""
        os.ftruncate(self._fd, length)
        os.lseek(self._fd, 0, os.SEEK_END)

    def sync(self) -> None:
        """Make all that was written durable."""
        os.fsync(self._fd)


class Checkpointer:
    """The checkpoint of one read: `resume` before it, `begin` when it is resolved, `tick` between polls, `finish`.

    All records before the positions must have been written when `tick` and `finish` are called.
    """

    def __init__(self, path: str, stream: BinaryIO, clock: Clock, report: Callable[[str], None]) -> None:
        """Open and lock the file. Raise ConfigError, or Refused if another process uses it."""
        self._file = CheckpointFile(path)
        self._name = f"--checkpoint: {path}"
        self._output = OutputFile.of(stream)
        self._clock = clock
        self._report = report
        self._sink: Sink | None = None
        self._output_start = 0
        self._next_ms = 0.0
        self._last: Checkpoint | None = None
        self._metadata: Metadata | None = None
        self._selection = Selection({})
        try:
            if self._output is not None and self._output.is_same(self._file.status):
                raise ConfigError(f"{self._name}: the output must be another file")
            self._loaded = self._file.load()
        except BaseException:
            self._file.close()
            raise

    @property
    def epochs(self) -> dict[TopicPartition, int] | None:
        """The leader epochs of the positions to resume; None for the first read."""
        return None if self._loaded is None else {tp: position.epoch for tp, position in self._loaded.positions.items()}

    @property
    def output_has_records(self) -> bool:
        """True if the output is a file that is not empty, so that its headings are there already."""
        return self._output is not None and self._output.length > 0

    def resume(
        self, metadata: Metadata, selection: Selection, ranges: dict[TopicPartition, ReadRange]
    ) -> dict[TopicPartition, ReadRange]:
        """Return the ranges with the starts of the checkpoint. Raise Refused if it is one of something else."""
        self._metadata, self._selection = metadata, selection
        if self._loaded is None:
            return ranges
        ids = self._topic_ids({tp.topic for tp in ranges})
        cluster_id = metadata.cluster.cluster_id
        return read_checkpoint.resume_ranges(self._loaded, self._name, cluster_id, selection, ids, ranges)

    def _topic_ids(self, topics: Iterable[str]) -> dict[str, UUID | None]:
        assert self._metadata is not None
        return {topic: self._metadata.topic_id(topic) for topic in topics}

    def begin(self, resolution: Results[TopicPartition, ResolvedRange], positions: Positions, sink: Sink) -> None:
        """Cut the output to what the checkpoint stands for, and write the first checkpoint of this read.

        Raise Refused if the records after the checkpoint cannot be read again, or are in another output, and the error
        of a partition without a position.
        """
        for tp, error in resolution.errors.items():
            if self._loaded is None or tp not in self._loaded.positions:
                raise error
        if self._loaded is not None:
            read_checkpoint.check_resolved(self._loaded, self._name, resolution.values)
            self._restore_output(self._loaded)
        self._sink, self._output_start = sink, 0 if self._output is None else self._output.length - sink.written
        self._write(positions)

    def _restore_output(self, loaded: Checkpoint) -> None:
        mark = None
        if self._output is not None:
            mark = self._output.mark(0 if loaded.output is None else loaded.output.length)
        length = read_checkpoint.check_output(loaded, self._name, mark)
        if length is not None and self._output is not None and self._output.length > length:
            self._report(
                f"{self._output.length - length} bytes that were written after the checkpoint are removed from the "
                "output; their records are read again"
            )
            self._output.cut(length)

    def tick(self, positions: Callable[[], Positions]) -> None:
        """Write the positions if it is due."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + INTERVAL_MS
            self._write(positions())

    def finish(self, positions: Callable[[], Positions]) -> None:
        """Write the positions at the orderly end of the read."""
        self._write(positions(), closed=True)

    def _write(self, positions: Positions, *, closed: bool = False) -> None:
        """Write the file if anything has changed. Partitions that cannot be read now keep their old positions."""
        assert self._metadata is not None
        kept = {} if self._loaded is None else self._loaded.positions
        known = {**kept, **positions}
        before = self._last or self._loaded
        ids = {} if before is None else dict(before.topic_ids)
        ids.update(self._topic_ids({tp.topic for tp in known if tp.topic not in ids}))
        cluster_id = self._metadata.cluster.cluster_id
        current = Checkpoint(cluster_id, self._selection, ids, known, closed=closed)
        if self._last is None or current != self._last._replace(output=None):
            self._last = current._replace(output=self._mark())
            self._file.write(self._last)

    def _mark(self) -> OutputMark | None:
        if self._output is None or self._sink is None:
            return None
        self._output.sync()
        length = self._output_start + self._sink.written
        if self._output.length != length:
            raise KcliError(
                f"{self._name}: the output has {self._output.length} bytes and should have {length}: "
                "another process writes to it"
            )
        return self._output.mark(length)

    def close(self) -> None:
        """Unlock the file."""
        self._file.close()
