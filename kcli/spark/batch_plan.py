"""Planning of a batch read: options and log bounds to the offset ranges of tasks. Pure except for calls of the
`Lookup`.

Everything is resolved once, so retried tasks and several actions on one DataFrame read the same offsets. (The JVM
connector leaves earliest and latest to its tasks, unless a range is split.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError, KcliError, NotFound
from kcli.log_place import Place, resolve
from kcli.spark.loss import Decision, decide_end, decide_start
from kcli.spark.selection import check_exists
from kcli.spark.start_end import ByPartition, End, OfGroup, Spec, Start
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
    ends_requested = _resolve_end(options.ending, logs, lookup)
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
    if not isinstance(at, ByPartition):
        return
    named, name = at.places.keys(), f"{side}{at.option}"
    hint = " (-1: latest, -2: earliest)" if at.option == "Offsets" else ""
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
    places = _places(at, logs, lookup)
    offsets, unmatched = _offsets_of(places, logs, lookup)
    if unmatched and starting.no_match == "error":
        time = format_time(places[min(unmatched)].n)
        raise ConfigError(
            f"{_partition_list(unmatched)}: no record at or after {time}; "
            "use startingOffsetsByTimestampStrategy=latest to start at the log end"
        )
    return offsets


def _resolve_end(ending: End, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup) -> dict[TopicPartition, int]:
    """Return the requested end offset of each log; it may no longer exist."""
    assert not isinstance(ending.at, OfGroup)  # refused with the options
    return _offsets_of(_places(ending.at, logs, lookup), logs, lookup)[0]


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


def _places(
    at: Place | ByPartition, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup
) -> dict[TopicPartition, Place]:
    """Return the place in each log; relative times are relative to now."""
    if isinstance(at, ByPartition):
        return {tp: at.places[tp] for tp in logs}
    return dict.fromkeys(logs, at.at(lookup.now_ms()))


def _offsets_of(
    places: Mapping[TopicPartition, Place], logs: Mapping[TopicPartition, LogEnds], lookup: Lookup
) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Return the offset of each place, and the partitions without a record at or after its time: these are log ends.

    An offset by time or count is limited to the log end that was read before, because later records do not belong to
    this read.
    """
    times = {tp: place.n for tp, place in places.items() if place.kind == "time"}
    at_times = lookup.at_times(times) if times else {}
    offsets = {}
    for tp, place in places.items():
        log = logs[tp]
        offset = resolve(place, log.start, log.end, at_times.get(tp))
        offsets[tp] = offset if place.kind == "offset" else min(offset, log.end)
    return offsets, {tp for tp in times if at_times.get(tp, -1) < 0}


def _partition_list(partitions: Iterable[TopicPartition]) -> str:
    ordered = [str(tp) for tp in sorted(partitions)]
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return ", ".join(ordered[:5]) + more
