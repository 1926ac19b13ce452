"""Pruning of offset ranges by a query's filters. Pure, except for one look-up of offsets by time.

Spark still applies every filter, so the bounds may be too wide but never too narrow. Timestamps are not monotonic in a
partition: the first record at or after a time is a safe start, but there is no safe end.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.spark.task_ranges import TaskRange

if TYPE_CHECKING:
    from kcli.spark.broker_lookup import Lookup

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Bounds(NamedTuple):
    """Bounds of the records that can pass; None: no bound. Offsets from `first` to before `end`, times from `since_ms`
    on.
    """

    topics: frozenset[str] | None = None
    prefixes: tuple[str, ...] = ()
    partitions: frozenset[int] | None = None
    first: int | None = None
    end: int | None = None
    since_ms: int | None = None

    def allow(self, topic: str, partition: int) -> bool:
        """Return whether records of this partition may pass."""
        return (
            (self.topics is None or topic in self.topics)
            and all(topic.startswith(prefix) for prefix in self.prefixes)
            and (self.partitions is None or partition in self.partitions)
        )


NO_BOUNDS = Bounds()


def bounds_of(filters: Iterable[Any], *, has_records: bool = True) -> Bounds:
    """Return the bounds of all filters together. Unknown filters set no bounds.

    `has_records` False: the rows are not records, so only filters of topic and partition apply.
    """
    bounds = NO_BOUNDS
    for filter_ in filters:
        attribute: Any = getattr(filter_, "attribute", ())
        if len(attribute) == 1:
            bounds = _narrow(bounds, type(filter_).__name__, attribute[0], filter_, has_records)
    return bounds


def _narrow(bounds: Bounds, kind: str, column: str, filter_: Any, has_records: bool) -> Bounds:
    if column in ("topic", "partition"):
        return _narrow_place(bounds, kind, column, filter_)
    if column == "offset" and has_records and isinstance(getattr(filter_, "value", None), int):
        return _narrow_offset(bounds, kind, filter_.value)
    if column == "timestamp" and has_records and kind in _LOWER and isinstance(filter_.value, datetime):
        since_ms = (_aware(filter_.value) - _EPOCH) // timedelta(milliseconds=1)
        return bounds._replace(since_ms=since_ms if bounds.since_ms is None else max(since_ms, bounds.since_ms))
    return bounds


_LOWER = ("EqualTo", "GreaterThan", "GreaterThanOrEqual")


def _narrow_place(bounds: Bounds, kind: str, column: str, filter_: Any) -> Bounds:
    if kind == "StringStartsWith" and column == "topic":
        return bounds._replace(prefixes=(*bounds.prefixes, filter_.value))
    if kind == "EqualTo":
        values = frozenset([filter_.value])
    elif kind == "In":
        values = frozenset(filter_.value)
    else:
        return bounds
    if column == "topic":
        return bounds._replace(topics=values if bounds.topics is None else bounds.topics & values)
    return bounds._replace(partitions=values if bounds.partitions is None else bounds.partitions & values)


def _narrow_offset(bounds: Bounds, kind: str, value: int) -> Bounds:
    first = {"EqualTo": value, "GreaterThanOrEqual": value, "GreaterThan": value + 1}.get(kind)
    end = {"EqualTo": value + 1, "LessThanOrEqual": value + 1, "LessThan": value}.get(kind)
    if first is not None:
        bounds = bounds._replace(first=first if bounds.first is None else max(first, bounds.first))
    if end is not None:
        bounds = bounds._replace(end=end if bounds.end is None else min(end, bounds.end))
    return bounds


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.astimezone()


def prune(bounds: Bounds, ranges: Iterable[TaskRange], lookup: Lookup) -> list[TaskRange]:
    """Return the narrowed ranges without empty ones. A time is looked up once for each partition."""
    ranges = [_cut(bounds, range_) for range_ in ranges if bounds.allow(range_.topic, range_.partition)]
    ranges = [range_ for range_ in ranges if range_.start < range_.end]
    # ListOffsets does not take times of zero and below, and a record without a timestamp has -1.
    if bounds.since_ms is None or bounds.since_ms <= 0 or not ranges:
        return ranges
    offsets = lookup.at_times({range_.tp: bounds.since_ms for range_ in ranges})
    # A partition that has been deleted meanwhile has no answer: its task reports the loss.
    started = [
        range_._replace(start=max(range_.start, offsets.get(range_.tp, 0)))
        for range_ in ranges
        if offsets.get(range_.tp) != -1
    ]
    return [range_ for range_ in started if range_.start < range_.end]


def _cut(bounds: Bounds, range_: TaskRange) -> TaskRange:
    start = range_.start if bounds.first is None else max(range_.start, bounds.first)
    end = range_.end if bounds.end is None else min(range_.end, bounds.end)
    return range_._replace(start=start, end=end)
