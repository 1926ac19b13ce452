"""`RangeReader`: many partitions, each from a start to an end, and an account of what was covered.

A range is done when the fetch position has come to its end, whatever was visible on the way: transaction markers, gaps
of compaction and aborted records are offsets like others. What cannot be covered ends all the same, with a reason:

    the position lies before the log's start    deleted meanwhile: told as a gap, reading goes on at the start
    the position lies beyond the log's end,     the log was truncated: the partition ends
      or the log's end moves below the range's
    the topic is gone, or another of its name   the partition ends
    nothing comes for default.api.timeout.ms    the partition ends, unless it waits for records to come
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.consumer.coverage import PartitionCoverage, Progress, unresolved
from kcli.consumer.fetch_buffer import Failure
from kcli.consumer.fetch_loop import FetchLoop
from kcli.consumer.read_range import LogFacts, ReadRange, ResolvedRange, resolve_range, times_of
from kcli.consumer.retry_backoff import Trouble
from kcli.consumer.subscription import SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, OffsetOutOfRange, TimeoutExpired, WakeupError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    import uuid

    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results
    from kcli.consumer.fetch_buffer import Decode
    from kcli.protocol.records.columns import RecordColumns

# All responses together: a small part of the 200 MB that a read may take.
MEMORY_BYTES = 32 << 20
# Decoding 4 MiB at a time takes a quarter less CPU than decoding Kafka's 1 MiB (3 million records of 100 bytes:
# 1.8 s against 2.5 s), so few partitions are asked for more each.
BULK_BYTES = 4 << 20
LOOK_AROUND_MS = 1_000.0


class RangeReader:
    """`resolve`, then `poll` until `done`; `coverage` tells at any time how far it is.

    An end beyond the log's end is brought back to it, unless `wait_for_end`. `max.poll.records` means nothing here: a
    poll hands out what one response brought. `decode` makes other columns of it than records (see `batch_headers`).
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        ranges: Mapping[TopicPartition, ReadRange],
        config: ConsumerConfig,
        *,
        wait_for_end: bool = False,
        memory_bytes: int = MEMORY_BYTES,
        decode: Decode | None = None,
    ) -> None:
        self._client = client
        self._ranges = dict(ranges)
        self._config = config
        self._wait_for_end = wait_for_end
        self._isolation = int(config.reads_committed)
        self._subscription = SubscriptionState()
        self._has_records = decode is None
        self._loop = FetchLoop(client, self._subscription, config, memory_bytes=memory_bytes, decode=decode)
        self._progress: dict[TopicPartition, Progress] = {}
        self._unresolved: dict[TopicPartition, KcliError] = {}
        self._topic_ids: dict[str, uuid.UUID | None] = {}
        self._out_of_range: dict[TopicPartition, int] = {}
        self._open = 0
        self._watch = Watch(config.default_api_timeout_ms)
        self._look_every_ms = min(LOOK_AROUND_MS, config.default_api_timeout_ms / 4)
        self._polled_ms = 0.0
        self._next_look_ms = 0.0
        self._is_resolved = False

    def __repr__(self) -> str:
        return f"<RangeReader open={self._open} of {len(self._ranges)} {self._loop.fetcher!r}>"

    # --- from bounds to offsets

    def resolve(self, deadline_ms: float) -> Results[TopicPartition, ResolvedRange]:
        """Ask the leaders what the ranges are in offsets. A partition that cannot be resolved is data in `errors`.

        TimeoutExpired when no broker could be asked at all.
        """
        from kcli.client.requests import Results

        facts, errors = self._ask_facts(deadline_ms)
        resolved = {
            tp: resolve_range(self._ranges[tp], told, wait_for_end=self._wait_for_end) for tp, told in facts.items()
        }
        self._unresolved = errors
        self._progress = {tp: Progress(it) for tp, it in resolved.items()}
        self._topic_ids = {tp.topic: self._client.metadata.topic_id(tp.topic) for tp in resolved}
        self._loop.fetcher.pinned_ids = self._topic_ids
        self._open = len(resolved)
        self._is_resolved = True
        self._subscription.assign(resolved)
        for tp, it in resolved.items():
            self._subscription.seek(tp, it.position)
            self._subscription.stop_at(tp, it.end)
        self._take_finished()
        if "max.partition.fetch.bytes" not in self._config.given:
            share = BULK_BYTES // max(1, self._open)
            self._loop.fetcher.partition_bytes = max(share, self._config.max_partition_fetch_bytes)
        return Results(resolved, errors)

    def _ask_facts(self, deadline_ms: float) -> tuple[dict[TopicPartition, LogFacts], dict[TopicPartition, KcliError]]:
        from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets

        errors: dict[TopicPartition, KcliError] = {}

        def ask(wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            wanted = {tp: timestamp for tp, timestamp in wanted.items() if tp not in errors}
            if not wanted:
                return {}
            gathered = list_offsets(self._client, wanted, deadline_ms, self._isolation)
            errors.update(gathered.errors)
            return {tp: found.offset for tp, found in gathered.values.items()}

        starts = ask(dict.fromkeys(self._ranges, EARLIEST))
        ends = ask(dict.fromkeys(self._ranges, LATEST))
        at_time: dict[TopicPartition, dict[int, int]] = {}
        times = {tp: times_of(asked) for tp, asked in self._ranges.items()}
        for turn in (0, 1):
            wanted = {tp: its[turn] for tp, its in times.items() if len(its) > turn}
            for tp, offset in ask(wanted).items():
                at_time.setdefault(tp, {})[wanted[tp]] = offset
        good = [tp for tp in self._ranges if tp not in errors]
        return {tp: LogFacts(starts[tp], ends[tp], at_time.get(tp, {})) for tp in good}, errors

    # --- reading

    @property
    def done(self) -> bool:
        """No partition has anything left to read. A partition without an end is done only if it failed."""
        return self._is_resolved and self._open == 0

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Records as soon as there are some, cut to their ranges; nothing when the time is over or a range is done."""
        self._look_around()
        if self.done:
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

    def _cut_start(self, handed: tuple[TopicPartition, RecordColumns]) -> tuple[TopicPartition, RecordColumns]:
        """Only a start beyond the log's end makes records arrive that nobody asked for."""
        tp, columns = handed
        start = self._progress[tp].resolved.start
        if self._has_records and len(columns) and columns.offsets[0] < start:
            columns = columns.take(slice(int(columns.offsets.searchsorted(start)), None))
        return tp, columns

    def _take_finished(self) -> None:
        for tp in list(self._subscription.finished):
            self._close(tp)
            self._progress[tp].finish()

    def _close(self, tp: TopicPartition) -> None:
        progress = self._progress[tp]
        state = self._subscription.get(tp)
        if state is not None and state.position is not None:
            progress.position = state.position.offset
        if progress.open:
            self._open -= 1
        self._subscription.drop(tp)

    def _fail(self, tp: TopicPartition, reason: str, error: KcliError | None = None) -> None:
        if self._progress[tp].open:
            self._close(tp)
            self._progress[tp].fail(reason, error)

    # --- what goes wrong

    def _failed(self, failure: Failure) -> None:
        if not self._progress[failure.tp].open:
            return
        if isinstance(failure.error, OffsetOutOfRange):
            self._find_way_back(failure.tp, failure.offset, failure.error)
        else:
            self._fail(failure.tp, str(failure.error), failure.error)

    def _find_way_back(self, tp: TopicPartition, offset: int, error: OffsetOutOfRange) -> None:
        """The position is not in the log: it is before its start, beyond its end, or neither, which passes."""
        try:
            log_start, log_end = self._log_limits(tp)
        except WakeupError:
            raise
        except KcliError as reason:
            return self._fail(tp, str(reason), reason)
        if offset < log_start:
            end = self._progress[tp].resolved.end
            behind = log_start if end is None else min(log_start, end)
            self._progress[tp].lost(max(offset, self._progress[tp].resolved.start), behind)
            return self._subscription.seek(tp, behind)
        if offset > log_end:
            return self._fail(tp, f"the log was truncated to {log_end} while it was read at {offset}", error)
        if self._out_of_range.get(tp) == offset:
            return self._fail(tp, str(error), error)
        self._out_of_range[tp] = offset
        return self._subscription.seek(tp, offset)

    def _log_limits(self, tp: TopicPartition) -> tuple[int, int]:
        from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets

        limits = []
        for timestamp in (EARLIEST, LATEST):
            deadline_ms = self._client.clock.now_ms() + self._config.default_api_timeout_ms
            gathered = list_offsets(self._client, {tp: timestamp}, deadline_ms, self._isolation)
            if tp in gathered.errors:
                raise gathered.errors[tp]
            limits.append(gathered.values[tp].offset)
        return limits[0], limits[1]

    def _look_around(self) -> None:
        """Deal with failures; and now and then: does every open partition still have a way to its end?

        Before the polling, not after it: what raises here must not take records with it.
        """
        while self._loop.failures:
            self._failed(self._loop.failures[-1])
            self._loop.failures.pop()
        self._watch.moved(self._loop.fetcher.take_moved(), self._polled_ms)
        if self._polled_ms < self._next_look_ms:
            return
        self._next_look_ms = self._polled_ms + self._look_every_ms
        self._look_for_new_topics()
        receding = []
        for tp, progress in list(self._progress.items()):
            if progress.open:
                error = self._verdict(tp, progress)
                if error is not None:
                    self._fail(tp, str(error), error)
                elif self._recedes(tp, progress):
                    receding.append(tp)
        if receding:
            self._look_at_ends(receding)

    def _verdict(self, tp: TopicPartition, progress: Progress) -> KcliError | None:
        fetcher, position = self._loop.fetcher, self._subscription.state(tp).position
        offset = -1 if position is None else position.offset
        return self._watch.verdict(
            tp,
            offset,
            fetcher.placed_at(tp),
            fetcher.trouble_of(tp),
            self._polled_ms,
            has_more=offset < self._sure_end(progress),
        )

    def _look_for_new_topics(self) -> None:
        for topic, before in self._topic_ids.items():
            now = self._client.metadata.topic_id(topic)
            if before is not None and now is not None and now != before:
                for tp in [tp for tp, it in self._progress.items() if it.open and tp.topic == topic]:
                    self._fail(tp, f"topic {topic} was deleted and created anew while it was read")

    def _recedes(self, tp: TopicPartition, progress: Progress) -> bool:
        """Whether the log is told to end before a place where it had records when we began."""
        state = self._subscription.state(tp)
        log_end = state.last_stable_offset if self._isolation else state.high_watermark
        return -1 < log_end < self._sure_end(progress)

    def _sure_end(self, progress: Progress) -> int:
        """Up to here there were records when the range was resolved; -1 when following."""
        end = progress.resolved.end
        return -1 if end is None else min(end, progress.resolved.log_end)

    def _look_at_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """A new leader may know of less for a moment; ListOffsets waits until it knows what is settled (KIP-207)."""
        from kcli.client.offset_lookup import LATEST, list_offsets

        deadline_ms = self._client.clock.now_ms() + LOOK_AROUND_MS
        try:
            gathered = list_offsets(self._client, dict.fromkeys(partitions, LATEST), deadline_ms, self._isolation)
        except TimeoutExpired:
            return  # the next look will be another try
        for tp, found in gathered.values.items():
            sure_end = self._sure_end(self._progress[tp])
            if found.offset < sure_end:
                self._fail(tp, f"the log was truncated: it ended at {sure_end} at first, now it ends at {found.offset}")

    # --- the account

    def coverage(self) -> list[PartitionCoverage]:
        """For every partition asked for: what was asked, what was covered, and why it stopped there."""
        account = []
        for tp, asked in self._ranges.items():
            progress = self._progress.get(tp)
            if progress is not None:
                state = self._subscription.get(tp)
                if progress.open and state is not None and state.position is not None:
                    progress.position = state.position.offset
                account.append(progress.coverage(tp))
            else:
                error = self._unresolved.get(tp)
                account.append(unresolved(tp, asked, str(error or "not resolved"), error))
        return account

    def close(self) -> None:
        """Stop fetching. The client stays open."""
        self._loop.close()


# A topic that a broker does not know may just have been created; after so long it has been deleted.
UNKNOWN_TOPIC_MS = 5_000.0
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Watch:
    """Remembers since when each range stands still, and since when its topic is unknown."""

    def __init__(self, patience_ms: float) -> None:
        self._patience_ms = patience_ms
        self._stands: dict[TopicPartition, tuple[int, float]] = {}
        self._unknown_since_ms: dict[TopicPartition, float] = {}
        self._moved_ms: dict[int, float] = {}

    def moved(self, nodes: Iterable[int], now_ms: float) -> None:
        """These brokers have given records that are news. Other partitions of theirs may have to wait their turn."""
        self._moved_ms.update(dict.fromkeys(nodes, now_ms))

    def verdict(
        self,
        tp: TopicPartition,
        position: int,
        node_id: int | None,
        trouble: Trouble | None,
        now_ms: float,
        *,
        has_more: bool,
    ) -> KcliError | None:
        """The error to end a range with, standing at `position` and served by `node_id`; None: waiting may help.

        `has_more`: there were records behind the position when the range was resolved, so something should come.
        """
        code = trouble.error.code if trouble is not None and isinstance(trouble.error, BrokerError) else None
        if code not in _UNKNOWN:
            self._unknown_since_ms.pop(tp, None)
        elif now_ms - self._unknown_since_ms.setdefault(tp, now_ms) >= UNKNOWN_TOPIC_MS:
            return BrokerError(code or 0, f"topic {tp.topic} is gone")
        stands_at, since_ms = self._stands.setdefault(tp, (position, now_ms))
        if stands_at != position:
            self._stands[tp] = position, now_ms
            return None
        if node_id is not None:
            since_ms = max(since_ms, self._moved_ms.get(node_id, since_ms))
        silent_ms = now_ms - since_ms
        if not has_more or silent_ms < self._patience_ms:
            return None
        why = f": {trouble.error}" if trouble is not None else ""
        return TimeoutExpired(f"nothing more came for {silent_ms / 1000:.3g} s{why}")
