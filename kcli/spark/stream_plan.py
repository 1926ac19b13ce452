"""Planning of a stream's batches: start, limits, AvailableNow, new and deleted partitions.

Pure except for calls of the `Lookup`; time is passed in as ms of a monotonic clock. Behaviour of Spark, as seen on 4.0
to 4.3, and its consequences:

- `initialOffset` is called twice for a new query, and again when batch 0 is repeated; Spark stores only the *ends* of
  batches. So the first batch of a query is empty: its end, which is the start, is then in the offset log.
- `latestOffset` is called 90 times a second while there is nothing to do: the log ends are cached for
  `offsetPollIntervalMs`.
- Under AvailableNow the answer `start` ends the query: the first look-up fixes the end, and nothing is delayed.

A topic that was deleted and created again is noticed by its id while the query runs. The offset log cannot store ids
(its format is the connector's), so after a restart this is noticed only if offsets are after the log end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import NotFound
from kcli.spark.batch_plan import OffsetMap, Plan, fit_ranges, known_ends, resolve_start, start_bounds
from kcli.spark.loss import decide_gone, decide_recreated, decide_start
from kcli.spark.selection import may_select, missing_names
from kcli.spark.task_ranges import TaskRange, split_ranges
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.spark.broker_lookup import LogEnds, Lookup
    from kcli.spark.options import SourceOptions


class Progress(NamedTuple):
    """End of the next batch, and reports of losses that failOnDataLoss=false permits."""

    end: dict[TopicPartition, int]
    reports: list[str] = []


def initial_offsets(options: SourceOptions, lookup: Lookup) -> dict[TopicPartition, int]:
    """Return the start of a new query: sentinels, times and groups are resolved.

    Offsets given as numbers are kept; the first batch that reads from them checks them.
    """
    committed, logs = start_bounds(options, lookup)
    return resolve_start(options.starting, logs, committed, lookup)


class StreamPlanner:
    """State of one run of a query, in Spark's planner process."""

    def __init__(self, options: SourceOptions, lookup: Lookup) -> None:
        self._options = options
        self._lookup = lookup
        self._initial: dict[TopicPartition, int] | None = None
        self._is_pinned = False  # True once batch 0 has an end
        self._is_available_now = False
        self._final: dict[TopicPartition, LogEnds] | None = None
        self._last_logs: tuple[float, dict[TopicPartition, LogEnds]] | None = None
        self._last_batch_ms: float | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._recreated: dict[TopicPartition, int] = {}  # offsets at which a recreated topic was noticed

    def __repr__(self) -> str:
        return f"<StreamPlanner {self._options.selection}{' AvailableNow' if self._is_available_now else ''}>"

    def initial(self) -> dict[TopicPartition, int]:
        """Return the start; repeated calls return the same offsets."""
        if self._initial is None:
            self._initial = initial_offsets(self._options, self._lookup)
        return dict(self._initial)

    def prepare_available_now(self) -> None:
        """Make the next look-up of log ends fix the end of the run."""
        self._is_available_now = True

    @property
    def newest(self) -> dict[TopicPartition, int] | None:
        """The log ends as last seen; None before the first look-up."""
        return None if self._last_logs is None else {tp: log.end for tp, log in self._last_logs[1].items()}

    def latest(self, start: OffsetMap, max_rows: int | None, now_ms: float, *, min_rows: int | None = None) -> Progress:
        """Return the end of the batch that begins at `start`; `start` itself if there is nothing to do now.

        `max_rows` and `min_rows` are the engine's read limit; neither is ReadAllAvailable, as under Trigger.Once,
        whatever the options are. With `max_rows`, `minOffsetsPerTrigger` is applied as well, which Spark's Python API
        cannot combine with it. DataLoss, NotFound, BrokerError, TimeoutExpired.
        """
        logs = self._logs(start, now_ms)
        if not self._is_pinned:
            self._is_pinned = True
            if self._initial is not None and dict(start) == self._initial:
                return Progress(dict(start))
        begins = self._batch_starts(start, logs)
        ends = {tp: max(log.end, begins[tp]) for tp, log in logs.items()}
        minimum = self._options.min_offsets_per_trigger if min_rows is None and max_rows is not None else min_rows
        backlog = sum(ends.values()) - sum(begins.values())
        if minimum is not None and not self._is_available_now and backlog < minimum:
            delay_ms = self._options.max_trigger_delay_ms
            if self._last_batch_ms is not None and now_ms - self._last_batch_ms < delay_ms:
                return Progress(dict(start))
        if max_rows is not None:
            ends = limit_pro_rata(begins, ends, max_rows)
        for tp, before in self._recreated.items():
            if ends.get(tp) == before > begins[tp]:
                ends[tp] -= 1  # an end equal to the start would mean that there is nothing to read
        if ends != start:
            self._last_batch_ms = now_ms
        return Progress(ends)

    def plan(self, start: OffsetMap, end: OffsetMap) -> Plan:
        """Return the tasks of a batch from `start` to `end`, also when it is repeated after a failure.

        New partitions begin at their log start. Deleted partitions and records are data loss.
        """
        # Batch 0 of an earlier run, repeated: its start was resolved again and may have moved, only its end is fixed.
        is_repeated_first = self._initial is not None and not self._is_pinned
        self._is_pinned = True
        if dict(start) == dict(end):
            return Plan([], [], start, end)
        fail = self._options.fail_on_data_loss
        logs = self._lookup.logs(end, end)
        reports = (
            [] if is_repeated_first else [self._report_gone(tp, start[tp]) for tp in sorted(start.keys() - end.keys())]
        )
        reports += [self._report_gone(tp, start.get(tp)) for tp in sorted(end.keys() - logs.keys())]
        requested = {}
        for tp in sorted(end.keys() & logs.keys()):
            begin, report = self._batch_start(tp, start, end[tp], logs[tp].start, is_repeated_first)
            requested[tp] = (begin, max(begin, end[tp]))
            reports += [report] if report is not None else []
        starts, ends, loss_reports = fit_ranges(requested, logs, self._lookup, fail, starts_again=True)
        ranges = [TaskRange(*tp, starts[tp], ends[tp]) for tp in starts]
        ranges = split_ranges(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return Plan(ranges, reports + loss_reports, starts, ends)

    def _batch_start(
        self, tp: TopicPartition, start: OffsetMap, end: int, log_start: int, is_repeated_first: bool
    ) -> tuple[int, str | None]:
        if tp not in start:
            return log_start, f"{tp} is new: reading it from offset {log_start}" if log_start else None
        if is_repeated_first and start[tp] > end:
            return end, None
        fail = self._options.fail_on_data_loss
        if self._recreated.get(tp) == start[tp]:
            return log_start, decide_recreated(tp, start[tp], log_start, fail=fail).report
        if start[tp] > end:  # `latest` has seen that the log ends before it
            return log_start, decide_start(tp, start[tp], log_start, end, fail=fail).report
        return start[tp], None

    def _logs(self, start: OffsetMap, now_ms: float) -> dict[TopicPartition, LogEnds]:
        if self._final is not None:
            return self._final
        if self._last_logs is not None and now_ms - self._last_logs[0] < self._options.offset_poll_interval_ms:
            logs = self._last_logs[1]
            if all(tp in logs and offset <= logs[tp].end for tp, offset in start.items()):
                return logs
        logs = self._lookup.logs(start)
        self._detect_recreated(start)
        self._last_logs = (now_ms, logs)
        if self._is_available_now:
            self._final = logs
        return logs

    def _detect_recreated(self, start: OffsetMap) -> None:
        for topic, topic_id in self._lookup.topic_ids({tp.topic for tp in start}).items():
            if topic_id is None:
                continue
            if self._topic_ids.setdefault(topic, topic_id) != topic_id:
                self._recreated.update({tp: offset for tp, offset in start.items() if tp.topic == topic})
                self._topic_ids[topic] = topic_id

    def _batch_starts(self, start: OffsetMap, logs: Mapping[TopicPartition, LogEnds]) -> dict[TopicPartition, int]:
        """Return the real start of each partition. Losses are reported by `plan`, except those that end the
        query here.
        """
        fail = self._options.fail_on_data_loss
        for tp in sorted(start.keys() - logs.keys()):
            self._report_gone(tp, start[tp])
        if fail:  # otherwise a topic that was read once may have been dropped since
            self._check_named(start, logs)
        self._recreated = {tp: before for tp, before in self._recreated.items() if start.get(tp) == before}
        existing_starts = {tp: start[tp] for tp in start.keys() & logs.keys()}
        log_ends = known_ends(existing_starts, logs, self._lookup)
        begins = {tp: log.start for tp, log in logs.items()}
        for tp, requested in sorted(existing_starts.items()):
            if tp in self._recreated:
                decide_recreated(tp, requested, logs[tp].start, fail=fail)
                continue
            first = decide_start(tp, requested, logs[tp].start, log_ends[tp], fail=fail)
            begins[tp] = requested if first.offset is None else first.offset
        return begins

    def _check_named(self, start: OffsetMap, logs: Mapping[TopicPartition, LogEnds]) -> None:
        """Raise NotFound for a named topic that never existed; for a topic that was read it is data loss."""
        read = {tp.topic for tp in start} | {str(tp) for tp in start}
        missing = [name for name in missing_names(self._options.selection, logs) if name not in read]
        if missing:
            raise NotFound(f"{', '.join(missing)} not found")

    def _report_gone(self, tp: TopicPartition, requested: int | None) -> str:
        is_selected = may_select(self._options.selection, tp)
        return decide_gone(tp, requested, fail=self._options.fail_on_data_loss, is_selected=is_selected).report or ""


def limit_pro_rata(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Return ends such that about `limit` offsets are read (maxOffsetsPerTrigger).

    The share of a partition is proportional to its backlog, and at minimum one offset, so that small partitions do not
    starve. The sum may therefore exceed `limit` slightly.
    """
    backlog = {tp: ends[tp] - begins[tp] for tp in ends if ends[tp] > begins[tp]}
    total = sum(backlog.values())
    limited = dict(ends)
    for tp, size in backlog.items():
        limited[tp] = min(ends[tp], begins[tp] + max(1, limit * size // total))
    return limited
