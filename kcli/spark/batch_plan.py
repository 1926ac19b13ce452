"""From options to the ranges of a batch: specs made offsets, exact-set check, loss. Pure but for asking the `Lookup`.

Everything is resolved once: retries of tasks and several actions on one DataFrame see the same offsets. (The JVM
connector leaves earliest and latest to its tasks, unless a range is split.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError, KcliError, NotFound
from kcli.spark.loss import Decision, decide_end, decide_start
from kcli.spark.offset_json import EARLIEST_OFFSET, LATEST_OFFSET
from kcli.spark.selection import check_exists
from kcli.spark.start_end import Ago, Everywhere, Moment, Moments, Offsets, OfGroup, Spec, Start
from kcli.spark.task_ranges import TaskRange, split_ranges
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.spark.lookup import LogEnds, Lookup
    from kcli.spark.options import SourceOptions

OffsetMap = Mapping[TopicPartition, int]


class Plan(NamedTuple):
    """The tasks of a batch. `reports`: what failOnDataLoss=false has passed over, a sentence each. `starts` and `ends`
    are the offsets by partition before ranges were split, empty ranges too."""

    ranges: list[TaskRange]
    reports: list[str]
    starts: OffsetMap
    ends: OffsetMap


def plan_batch(options: SourceOptions, lookup: Lookup) -> Plan:
    """What a batch reads, by what the brokers say now.

    ConfigError for offsets that do not name exactly the partitions, or an end before its start; NotFound for topics
    that are not there; DataLoss, BrokerError, TimeoutExpired.
    """
    committed, logs = start_facts(options, lookup)
    wanted = resolve_start(options.starting, logs, committed, lookup)
    asked = _resolve_end(options.ending.at, logs, lookup)
    for tp in sorted(logs):
        if wanted[tp] > asked[tp]:
            if not isinstance(options.starting.at, OfGroup):
                raise ConfigError(f"{tp} would start at {wanted[tp]} and end before that, at {asked[tp]}")
            asked[tp] = wanted[tp]  # the group is behind the end already
    starts, ends, reports = fit({tp: (wanted[tp], asked[tp]) for tp in logs}, logs, lookup, options.fail_on_data_loss)
    ranges = [TaskRange(*tp, starts[tp], ends[tp]) for tp in starts]
    ranges = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return Plan(ranges, reports, starts, ends)


def fit(
    wanted: Mapping[TopicPartition, tuple[int, int]],
    logs: Mapping[TopicPartition, LogEnds],
    lookup: Lookup,
    fail: bool,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], list[str]]:
    """Wanted starts and ends brought into the logs there are, and what is lost by that. DataLoss if `fail`."""
    log_ends = sure_ends({tp: max(both) for tp, both in wanted.items()}, logs, lookup)
    starts, ends, reports = {}, {}, []
    for tp in sorted(wanted):
        start, end = wanted[tp]
        log_start, readable = logs[tp]
        first = decide_start(tp, start, log_start, log_ends[tp], fail=fail, until=end)
        if start > log_ends[tp]:
            last = Decision(min(end, readable))
        else:
            last = decide_end(tp, end, log_ends[tp], fail=fail)
        starts[tp] = start if first.offset is None else first.offset
        ends[tp] = max(starts[tp], end if last.offset is None else last.offset)
        if ends[tp] > max(readable, starts[tp]):
            raise KcliError(
                f"{tp}: offsets up to {ends[tp]} are to be read, but from {readable} on transactions are open; "
                "isolation.level=read_committed has to wait for their end"
            )
        reports += [it.report for it in (first, last) if it.report is not None]
    return starts, ends, reports


def sure_ends(wanted: OffsetMap, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup) -> dict[TopicPartition, int]:
    """Behind these ends there is nothing: where more is wanted than can be read, the high watermark, since what open
    transactions hide from read_committed is not lost."""
    beyond = [tp for tp, offset in wanted.items() if offset > logs[tp].end]
    limits = lookup.high_watermarks(beyond) if beyond else {}
    return {tp: max(logs[tp].end, limits.get(tp, 0)) for tp in wanted}


def start_facts(options: SourceOptions, lookup: Lookup) -> tuple[OffsetMap, dict[TopicPartition, LogEnds]]:
    """What the start's group has committed, and the logs of what is selected: asked later, so that what is committed
    lies in them."""
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
    """The connector's rule: JSON names every partition that is read, and no other."""
    if not isinstance(at, (Offsets, Moments)):
        return
    named = at.offsets.keys() if isinstance(at, Offsets) else at.times.keys()
    name = f"{side}Offsets" if isinstance(at, Offsets) else f"{side}OffsetsByTimestamp"
    hint = " (-1: latest, -2: earliest)" if isinstance(at, Offsets) else ""
    if lacking := partitions - named:
        raise ConfigError(f"{name} must name every partition that is read{hint}: it lacks {_list(lacking)}")
    if strange := named - partitions:
        raise ConfigError(f"{name} must name only partitions that are read: {_list(strange)} is not")


