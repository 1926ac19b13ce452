"""Where the batches of a stream end and what they read: start, limits, AvailableNow, new and vanished partitions.

Pure but for asking the `Lookup`; time comes in as ms of any steady clock. What Spark does, as seen on 4.0 to 4.3, and
what is done about it:

- `initialOffset` is asked twice for a new query, and again when batch 0 is done again; Spark stores only the *ends* of
  batches. So the first batch of a query is empty: its end, the start, is then in the offset log (T1).
- `latestOffset` is asked 90 times a second while there is nothing to do: the logs' ends are kept for
  `offsetPollIntervalMs` (T5).
- Under AvailableNow the answer `start` ends the query: the first look fixes the end, and nothing is delayed.

A topic that was deleted and made again is noticed by its id while the query runs. The offset log has no room for ids
(its form is the connector's), so that after a restart only offsets that lie beyond the log's end show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import NotFound
from kcli.spark.batch_plan import OffsetMap, Plan, fit, resolve_start, start_facts, sure_ends
from kcli.spark.loss import decide_gone, decide_recreated, decide_start
from kcli.spark.selection import missing_names
from kcli.spark.task_ranges import TaskRange, split_ranges
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.spark.lookup import LogEnds, Lookup
    from kcli.spark.options import SourceOptions


class Progress(NamedTuple):
    """The end of the next batch, and what was lost on the way to it under failOnDataLoss=false."""

    end: dict[TopicPartition, int]
    reports: list[str] = []


def initial_offsets(options: SourceOptions, lookup: Lookup) -> dict[TopicPartition, int]:
    """Where a new query starts: sentinels, times and groups resolved. Offsets given by number are kept as they are;
    the first batch that reads from them finds out whether they can be had."""
    committed, logs = start_facts(options, lookup)
    return resolve_start(options.starting, logs, committed, lookup)


class StreamPlanner:
    """The memory of one run of a query, in Spark's planner process."""

    def __init__(self, options: SourceOptions, lookup: Lookup) -> None:
        self._options = options
        self._lookup = lookup
        self._initial: dict[TopicPartition, int] | None = None
        self._is_pinned = False  # batch 0 has its end
        self._is_available_now = False
        self._final: dict[TopicPartition, LogEnds] | None = None
        self._seen: tuple[float, dict[TopicPartition, LogEnds]] | None = None
        self._last_batch_ms: float | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._restarted: dict[TopicPartition, int] = {}  # where we were when the topic was found to be another one

    def __repr__(self) -> str:
        return f"<StreamPlanner {self._options.selection}{' AvailableNow' if self._is_available_now else ''}>"

    def initial(self) -> dict[TopicPartition, int]:
        """The same answer however often it is asked."""
        if self._initial is None:
            self._initial = initial_offsets(self._options, self._lookup)
        return dict(self._initial)

    def prepare_available_now(self) -> None:
        """The next look at the logs fixes the end: what comes later is for the next run."""
        self._is_available_now = True

    @property
    def newest(self) -> dict[TopicPartition, int] | None:
        """The ends of the logs as last seen; None before the first look."""
        return None if self._seen is None else {tp: log.end for tp, log in self._seen[1].items()}

    def latest(self, start: OffsetMap, max_rows: int | None, now_ms: float, *, min_rows: int | None = None) -> Progress:
        """The end of the batch that begins at `start`; `start` itself: nothing to do now.

        `max_rows` and `min_rows` are what the engine's read limit says; neither is ReadAllAvailable, as under
        Trigger.Once, whatever the options limit. With `max_rows`, `minOffsetsPerTrigger` counts too, which Spark's
        Python API cannot say beside it. DataLoss, NotFound, BrokerError, TimeoutExpired.
        """
        logs = self._logs(start, now_ms)
        if not self._is_pinned:
            self._is_pinned = True
            if self._initial is not None and dict(start) == self._initial:
                return Progress(dict(start))
        begins = self._begins(start, logs)
        ends = {tp: max(log.end, begins[tp]) for tp, log in logs.items()}
        least = self._options.min_offsets_per_trigger if min_rows is None and max_rows is not None else min_rows
        backlog = sum(ends.values()) - sum(begins.values())
        if least is not None and not self._is_available_now and backlog < least:
            delay_ms = self._options.max_trigger_delay_ms
            if self._last_batch_ms is not None and now_ms - self._last_batch_ms < delay_ms:
                return Progress(dict(start))
        if max_rows is not None:
            ends = limit_pro_rata(begins, ends, max_rows)
        for tp, before in self._restarted.items():
            if ends.get(tp) == before > begins[tp]:
                ends[tp] -= 1  # an end like the start would say that nothing is to be read
        if ends != start:
            self._last_batch_ms = now_ms
        return Progress(ends)

    def plan(self, start: OffsetMap, end: OffsetMap) -> Plan:
        """The tasks of a batch from `start` to `end`, also when it is done again after a failure.

        Partitions that are new begin at their log's start. Vanished ones, and records that are gone, are lost data.
        """
        # Batch 0 of an earlier run, done again: its start was asked anew and may have moved, its end is what counts.
        is_first_again = self._initial is not None and not self._is_pinned
        self._is_pinned = True
        if dict(start) == dict(end):
            return Plan([], [], start, end)
        fail = self._options.fail_on_data_loss
        logs = self._lookup.logs(end, end)
        reports = [] if is_first_again else [_lost(tp, start[tp], fail) for tp in sorted(start.keys() - end.keys())]
        reports += [_lost(tp, start.get(tp), fail) for tp in sorted(end.keys() - logs.keys())]
        wanted = {}
        for tp in sorted(end.keys() & logs.keys()):
            begin, report = self._begin(tp, start, end[tp], logs[tp].start, is_first_again)
            wanted[tp] = (begin, max(begin, end[tp]))
            reports += [report] if report is not None else []
        starts, ends, lost = fit(wanted, logs, self._lookup, fail)
        ranges = [TaskRange(*tp, starts[tp], ends[tp]) for tp in starts]
        ranges = split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return Plan(ranges, reports + lost, starts, ends)

    def _begin(
        self, tp: TopicPartition, start: OffsetMap, end: int, log_start: int, is_first_again: bool
    ) -> tuple[int, str | None]:
        if tp not in start:
            return log_start, f"{tp} is new: it is read from {log_start} on" if log_start else None
        if is_first_again and start[tp] > end:
            return end, None
        fail = self._options.fail_on_data_loss
        if self._restarted.get(tp) == start[tp]:
            return log_start, decide_recreated(tp, start[tp], log_start, fail=fail).report
        if start[tp] > end:  # `latest` has found the log to end before it
            return log_start, decide_start(tp, start[tp], log_start, end, fail=fail).report
        return start[tp], None

    # --- what is known of the logs

    def _logs(self, start: OffsetMap, now_ms: float) -> dict[TopicPartition, LogEnds]:
        if self._final is not None:
            return self._final
        if self._seen is not None and now_ms - self._seen[0] < self._options.offset_poll_interval_ms:
            logs = self._seen[1]
            if all(tp in logs and offset <= logs[tp].end for tp, offset in start.items()):
                return logs
        logs = self._lookup.logs(start)
        self._look_for_recreated(start)
        self._seen = (now_ms, logs)
        if self._is_available_now:
            self._final = logs
        return logs

    def _look_for_recreated(self, start: OffsetMap) -> None:
        for topic, topic_id in self._lookup.topic_ids({tp.topic for tp in start}).items():
            if topic_id is None:
                continue
            if self._topic_ids.setdefault(topic, topic_id) != topic_id:
                self._restarted.update({tp: offset for tp, offset in start.items() if tp.topic == topic})
                self._topic_ids[topic] = topic_id

    def _begins(self, start: OffsetMap, logs: Mapping[TopicPartition, LogEnds]) -> dict[TopicPartition, int]:
        """Where each partition is really read from; what is lost is told by `plan`, unless it ends the query here."""
        fail = self._options.fail_on_data_loss
        for tp in sorted(start.keys() - logs.keys()):
            _lost(tp, start[tp], fail)
        if fail:  # else what was read once may have been left out since
            self._check_named(start, logs)
        self._restarted = {tp: before for tp, before in self._restarted.items() if start.get(tp) == before}
        known = {tp: start[tp] for tp in start.keys() & logs.keys()}
        log_ends = sure_ends(known, logs, self._lookup)
        begins = {tp: log.start for tp, log in logs.items()}
        for tp, wanted in sorted(known.items()):
            if tp in self._restarted:
                decide_recreated(tp, wanted, logs[tp].start, fail=fail)
                continue
            first = decide_start(tp, wanted, logs[tp].start, log_ends[tp], fail=fail)
            begins[tp] = wanted if first.offset is None else first.offset
        return begins

    def _check_named(self, start: OffsetMap, logs: Mapping[TopicPartition, LogEnds]) -> None:
        """A topic that the options name, and that never was there, is a mistake; one that was read is lost data."""
        read = {tp.topic for tp in start} | {str(tp) for tp in start}
        missing = [name for name in missing_names(self._options.selection, logs) if name not in read]
        if missing:
            raise NotFound(f"{', '.join(missing)} is not there")


def _lost(tp: TopicPartition, wanted: int | None, fail: bool) -> str:
    return decide_gone(tp, wanted, fail=fail).report or ""


def limit_pro_rata(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Ends such that about `most` offsets are read: each partition's share is that of its backlog, at least one, so
    that small ones do not starve; that may make it a few more."""
    backlog = {tp: ends[tp] - begins[tp] for tp in ends if ends[tp] > begins[tp]}
    total = sum(backlog.values())
    limited = dict(ends)
    for tp, size in backlog.items():
        limited[tp] = min(ends[tp], begins[tp] + max(1, most * size // total))
    return limited
