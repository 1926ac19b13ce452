"""Start and end of a read from the options: precedence, relative times, groups, checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, NamedTuple

from kcli.errors import ConfigError
from kcli.log_place import LOG_END, LOG_START, NAMED, Place, ends_before_start, parse_place, parse_place_option
from kcli.spark.offset_json import EARLIEST_OFFSET, LATEST_OFFSET, offsets_dict, read_offsets, read_times
from kcli.spark.option_table import CANONICAL, OPTIONS
from kcli.structs import TopicPartition
from kcli.text import format_time


class ByPartition(NamedTuple):
    """A place for each partition; `option` is the option that gives it, without starting or ending."""

    places: Mapping[TopicPartition, Place]
    option: Literal["Offsets", "OffsetsByTimestamp"] = "Offsets"


class OfGroup(NamedTuple):
    """The committed offsets of a consumer group."""

    group: str


Spec = Place | ByPartition | OfGroup


class Start(NamedTuple):
    """Start of a read.

    `no_match` is for partitions without a record at or after the time: `error` or `latest`. `uncommitted` is for
    partitions without a committed offset: `error`, `earliest` or `latest`.
    """

    at: Spec
    no_match: str = "error"
    uncommitted: str = "error"


class End(NamedTuple):
    """End of a batch, exclusive; never the log start."""

    at: Spec = LOG_END


def read_start(options: Mapping[str, str], *, stream: bool | None) -> Start:
    """Return the start from the options (keys in lower case).

    Precedence: startingTimestamp, startingOffsetsByTimestamp, startingOffsets; default: the log end for a stream, the
    log start for a batch. A restarted stream ignores it. `stream` None: not known yet, so the rules of neither are
    applied.
    """
    at = _spec(options, "starting") or (LOG_END if stream else LOG_START)
    if stream is False and at == LOG_END:
        raise ConfigError("startingOffsets of a batch cannot be latest: nothing would be read")
    if stream is False and isinstance(at, ByPartition) and LOG_END in at.places.values():
        tp = next(tp for tp, place in at.places.items() if place == LOG_END)
        raise ConfigError(f"startingOffsets of a batch cannot be -1 (latest), as for {tp}")
    # A relative start, -1h, means "records since then": no records is then not an error, unless requested.
    default = "latest" if isinstance(at, Place) and at.kind == "ago" else "error"
    no_match = _choice(options, "startingOffsetsByTimestampStrategy", default)
    return Start(at, no_match, _choice(options, "startingGroupStrategy", "error"))


def read_end(options: Mapping[str, str], *, stream: bool | None) -> End:
    """Return the end from the options (keys in lower case), with the same precedence. A stream has none."""
    if stream:
        for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
            if name.lower() in options:
                raise ConfigError(f"{name} cannot be set for a stream, which has no end")
        return End()
    at = _spec(options, "ending") or LOG_END
    if isinstance(at, OfGroup):
        raise ConfigError("endingOffsets cannot be group:NAME; only startingOffsets can")
    if at == LOG_START:
        raise ConfigError("endingOffsets cannot be earliest: nothing would be read")
    if isinstance(at, ByPartition) and LOG_START in at.places.values():
        tp = next(tp for tp, place in at.places.items() if place == LOG_START)
        raise ConfigError(f"endingOffsets cannot be -2 (earliest), as for {tp}")
    return End(at)


def check_order(start: Start, end: End) -> None:
    """Raise ConfigError if the end is before the start, or both are JSON for different partitions, as far as known
    here.
    """
    first, last = start.at, end.at
    if isinstance(first, ByPartition) and isinstance(last, ByPartition) and first.option == last.option:
        _check_pairs(first.places, last.places, first.option)
    elif isinstance(first, Place) and isinstance(last, Place) and ends_before_start(first, last):
        if first.kind == "time":
            raise ConfigError(
                f"startingTimestamp {format_time(first.n)} is after endingTimestamp {format_time(last.n)}"
            )
        raise ConfigError("the end is before the start")


def _check_pairs(starts: Mapping[TopicPartition, Place], ends: Mapping[TopicPartition, Place], option: str) -> None:
    if starts.keys() != ends.keys():
        unmatched = ", ".join(map(str, sorted(starts.keys() ^ ends.keys())))
        raise ConfigError(
            f"starting{option} and ending{option} must name the same partitions; {unmatched} is in one only"
        )
    noun = "offset" if option == "Offsets" else "time"
    for tp in sorted(starts):
        if ends_before_start(starts[tp], ends[tp]):
            end, start = (str(place).removeprefix("@") for place in (ends[tp], starts[tp]))
            raise ConfigError(f"{tp}: the end {noun} {end} is before the start {noun} {start}")


def with_resolved_times(options: Mapping[str, str], now_ms: int) -> dict[str, str]:
    """Return the options for people: a time, relative or as a number, is followed by the one that it means now."""
    shown = dict(options)
    readers = {f"{side}{name}": read for side in ("starting", "ending") for name, read in _READ.items()}
    for name, text in options.items():
        canonical = CANONICAL.get(name.lower(), name)
        spec = readers[canonical](canonical, text.strip()) if canonical in readers else None
        if isinstance(spec, ByPartition) and spec.option == "OffsetsByTimestamp":
            times = offsets_dict({tp: place.n for tp, place in spec.places.items()})
            resolved = json.dumps({topic: {p: format_time(ms) for p, ms in of.items()} for topic, of in times.items()})
        elif isinstance(spec, Place) and spec.kind in ("time", "ago"):
            resolved = format_time(spec.at(now_ms).n)
        else:
            continue
        if resolved != text:
            shown[name] = f"{text} ({resolved})"
    return shown


def _spec(options: Mapping[str, str], side: str) -> Spec | None:
    for name, read in _READ.items():
        text = options.get(f"{side}{name}".lower())
        if text is not None:
            return read(f"{side}{name}", text.strip())
    return None


def _moment(name: str, text: str) -> Spec:
    bare = text.removeprefix("@")
    try:
        return parse_place(f"@{bare}")
    except ConfigError:
        return Place.time(OPTIONS[name].parse(bare))  # raises an error that names the option and shows no secret


def _moments(name: str, text: str) -> Spec:
    return ByPartition({tp: Place.time(ms) for tp, ms in read_times(text, name).items()}, "OffsetsByTimestamp")


def _offsets(name: str, text: str) -> Spec:
    if text.startswith("group:"):
        if not text[6:].strip():
            raise ConfigError(f"{name}=group: has no group name; use group:NAME")
        return OfGroup(text[6:].strip())
    if text.startswith("{"):
        return ByPartition({tp: _json_place(offset) for tp, offset in read_offsets(text, name).items()})
    shapes = "earliest, latest, 100, +100, -100, @TIME, JSON, group:NAME or a relative time like -1h"
    if text in ("-1", "-2"):  # sentinels of Spark's JSON, and not counts
        raise ConfigError(f"{name}: {text!r} is not valid: latest is -1 and earliest is -2 in JSON only; use {shapes}")
    return NAMED.get(text.lower()) or parse_place_option(name, text, shapes=shapes)


def _json_place(offset: int) -> Place:
    return {EARLIEST_OFFSET: LOG_START, LATEST_OFFSET: LOG_END}.get(offset) or Place.offset(offset)


_READ = {"Timestamp": _moment, "OffsetsByTimestamp": _moments, "Offsets": _offsets}  # by precedence


def _choice(options: Mapping[str, str], name: str, default: str) -> str:
    return str(OPTIONS[name].parse(options.get(name.lower(), default)))
