"""All logs of a data directory: opening, creation, deletion, and periodic maintenance.

Maintenance is retention, flushing, checkpoints, compaction, and the removal of deleted directories.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.data_dir import DataDir, read_topic_id, write_topic_id
from kcli.broker.files import is_exhausted, reason_with_file
from kcli.broker.log.checkpoint_files import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
    write_offsets,
)
from kcli.broker.log.cleaner import LogCleaner
from kcli.broker.log.log import NOTHING_STORED, Log, StoredOffsets
from kcli.broker.log.log_config import LogConfig
from kcli.clock import Clock
from kcli.errors import ConfigError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.files import Files

CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_NEVER_MS = float("inf")
_NEVER_ASSIGNED = 1 << 62
# Shortest interval between two checks of flush.ms.
_MIN_FLUSH_CHECK_MS = 50.0
# Pause of the maintenance when there are no descriptors or no disk space.
_RETRY_MS = 10_000.0
# Settings allow an interval of 0, which would keep the loop busy.
_MIN_INTERVAL_MS = 10.0


class PeriodicTask:
    """Periodic work: `run(now_wall_ms)` every `every_ms`, next at `due_ms` of the steady clock."""

    def __init__(self, every_ms: float, due_ms: float, run: Callable[[int], None]) -> None:
        self.every_ms = every_ms
        self.due_ms = due_ms
        self.run = run


class LogManager:
    """The logs by partition.

    `failed` is the reason why the directory is offline, None while it is usable. `reports` holds messages to log about
    recovery. `missing` maps each partition without a directory to the offset up to which it had been flushed.

    Everything runs in the broker's loop thread. `tick` does the periodic work, and returns the time of its next call.
    """

    def __init__(
        self,
        data_dir: str,
        files: Files,
        config: BrokerConfig,
        clock: Clock,
        *,
        new_cluster_id: Callable[[], str] | None = None,
        shared: DataDir | None = None,
        is_replica: bool = False,
    ) -> None:
        """Lock the directory, and read or choose its cluster id. It is created if it does not exist.

        `new_cluster_id` returns the id for a new directory; by default it is random. `shared` is the directory if
        another part of this process has locked it. `is_replica`: other brokers may have the records, too.

        ConfigError if another broker uses it, if it belongs to another node, or if it cannot be used.
        """
        if shared is not None:
            self.dir = shared.shared_with(files)
        else:
            self.dir = DataDir(data_dir, files, node_id=config.node_id, new_cluster_id=new_cluster_id)
        #: The broker epoch at the last shutdown, if that was clean and all flushed records are there, else -1.
        self.clean_epoch = self.dir.clean_epoch
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: str | None = None
        self.reports: list[str] = []
        self.missing: dict[TopicPartition, int] = {}
        self._files = files
        files.release = self.release_files
        self._config = config
        self._is_replica = is_replica
        self._clock = clock
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._pending_removals: list[tuple[float, str]] = []
        self._undeleted: set[str] = set()  # directories of deleted partitions that could not be renamed
        self._is_truncated = False  # a log, since the last checkpoint of recovery points
        self._last_shortage = ""
        self._tasks: list[PeriodicTask] = []
        self._cleaning: PeriodicTask | None = None
        try:
            self.cleaner = LogCleaner(
                files,
                self.dir.join(CLEANER_CHECKPOINT),
                dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
                report=self.reports.append,
            )
        except BaseException:
            self.dir.release()
            raise

    def __repr__(self) -> str:
        return f"<LogManager {self.data_dir} {len(self.logs)} logs{' failed' if self.failed else ''}>"

    @property
    def data_dir(self) -> str:
        return self.dir.path

    @property
    def cluster_id(self) -> str:
        return self.dir.cluster_id

    @property
    def directory_id(self) -> str:
        return self.dir.directory_id

    # ---- start ----

    def open(self, config_for: Callable[[str], LogConfig]) -> None:
        """Open the directories of all partitions; `config_for(topic)` returns the log configuration of a topic.

        After a crash each log is recovered from its recovery point, and truncations are added to `reports`. ConfigError
        names the file that cannot be opened; then nothing is left open, and the lock is released.
        """
        clean = self.dir.was_left_clean
        now_wall_ms = self._clock.wall_ms()
        try:
            points = read_offsets(self._files, self.dir.join(RECOVERY_POINTS), self.reports.append)
            starts = read_offsets(self._files, self.dir.join(LOG_START_OFFSETS))
            watermarks = read_offsets(self._files, self.dir.join(HIGH_WATERMARKS), self.reports.append)
            configs: dict[str, LogConfig] = {}
            for tp, directory in self.dir.partitions().items():
                topic_id = read_topic_id(self._files, directory)
                config = configs.get(tp.topic) or configs.setdefault(tp.topic, config_for(tp.topic))
                stored = StoredOffsets(points.get(tp, 0), starts.get(tp, 0), watermarks.get(tp, 0))
                self.logs[tp] = self._open_log(directory, tp, topic_id, config, stored, clean=clean)
            self.missing = {tp: point for tp, point in points.items() if point and tp not in self.logs}
            is_unknown = not points and any(log.log_end_offset for log in self.logs.values())
            if (
                self.missing
                or is_unknown
                or any(log.log_end_offset < points.get(tp, 0) for tp, log in self.logs.items())
            ):
                self.clean_epoch = -1  # so that the controller does not count on the lost records (KIP-966)
            self._pending_removals = [(0.0, path) for path in self.dir.deleted()]
            self.dir.mark_in_use()
            if not clean:
                self._checkpoint(RECOVERY_POINTS)
        except OSError as error:
            self.close(clean=False)
            reason = reason_with_file(error, self.data_dir)
            raise ConfigError(f"the data directory {self.data_dir} cannot be opened: {reason}") from None
        except BaseException:
            self.close(clean=False)
            raise
        for tp in [tp for tp in self.cleaner.cleaned_up_to if tp not in self.logs]:
            del self.cleaner.cleaned_up_to[tp]
        self._schedule_tasks(now_wall_ms)

    def _open_log(
        self,
        directory: str,
        tp: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        stored: StoredOffsets,
        *,
        clean: bool,
    ) -> Log:
        log = Log.open(
            directory,
            tp,
            topic_id,
            config,
            self._files,
            stored=stored,
            clean=clean,
            now_wall_ms=self._clock.wall_ms(),
            report=self.reports.append,
            is_replica=self._is_replica,
        )
        log.producers.expiration_ms = self._config.producer_id_expiration_ms
        log.max_decompressed_bytes = self._config.max_decompressed_batch_bytes
        return log

    def _schedule_tasks(self, now_wall_ms: int) -> None:
        config, now_ms = self._config, self._clock.now_ms()
        later = now_ms + config.log_initial_task_delay_ms

        def every(interval_ms: float, run: Callable[[int], None], not_before_ms: float = later) -> PeriodicTask:
            interval_ms = max(interval_ms, _MIN_INTERVAL_MS)
            task = PeriodicTask(interval_ms, max(not_before_ms, now_ms + interval_ms), run)
            self._tasks.append(task)
            return task

        every(config.log_retention_check_interval_ms, self.retain)
        every(config.log_flush_offset_checkpoint_interval_ms, lambda _: self._checkpoint(RECOVERY_POINTS))
        every(config.log_flush_start_offset_checkpoint_interval_ms, lambda _: self._checkpoint(LOG_START_OFFSETS))
        # Not later than after one interval: a replica that restarts without it knows none of its committed records.
        watermarks_ms = config.replica_high_watermark_checkpoint_interval_ms
        every(watermarks_ms, lambda _: self._checkpoint(HIGH_WATERMARKS), now_ms)
        every(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        if config.log_cleaner_enable:
            self._cleaning = every(config.log_cleaner_backoff_ms, self._clean)

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id that must not be assigned to a new producer, -1 if there is none.

        A duplicate of an id in the logs could make new batches look like retries. Ids that no broker assigns are left
        out: a client may write any, and one near the last int64 would leave none to assign.
        """
        ids = (id for log in self.logs.values() for id in log.producers.producers)
        return max((id for id in ids if id < _NEVER_ASSIGNED), default=-1)

    # ---- creation and deletion ----

    def create(self, tp: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """Return the log of a partition, with this topic id and config. OSError, and no log, if it cannot be created.

        A new log gets a new directory. An existing directory without a topic id gets this one.
        """
        log = self.logs.get(tp)
        if log is None:
            directory = self.dir.join(str(tp))
            existed = self._files.exists(directory)
            if directory in self._undeleted or (existed and not self._files.is_dir(directory)):
                self._set_aside(tp, directory)
                existed = False
            try:
                self._files.make_dir(directory)
                write_topic_id(self._files, directory, topic_id)
                log = self.logs[tp] = self._open_log(directory, tp, topic_id, config, NOTHING_STORED, clean=True)
            except OSError:
                if not existed:  # a directory that somebody copied here is kept
                    with suppress(OSError):
                        self._set_aside(tp, directory)
                raise
        elif log.topic_id != topic_id:
            write_topic_id(self._files, log.directory, topic_id)
            log.topic_id = topic_id
        log.config = config
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Delete a partition: rename its directory now, and remove it after `file.delete.delay.ms`."""
        log = self.logs.pop(tp, None)
        if log is None:
            return
        self.cleaner.abandon_partition(tp)
        log.close(clean=False)
        self._set_aside(tp, log.directory, log.config.file_delete_delay_ms)
        self.cleaner.forget(tp)
        self._files.sync_dir(self.data_dir)

    def keep_stray(self, tp: TopicPartition) -> None:
        """Close a partition that the cluster does not assign to this node, and rename its directory.

        As in Kafka it stays until somebody removes it: a controller that lost its metadata must not delete records.
        """
        log = self.logs.pop(tp, None)
        if log is None:  # a second try, after a lack of descriptors
            return
        self.cleaner.abandon_partition(tp)
        log.close(clean=False)
        self._files.rename(log.directory, self.dir.name_stray(tp))
        self.cleaner.forget(tp)
        self._files.sync_dir(self.data_dir)

    def discard(self, tp: TopicPartition) -> None:
        """Remove a partition that was just created, at once."""
        log = self.logs.pop(tp, None)
        if log is not None:
            log.close(clean=False)
            self._set_aside(tp, log.directory)
            self._remove_deleted(self._clock.now_ms())

    def _set_aside(self, tp: TopicPartition, directory: str, delay_ms: float = 0) -> None:
        path = self.dir.name_deleted(tp)
        self._undeleted.add(directory)
        self._files.rename(directory, path)
        self._undeleted.remove(directory)
        self._pending_removals.append((self._clock.now_ms() + delay_ms, path))

    # ---- truncation ----

    def truncate(self, tp: TopicPartition, offset: int) -> bool:
        """Remove the records of a partition from `offset` on; see `Log.truncate_to`.

        Call `checkpoint_truncations` before anything is appended.
        """
        log = self.logs[tp]
        self.cleaner.abandon_partition(tp)
        is_shorter = log.truncate_to(offset, now_wall_ms=self._clock.wall_ms())
        self._is_truncated |= is_shorter
        if is_shorter:
            self.cleaner.truncate(tp, log.log_end_offset)
        return is_shorter

    def restart(self, tp: TopicPartition, offset: int) -> None:
        """Remove all records of a partition, which continues at `offset`; see `truncate`."""
        self.cleaner.forget(tp)
        self._is_truncated = True
        self.logs[tp].restart_at(offset, now_wall_ms=self._clock.wall_ms())

    def checkpoint_truncations(self) -> None:
        """Store the recovery points, log start offsets and high watermarks of truncated logs.

        A crash after later appends would otherwise trust records that were not flushed, drop them, or show those that
        are not committed.
        """
        if self._is_truncated:
            for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
                self._checkpoint(name)
            self._is_truncated = False

    def release_files(self) -> None:
        """Close the log files until their next use, because there are no free file descriptors."""
        for log in self.logs.values():
            for segment in log.segments:
                segment.release_file()

    # ---- maintenance ----

    def tick(self, now_ms: float, now_wall_ms: int) -> float:
        """Do the due work: retention, flush.ms, checkpoints, one step of cleaning. Return the next due time (steady).

        A disk error sets `failed`; it is not raised. A lack of descriptors or disk space is reported, and the work is
        tried again later.
        """
        if self.failed is not None:
            return _NEVER_MS
        try:
            for task in self._tasks:
                if task.due_ms <= now_ms:
                    task.due_ms = now_ms + task.every_ms
                    task.run(now_wall_ms)
            self._remove_deleted(now_ms)
            flush_ms = self._flush_due(now_ms, now_wall_ms)
        except OSError as error:
            reason = f"{error.strerror or error} during maintenance of the logs in {self.data_dir}"
            if not is_exhausted(error):
                self.fail(reason)
                return _NEVER_MS
            if reason != self._last_shortage:
                self._last_shortage = reason
                self.reports.append(f"{reason}; it is tried again every {_RETRY_MS / 1000:.0f} s")
            return now_ms + _RETRY_MS
        return min([flush_ms, *(task.due_ms for task in self._tasks), *(due for due, _ in self._pending_removals)])

    def retain(self, now_wall_ms: int) -> None:
        """Delete the segments that exceed retention by time or size, in all logs."""
        for log in self.logs.values():
            log.retain(now_wall_ms)

    def _expire_producers(self, now_wall_ms: int) -> None:
        for log in self.logs.values():
            log.producers.remove_expired(now_wall_ms)

    def _clean(self, now_wall_ms: int) -> None:
        assert self._cleaning is not None
        if self.cleaner.step(self.logs, now_wall_ms):
            self._cleaning.due_ms = 0.0  # more to clean, after the next iteration of the loop

    def _flush_due(self, now_ms: float, now_wall_ms: int) -> float:
        limits = [log.config.flush_ms for log in self.logs.values()]
        interval_ms = min(limits, default=_NEVER_MS)
        if interval_ms >= (1 << 63) - 1:
            return _NEVER_MS
        for log in self.logs.values():
            log.flush_if_due(now_wall_ms)
        return now_ms + max(interval_ms, _MIN_FLUSH_CHECK_MS)

    def _remove_deleted(self, now_ms: float) -> None:
        for row in [row for row in self._pending_removals if row[0] <= now_ms]:
            self._files.remove_tree(row[1])
            self._pending_removals.remove(row)

    def _checkpoint(self, name: str) -> None:
        """Write a checkpoint file, unless its contents are unchanged."""
        if name == RECOVERY_POINTS:
            rows = {tp: log.recovery_point for tp, log in self.logs.items()}
        elif name == HIGH_WATERMARKS:
            rows = {tp: log.high_watermark for tp, log in self.logs.items()}
        else:  # a log that starts with its first segment needs no entry
            rows = {
                tp: log.log_start_offset
                for tp, log in self.logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            }
        if rows != self._written.get(name):
            write_offsets(self._files, self.dir.join(name), rows)
            self._written[name] = rows

    # ---- end ----

    def fail(self, reason: str) -> None:
        """Mark the directory as offline; the first reason is kept."""
        self.failed = self.failed or reason

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close all logs and release the lock. `clean`: flush everything and write the marker of a clean shutdown.

        The marker has the broker epoch of a node.

        Otherwise, or if the directory has failed, nothing is written: the next start finds the state of a crash.
        OSError if flushing fails; everything is closed nevertheless.
        """
        clean = clean and self.failed is None
        try:
            self.cleaner.abandon()
            for log in self.logs.values():
                log.close(clean=clean)
            if clean:
                for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
                    self._checkpoint(name)
                self.dir.mark_clean(broker_epoch)
        finally:
            self.dir.release()
