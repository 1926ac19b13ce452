"""`RangeReader`: read ranges of many partitions, and report their coverage.

A range is done when the fetch position reaches its end, whatever lies before: transaction markers, gaps of compaction
and aborted records are offsets like others. A range that cannot be read to its end is ended with a reason:

    the position is before the log start          deleted meanwhile: counted as lost, reading continues at the start
    the position is after the log end, or the     the log was truncated: the partition ends
      log end moves before the end of the range
    the topic is deleted, or created again        the partition ends; partitions of the new topic are not read
    no record for default.api.timeout.ms          the partition ends, unless it waits for new records
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.client.metadata import matching_topics
from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kcli.client.requests import Results
from kcli.consumer.coverage import PartitionCoverage, RangeProgress, unresolved
from kcli.consumer.fetch_loop import FetchLoop
from kcli.consumer.read_range import LogOffsets, ReadRange, ResolvedRange, resolve_range, times_of
from kcli.consumer.retry_backoff import RetryState
from kcli.consumer.stall_detector import StallDetector, is_unknown_topic
from kcli.consumer.subscription import FetchPosition, PartitionFailure, SubscriptionState
from kcli.errors import KcliError, OffsetOutOfRange, TimeoutExpired, TopicRecreated, WakeupError
from kcli.log_place import LOG_START
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    import re
    import uuid

    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.fetch_buffer import Decode
    from kcli.protocol.records.columns import RecordColumns

# Of all responses together: a small part of the 200 MB of memory that a read may use.
MEMORY_BYTES = 32 << 20
# Kafka's 1 MiB per partition takes a third more CPU than 6 MiB (3 million records of 100 bytes: 1.1 s against 0.83 s),
# so few partitions are asked for more each. 8 MiB take more again: 0.97 s.
BULK_BYTES = 6 << 20
CHECK_INTERVAL_MS = 1_000.0
_ASSUMED_EXPANSION = 8.0
_LEAST_FETCH_BYTES = 16 << 10
NEW_PARTITION = "added while the topic was read; read from the log start"
NEW_TOPIC = "the topic was created while others were read; read from the log start"


class RangeReader:
    """Call `resolve`, then `poll` until `done`; `coverage` returns the progress at any time.

    An end after the log end is replaced by the log end, unless `wait_for_end`. `max.poll.records` has no effect: a poll
    returns the records of one response. `decode` makes other columns than records, for example `decode_headers`
    of `kcli.protocol.records.batch_columns` the headers of batches, without unpacking them or checking their CRC.

    Of the topics in `follow_new`, partitions that are added later are read too: from their log start, without an end.
    They are found when the metadata is refreshed, at least every `metadata.max.age.ms`. Without it, exactly the given
    partitions are read. With `follow_pattern`, the same is done for all topics whose whole name matches, also for those
    that are created later; `done` is never true then. Internal topics do not match, unless exclude.internal.topics is
    false.

    `epochs` are the leader epochs of the records before the starts, where these are known from an earlier read: such a
    partition ends with an error if its log diverged before its start (KIP-320).
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        ranges: Mapping[TopicPartition, ReadRange],
        config: ConsumerConfig,
        *,
        wait_for_end: bool = False,
        follow_new: Collection[str] = (),
        follow_pattern: re.Pattern[str] | None = None,
        memory_bytes: int = MEMORY_BYTES,
        decode: Decode | None = None,
        epochs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._client = client
        self.require_own_process = client.require_own_process
        self._ranges = dict(ranges)
        self._follow_new = tuple(follow_new)
        self._follow_pattern = follow_pattern
        if follow_pattern is not None:
            client.metadata.all_topics = True
            client.metadata.request_update()
        self._config = config
        self._wait_for_end = wait_for_end
        self._epochs = epochs or {}
        self._isolation = int(config.reads_committed)
        self._subscription = SubscriptionState()
        self._loop = FetchLoop(client, self._subscription, config, memory_bytes=memory_bytes, decode=decode)
        self._progress: dict[TopicPartition, RangeProgress] = {}
        self._unresolved: dict[TopicPartition, KcliError] = {}
        self._topic_ids: dict[str, uuid.UUID | None] = {}
        self._out_of_range: dict[TopicPartition, int] = {}
        self._open = 0
        self._stall = StallDetector(config.default_api_timeout_ms)
        self._check_interval_ms = min(CHECK_INTERVAL_MS, config.default_api_timeout_ms / 4)
        self._polled_ms = 0.0
        self._next_check_ms = 0.0
        self._is_resolved = False

    def __repr__(self) -> str:
        return f"<RangeReader open={self._open} of {len(self._ranges)} {self._loop.fetcher!r}>"

    @property
    def ranges(self) -> Mapping[TopicPartition, ReadRange]:
        """The ranges as requested, with those of partitions that were added later."""
        return self._ranges

    # --- resolution

    def resolve(self, deadline_ms: float) -> Results[TopicPartition, ResolvedRange]:
        """Resolve the ranges to offsets. The error of a partition that cannot be resolved is in `errors`.

        Raise TimeoutExpired when no broker answers.
        """
        logs, errors = self._list_log_offsets(self._ranges, deadline_ms)
        resolved = {
            tp: resolve_range(self._ranges[tp], log, wait_for_end=self._wait_for_end) for tp, log in logs.items()
        }
        self._unresolved = errors
        self._topic_ids = {tp.topic: self._client.metadata.topic_id(tp.topic) for tp in resolved}
        self._is_resolved = True
        self._start(resolved)
        if "max.partition.fetch.bytes" not in self._config.given:
            share = BULK_BYTES // max(1, self._open)
            self._loop.fetcher.partition_bytes = max(share, self._config.max_partition_fetch_bytes)
        return Results(resolved, errors)

    def _start(self, resolved: Mapping[TopicPartition, ResolvedRange]) -> None:
        """Read these ranges in addition to those that are being read."""
        self._progress.update((tp, RangeProgress(span)) for tp, span in resolved.items())
        self._open += len(resolved)
        self._subscription.assign([*self._subscription.partitions(), *resolved])
        for tp, span in resolved.items():
            self._subscription.seek(
                tp, span.position, self._epochs.get(tp, -1) if span.position == span.asked_start else -1
            )
            self._subscription.stop_at(tp, span.end)
            self._subscription.state(tp).topic_id = self._topic_ids.get(tp.topic)
        self._take_finished()

    def _list_log_offsets(
        self, ranges: Mapping[TopicPartition, ReadRange], deadline_ms: float
    ) -> tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, KcliError]]:
        errors: dict[TopicPartition, KcliError] = {}

        def ask(timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            timestamps = {tp: timestamp for tp, timestamp in timestamps.items() if tp not in errors}
            if not timestamps:
                return {}
            results = list_offsets(self._client, timestamps, deadline_ms, self._isolation)
            errors.update(results.errors)
            return {tp: end.offset for tp, end in results.values.items()}

        starts = ask(dict.fromkeys(ranges, EARLIEST))
        ends = ask(dict.fromkeys(ranges, LATEST))
        at_time: dict[TopicPartition, dict[int, int]] = {}
        times = {tp: times_of(requested) for tp, requested in ranges.items()}
        for turn in (0, 1):
            timestamps = {tp: its[turn] for tp, its in times.items() if len(its) > turn}
            for tp, offset in ask(timestamps).items():
                at_time.setdefault(tp, {})[timestamps[tp]] = offset
        good = [tp for tp in ranges if tp not in errors]
        return {tp: LogOffsets(starts[tp], ends[tp], at_time.get(tp, {})) for tp in good}, errors

    # --- reading

    @property
    def done(self) -> bool:
        """True if no partition has anything left to read. A partition without an end is done only if it failed."""
        return self._is_resolved and self._open == 0 and self._follow_pattern is None

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Return records of the ranges as soon as there are some.

        An empty list at the timeout, when a range is done, or when partitions were added.
        """
        self.require_own_process()
        count = len(self._ranges)
        self._check_partitions()
        if self.done or len(self._ranges) > count:
            return []
        began_ms = self._client.clock.now_ms()
        try:
            handed = self._loop.poll(timeout_ms)
        finally:
            self._polled_ms += self._client.clock.now_ms() - began_ms
        records = [(tp, columns) for tp, columns in map(self._cut_start, handed) if len(columns)]
        for tp, columns in records:
            self._progress[tp].count(columns)
        self._take_finished()
        return records

    def hold(self, tp: TopicPartition, *, held: bool) -> None:
        """Send no more fetches for this partition for now, or send them again. Received records are returned."""
        if self._subscription.get(tp) is not None:
            self._subscription.hold(tp, held=held)

    def limit_fetches(self, decoded_bytes: int) -> None:
        """Request so much per partition and fetch that it decodes to about this size, but not more than usual.

        To be called again as the compression becomes known. Without effect if the user has configured the size.
        """
        if "max.partition.fetch.bytes" not in self._config.given:
            fetcher = self._loop.fetcher
            wanted = round(decoded_bytes / (fetcher.buffer.expansion or _ASSUMED_EXPANSION))
            fetcher.partition_bytes = min(self._config.max_partition_fetch_bytes, max(_LEAST_FETCH_BYTES, wanted))

    def _cut_start(self, handed: tuple[TopicPartition, RecordColumns]) -> tuple[TopicPartition, RecordColumns]:
        """Remove the records before the start of the range, which exist only if the start is after the log end."""
        tp, columns = handed
        start = self._progress[tp].resolved.start
        if len(columns) and columns.offsets[0] < start:
            from kcli.protocol.records.columns import RecordColumns

            if isinstance(columns, RecordColumns):  # a batch that begins before the start can have records after it
                columns = columns.take(slice(int(columns.offsets.searchsorted(start)), None))
        return tp, columns

    def _take_finished(self) -> None:
        for tp in list(self._subscription.ended):
            self._close(tp)
            self._progress[tp].finish()

    def _close(self, tp: TopicPartition) -> None:
        progress = self._progress[tp]
        state = self._subscription.get(tp)
        if state is not None and state.position is not None:
            progress.position, progress.epoch = state.position
        if progress.open:
            self._open -= 1
        self._subscription.unassign(tp)

    def _fail(self, tp: TopicPartition, reason: str, error: KcliError | None = None) -> None:
        if self._progress[tp].open:
            self._close(tp)
            self._progress[tp].fail(reason, error)

    # --- failures

    def _failed(self, failure: PartitionFailure) -> None:
        if not self._progress[failure.tp].open:
            return
        if isinstance(failure.error, TopicRecreated):
            self._fail(failure.tp, failure.error.message)
        elif isinstance(failure.error, OffsetOutOfRange):
            self._handle_out_of_range(failure.tp, failure.offset, failure.error)
        else:
            self._fail(failure.tp, str(failure.error), failure.error)

    def _handle_out_of_range(self, tp: TopicPartition, offset: int, error: OffsetOutOfRange) -> None:
        """Handle a position outside the log: before its start, after its end, or neither, which is temporary."""
        deadline_ms = self._client.clock.now_ms() + self._config.default_api_timeout_ms
        try:
            logs, errors = self._list_log_offsets({tp: ReadRange(LOG_START)}, deadline_ms)
        except WakeupError:
            raise
        except KcliError as reason:
            return self._fail(tp, str(reason), reason)
        if tp in errors:
            return self._fail(tp, str(errors[tp]), errors[tp])
        log_start, log_end, _ = logs[tp]
        if offset < log_start:
            end = self._progress[tp].resolved.end
            after = log_start if end is None else min(log_start, end)
            self._progress[tp].lost(max(offset, self._progress[tp].resolved.start), after)
            return self._subscription.seek(tp, after)
        if offset > log_end:
            return self._fail(tp, f"the log was truncated to {log_end} while it was read at {offset}", error)
        if self._out_of_range.get(tp) == offset:
            return self._fail(tp, str(error), error)
        self._out_of_range[tp] = offset
        return self._subscription.seek(tp, offset)

    def _check_partitions(self) -> None:
        """Handle failures, and at intervals end the ranges that cannot reach their end.

        This runs before the polling: an exception here must not lose records.
        """
        while self._loop.failures:
            self._failed(self._loop.failures[-1])
            self._loop.failures.pop()
        self._stall.moved(self._loop.fetcher.take_progressed_nodes(), self._polled_ms)
        if self._polled_ms < self._next_check_ms:
            return
        self._next_check_ms = self._polled_ms + self._check_interval_ms
        self._add_new_partitions()
        receding = []
        for tp, progress in list(self._progress.items()):
            if progress.open and self._subscription.state(tp).held:
                self._stall.restart(tp)
            elif progress.open:
                error = self._verdict(tp, progress)
                if error is not None:
                    self._fail(tp, str(error), error)
                elif self._log_end_receded(tp, progress):
                    receding.append(tp)
        if receding:
            self._check_ends(receding)

    def _verdict(self, tp: TopicPartition, progress: RangeProgress) -> KcliError | None:
        fetcher, position = self._loop.fetcher, self._subscription.state(tp).position
        offset = -1 if position is None else position.offset
        return self._stall.verdict(
            tp,
            offset,
            fetcher.node_of(tp),
            fetcher.retry_state(tp),
            self._polled_ms,
            has_more=offset < self._initial_end(progress),
        )

    def _add_new_partitions(self) -> None:
        """Read the partitions that were added to the topics in `follow_new`.

        A partition that is not available yet is tried again at the next check.
        """
        topics = self._client.metadata.cluster.topics
        known = frozenset(name for name in self._follow_new if name in topics)
        created: frozenset[str] = frozenset()
        if self._follow_pattern is not None:
            internal = not self._config.exclude_internal_topics
            matching = matching_topics(self._client.metadata.cluster, self._follow_pattern, with_internal=internal)
            created = matching - self._topic_ids.keys()
            known = matching - created
        same = {name for name in known if topics[name].topic_id == self._topic_ids.get(name)}
        new = {
            tp: ReadRange(LOG_START)
            for topic in sorted(same | created)
            for tp in (TopicPartition(topic, number) for number in topics[topic].partitions)
            if tp not in self._ranges
        }
        if not new:
            return
        try:
            logs, errors = self._list_log_offsets(new, self._client.clock.now_ms() + CHECK_INTERVAL_MS)
        except TimeoutExpired:
            return
        failed = {
            tp: error for tp, error in errors.items() if not (error.retriable or isinstance(error, TimeoutExpired))
        }
        self._unresolved.update(failed)
        self._ranges.update((tp, new[tp]) for tp in (*logs, *failed))
        resolved = {tp: resolve_range(new[tp], log) for tp, log in logs.items()}
        self._topic_ids.update((tp.topic, topics[tp.topic].topic_id) for tp in resolved if tp.topic in created)
        notes = {tp: (NEW_TOPIC if tp.topic in created else NEW_PARTITION,) for tp in resolved}
        self._start({tp: span._replace(notes=notes[tp]) for tp, span in resolved.items()})

    def _log_end_receded(self, tp: TopicPartition, progress: RangeProgress) -> bool:
        """True if a fetch response shows a log end before an offset that existed when the range was resolved."""
        log_end = self._subscription.state(tp).log_end(read_committed=bool(self._isolation))
        return -1 < log_end < self._initial_end(progress)

    def _initial_end(self, progress: RangeProgress) -> int:
        """Return the end of the records that existed when the range was resolved; -1 without an end."""
        end = progress.resolved.end
        return -1 if end is None else min(end, progress.resolved.log_end)

    def _check_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """End the partitions whose log end has receded.

        ListOffsets waits until a new leader knows its end offset (KIP-207).
        """
        deadline_ms = self._client.clock.now_ms() + CHECK_INTERVAL_MS
        try:
            results = list_offsets(self._client, dict.fromkeys(partitions, LATEST), deadline_ms, self._isolation)
        except TimeoutExpired:
            return  # retried at the next check
        for tp, end in results.values.items():
            initial_end = self._initial_end(self._progress[tp])
            if end.offset < initial_end:
                self._fail(tp, f"the log was truncated: its end offset was {initial_end} and is now {end.offset}")

    # --- coverage

    def coverage(self) -> list[PartitionCoverage]:
        """Return the coverage of every requested partition."""
        coverages = []
        for tp, requested in self._ranges.items():
            progress = self._progress.get(tp)
            if progress is not None:
                state = self._subscription.get(tp)
                if progress.open and state is not None and state.position is not None:
                    progress.position, progress.epoch = state.position
                coverages.append(progress.coverage(tp))
            else:
                error = self._unresolved.get(tp)
                coverages.append(unresolved(tp, requested, str(error or "not resolved"), error))
        return coverages

    def positions(self) -> dict[TopicPartition, FetchPosition]:
        """Return the position of each resolved partition: all records before it were returned."""
        self.coverage()
        return {tp: FetchPosition(progress.position, progress.epoch) for tp, progress in self._progress.items()}

    def followed(self) -> dict[TopicPartition, bool]:
        """Return the open partitions that are read without an end, each with whether it was read to the log end."""
        read_committed = bool(self._isolation)
        return {
            tp: self._subscription.state(tp).is_at_end(read_committed=read_committed)
            for tp, progress in self._progress.items()
            if progress.open and progress.resolved.end is None
        }

    def open_partitions(self) -> dict[TopicPartition, bool]:
        """Return the partitions that are still read, each with whether records are certain to arrive, or its end.

        It is not certain for a followed partition that was read to the log end, or that cannot be read at present.
        """
        failing = self.retry_states()
        return {
            tp: progress.resolved.end is not None or (tp not in failing and self._has_records(tp, progress))
            for tp, progress in self._progress.items()
            if progress.open
        }

    def _has_records(self, tp: TopicPartition, progress: RangeProgress) -> bool:
        """Return whether the log ends after the position, as far as is known."""
        state = self._subscription.state(tp)
        log_end = state.log_end(read_committed=bool(self._isolation))
        if log_end < 0:
            log_end = progress.resolved.log_end
        return state.position is not None and state.position.offset < log_end

    def retry_states(self) -> dict[TopicPartition, RetryState]:
        """Return the failures of the followed partitions for which nothing arrives; they are retried without limit.

        An unknown topic is left out: it is deleted, which ends its partitions, if it stays unknown.
        """
        states = self._loop.fetcher.retry_states().items()
        return {
            tp: state for tp, state in states if self._progress[tp].resolved.end is None and not is_unknown_topic(state)
        }

    def close(self) -> None:
        """Stop fetching. The client stays open."""
        if self._client.is_forked:
            return
        if self._follow_pattern is not None:
            self._client.metadata.all_topics = False
        self._loop.close()