def resolve_start(
    starting: Start, logs: Mapping[TopicPartition, LogEnds], committed: OffsetMap, lookup: Lookup
) -> dict[TopicPartition, int]:
    """The start of each log in offsets, as wanted: it may not be there any more."""
    at = starting.at
    if isinstance(at, OfGroup):
        return _of_group(starting, at.group, logs, committed)
    if isinstance(at, (Moment, Moments, Ago)):
        found = _at_times(at, logs, lookup)
        young = {tp for tp, offset in found.items() if offset < 0}
        if young and starting.no_match == "error":
            raise ConfigError(
                f"no record of {_list(young)} is as young as the start asks; "
                "startingOffsetsByTimestampStrategy=latest starts there with what is still to come"
            )
        return {tp: logs[tp].end if offset < 0 else offset for tp, offset in found.items()}
    return _sentinels(at, logs)


def _of_group(
    starting: Start, group: str, logs: Mapping[TopicPartition, LogEnds], committed: OffsetMap
) -> dict[TopicPartition, int]:
    lacking = logs.keys() - committed.keys()
    if lacking and starting.uncommitted == "error":
        what = _list(lacking) if lacking != logs.keys() else "what is read"
        raise NotFound(
            f"group {group} has committed nothing for {what}; "
            "startingGroupStrategy=earliest or latest says where to start there"
        )
    latest = starting.uncommitted == "latest"
    return {tp: committed.get(tp, log.end if latest else log.start) for tp, log in logs.items()}


def _resolve_end(at: Spec, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup) -> dict[TopicPartition, int]:
    if isinstance(at, (Moment, Moments, Ago)):
        found = _at_times(at, logs, lookup)
        return {tp: logs[tp].end if offset < 0 else offset for tp, offset in found.items()}
    return _sentinels(at, logs)


def _sentinels(at: Spec, logs: Mapping[TopicPartition, LogEnds]) -> dict[TopicPartition, int]:
    asked = at.offsets if isinstance(at, Offsets) else None
    which = at.offset if isinstance(at, Everywhere) else LATEST_OFFSET
    resolved = {}
    for tp, log in logs.items():
        offset = which if asked is None else asked[tp]
        resolved[tp] = {EARLIEST_OFFSET: log.start, LATEST_OFFSET: log.end}.get(offset, offset)
    return resolved


def _at_times(
    at: Moment | Moments | Ago, logs: Mapping[TopicPartition, LogEnds], lookup: Lookup
) -> dict[TopicPartition, int]:
    """By partition the first offset as young as asked, -1 for none. Not behind the log's end as it was asked before:
    what has come since is not part of this read."""
    if isinstance(at, Moments):
        times = {tp: at.times[tp] for tp in logs}
    else:
        ms = at.ms if isinstance(at, Moment) else max(0, lookup.now_ms() - at.ms)
        times = dict.fromkeys(logs, ms)
    found = lookup.at_times(times)
    return {tp: min(found.get(tp, -1), log.end) for tp, log in logs.items()}


def _list(partitions: Iterable[TopicPartition]) -> str:
    ordered = [str(tp) for tp in sorted(partitions)]
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return ", ".join(ordered[:5]) + more
