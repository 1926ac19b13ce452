"""Planning of a batch read: options and log bounds to the offset ranges of tasks. Pure except for calls of the
`Lookup`.

Everything is resolved once, so retried tasks and several actions on one DataFrame read the same offsets. (The JVM
connector leaves earliest and latest to its tasks, unless a range is split.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError, KcliError, NotFound
from kcli.spark.loss import Decision, decide_end, decide_start
from kcli.spark.offset_json import EARLIEST_OFFSET, LATEST_OFFSET
from kcli.spark.selection import check_exists
from kcli.spark.start_end import Ago, Everywhere, Moment, Moments, Offsets, OfGroup, Spec, Start, moment_ms
from kcli.spark.task_ranges import TaskRange, split_ranges
from kcli.structs import TopicPartition
from kcli.text import format_time

if TYPE_CHECKING:
    from kcli.spark.broker_lookup import LogEnds, Lookup
    from kcli.spark.options import SourceOptions

OffsetMap = Mapping[TopicPartition, int]


class Plan(NamedTuple):
    """Plan of a batch.

    `ranges` are the tasks. `reports` has one sentence for each loss that failOnDataLoss=false permits. `starts` and
    `ends` are the offsets of each partition before ranges are split, including empty ranges.
    """

    ranges: list[TaskRange]
    reports: list[str]
    starts: OffsetMap
    ends: OffsetMap


def plan_batch(options: SourceOptions, lookup: Lookup) -> Plan:
    """Plan a batch from the present state of the cluster.

    ConfigError if offsets do not name exactly the partitions, or an end is before its start; NotFound for missing
    topics; DataLoss, BrokerError, TimeoutExpired.
    """
    committed, logs = start_bounds(options, lookup)
    starts_requested = resolve_start(options.starting, logs, committed, lookup)
    ends_requested = _resolve_end(options.ending.at, logs, lookup)
    for tp in sorted(logs):
        if starts_requested[tp] > ends_requested[tp]:
            if not isinstance(options.starting.at, OfGroup):
                raise ConfigError(
                    f"{tp}: the end offset {ends_requested[tp]} is before the start offset {starts_requested[tp]}"
                )
            ends_requested[tp] = starts_requested[tp]  # the group has already committed an offset after the end
    starts, ends, reports = fit_ranges(
        {tp: (starts_requested[tp], ends_requested[tp]) for tp in logs},
        logs,
        lookup,
        options.fail_on_data_loss,
        starts_again=False,
    )
    ranges = [TaskRange(*tp, starts[tp], ends[tp]) for tp in starts]
    ranges = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return Plan(ranges, reports, starts, ends)


def fit_ranges(
    requested: Mapping[TopicPartition, tuple[int, int]],
    logs: Mapping[TopicPartition, LogEnds],
    lookup: Lookup,
    fail: bool,
    *,
    starts_again: bool,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], list[str]]:
    """Return starts, ends and reports: the requested ranges cut to the existing logs.

    A stream `starts_again` where its position is after the log end. DataLoss if `fail` and records are lost.
    """
    log_ends = known_ends({tp: max(both) for tp, both in requested.items()}, logs, lookup)
    starts, ends, reports = {}, {}, []
    for tp in sorted(requested):
        start, end = requested[tp]
        log_start, readable = logs[tp]
        first = decide_start(tp, start, log_start, log_ends[tp], fail=fail, until=end, starts_again=starts_again)
        if start > log_ends[tp]:
            last = Decision(min(end, readable))
        else:
            last = decide_end(tp, end, log_ends[tp], fail=fail)
        starts[tp] = start if first.offset is None else first.offset
        ends[tp] = max(starts[tp], end if last.offset is None else last.offset)
        if ends[tp] > max(readable, starts[tp]):
            raise KcliError(
                f"{tp}: cannot read up to offset {ends[tp]}: transactions are open from offset {readable} on; "
                "retry after they end, or use isolation.level=read_uncommitted"
            )
        reports += [side.report for side in (first, last) if side.report is not None]
    return starts, ends, reports


def known_ends(
    requested: OffsetMap, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup
) -> dict[TopicPartition, int]:
    """Return the log ends after which no records exist.

    Where a requested offset is after the readable end, this is the high watermark: records that read_committed cannot
    see because of open transactions are not lost.
    """
    beyond = [tp for tp, offset in requested.items() if offset > logs[tp].end]
    limits = lookup.high_watermarks(beyond) if beyond else {}
    return {tp: max(logs[tp].end, limits.get(tp, 0)) for tp in requested}


def start_bounds(options: SourceOptions, lookup: Lookup) -> tuple[OffsetMap, dict[TopicPartition, LogEnds]]:
    """Return the offsets committed by the start's group, and the bounds of the selected logs.

    The bounds are read after the committed offsets, so that these are within the bounds.
    """
    at = options.starting.at
    committed = lookup.group_offsets(at.group) if isinstance(at, OfGroup) else {}
    partitions = lookup.partitions()
    check_exists(options.selection, partitions)
    _check_exact(options, partitions)
    logs = lookup.ends(partitions)
    check_exists(options.selection, logs)
    return committed, logs


def _check_exact(options: SourceOptions, partitions: set[TopicPartition]) -> None:
    _check_set(options.starting.at, partitions, "starting")
    _check_set(options.ending.at, partitions, "ending")


def _check_set(at: Spec, partitions: set[TopicPartition], side: str) -> None:
    """Apply the connector's rule: JSON names every partition that is read, and no other."""
    if not isinstance(at, (Offsets, Moments)):
        return
    named = at.offsets.keys() if isinstance(at, Offsets) else at.times.keys()
    name = f"{side}Offsets" if isinstance(at, Offsets) else f"{side}OffsetsByTimestamp"
    hint = " (-1: latest, -2: earliest)" if isinstance(at, Offsets) else ""
    if missing := partitions - named:
        raise ConfigError(f"{name} must name every partition that is read{hint}; {_partition_list(missing)} missing")
    if extra := named - partitions:
        raise ConfigError(f"{name} must name only partitions that are read; {_partition_list(extra)} not read")


def resolve_start(
    starting: Start, logs: Mapping[TopicPartition, LogEnds], committed: OffsetMap, lookup: Lookup
) -> dict[TopicPartition, int]:
    """Return the requested start offset of each log; it may no longer exist."""
    at = starting.at
    if isinstance(at, OfGroup):
        return _group_offsets(starting, at.group, logs, committed)
    if isinstance(at, (Moment, Moments, Ago)):
        offsets = _at_times(at, logs, lookup)
        unmatched = {tp for tp, offset in offsets.items() if offset < 0}
        if unmatched and starting.no_match == "error":
            raise ConfigError(
                f"{_partition_list(unmatched)}: no record at or after {_start_time(at, min(unmatched), lookup)}; "
                "use startingOffsetsByTimestampStrategy=latest to start at the log end"
            )
        return {tp: logs[tp].end if offset < 0 else offset for tp, offset in offsets.items()}
    return _resolve_sentinels(at, logs)


def _start_time(at: Moment | Moments | Ago, tp: TopicPartition, lookup: Lookup) -> str:
    return format_time(at.times[tp] if isinstance(at, Moments) else moment_ms(at, lookup.now_ms()))


def _group_offsets(
    starting: Start, group: str, logs: Mapping[TopicPartition, LogEnds], committed: OffsetMap
) -> dict[TopicPartition, int]:
    missing = logs.keys() - committed.keys()
    if missing and starting.uncommitted == "error":
        partitions = _partition_list(missing) if missing != logs.keys() else "the selected partitions"
        raise NotFound(
            f"group {group} has no committed offset for {partitions}; "
            "use startingGroupStrategy=earliest or latest to start there"
        )
    latest = starting.uncommitted == "latest"
    return {tp: committed.get(tp, log.end if latest else log.start) for tp, log in logs.items()}


def _resolve_end(at: Spec, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup) -> dict[TopicPartition, int]:
    if isinstance(at, (Moment, Moments, Ago)):
        offsets = _at_times(at, logs, lookup)
        return {tp: logs[tp].end if offset < 0 else offset for tp, offset in offsets.items()}
    return _resolve_sentinels(at, logs)


def _resolve_sentinels(at: Spec, logs: Mapping[TopicPartition, LogEnds]) -> dict[TopicPartition, int]:
    offsets = at.offsets if isinstance(at, Offsets) else None
    default = at.offset if isinstance(at, Everywhere) else LATEST_OFFSET
    resolved = {}
    for tp, log in logs.items():
        offset = default if offsets is None else offsets[tp]
        resolved[tp] = {EARLIEST_OFFSET: log.start, LATEST_OFFSET: log.end}.get(offset, offset)
    return resolved


def _at_times(
    at: Moment | Moments | Ago, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup
) -> dict[TopicPartition, int]:
    """Return the first offset at or after the time for each partition, -1 for none.

    Limited to the log end that was read before, because later records do not belong to this read.
    """
    if isinstance(at, Moments):
        times = {tp: at.times[tp] for tp in logs}
    else:
        times = dict.fromkeys(logs, moment_ms(at, lookup.now_ms()))
    offsets = lookup.at_times(times)
    return {tp: min(offsets.get(tp, -1), log.end) for tp, log in logs.items()}


def _partition_list(partitions: Iterable[TopicPartition]) -> str:
    ordered = [str(tp) for tp in sorted(partitions)]
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return ", ".join(ordered[:5]) + more
