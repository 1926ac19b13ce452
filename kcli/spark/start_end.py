"""Start and end of a read from the options: precedence, relative times, groups, checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.settings import LONG_MAX
from kcli.spark.offset_json import EARLIEST_OFFSET, LATEST_OFFSET, offsets_dict, read_offsets, read_times
from kcli.spark.option_table import CANONICAL, OPTIONS
from kcli.structs import TopicPartition
from kcli.text import duration_ms, format_time


class Everywhere(NamedTuple):
    """The start (-2) or the end (-1) of every log."""

    offset: int


class Offsets(NamedTuple):
    """An offset for each partition; -2 and -1 as in `Everywhere`."""

    offsets: Mapping[TopicPartition, int]


class Moment(NamedTuple):
    """The first record at or after this time, ms since the epoch, in every partition."""

    ms: int


class Moments(NamedTuple):
    """A time for each partition, ms since the epoch."""

    times: Mapping[TopicPartition, int]


class Ago(NamedTuple):
    """A time relative to planning: this number of ms before it."""

    ms: int


class OfGroup(NamedTuple):
    """The committed offsets of a consumer group."""

    group: str


Spec = Everywhere | Offsets | Moment | Moments | Ago | OfGroup

EARLIEST = Everywhere(EARLIEST_OFFSET)
LATEST = Everywhere(LATEST_OFFSET)


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

    at: Spec = LATEST


def read_start(options: Mapping[str, str], *, stream: bool | None) -> Start:
    """Return the start from the options (keys in lower case).

    Precedence: startingTimestamp, startingOffsetsByTimestamp, startingOffsets; default: the log end for a stream, the
    log start for a batch. A restarted stream ignores it. `stream` None: not known yet, so the rules of neither are
    applied.
    """
    at = _spec(options, "starting") or (LATEST if stream else EARLIEST)
    latest = LATEST_OFFSET
    if stream is False and at == LATEST:
        raise ConfigError("startingOffsets of a batch cannot be latest: nothing would be read")
    if stream is False and isinstance(at, Offsets) and latest in at.offsets.values():
        tp = next(tp for tp, offset in at.offsets.items() if offset == latest)
        raise ConfigError(f"startingOffsets of a batch cannot be -1 (latest), as for {tp}")
    # A relative start, -1h, means "records since then": no records is then not an error, unless requested.
    no_match = _choice(options, "startingOffsetsByTimestampStrategy", "latest" if isinstance(at, Ago) else "error")
    return Start(at, no_match, _choice(options, "startingGroupStrategy", "error"))


def read_end(options: Mapping[str, str], *, stream: bool | None) -> End:
    """Return the end from the options (keys in lower case), with the same precedence. A stream has none."""
    if stream:
        for name in ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"):
            if name.lower() in options:
                raise ConfigError(f"{name} cannot be set for a stream, which has no end")
        return End()
    at = _spec(options, "ending") or LATEST
    if isinstance(at, OfGroup):
        raise ConfigError("endingOffsets cannot be group:NAME; only startingOffsets can")
    if at == EARLIEST:
        raise ConfigError("endingOffsets cannot be earliest: nothing would be read")
    if isinstance(at, Offsets) and EARLIEST_OFFSET in at.offsets.values():
        tp = next(tp for tp, offset in at.offsets.items() if offset == EARLIEST_OFFSET)
        raise ConfigError(f"endingOffsets cannot be -2 (earliest), as for {tp}")
    return End(at)


def check_order(start: Start, end: End) -> None:
    """Raise ConfigError if the end is before the start, or both are JSON for different partitions, as far as known
    here.
    """
    first, last = start.at, end.at
    if isinstance(first, Offsets) and isinstance(last, Offsets):
        _check_pairs(first.offsets, last.offsets, "Offsets", "offset", str)
    elif isinstance(first, Moments) and isinstance(last, Moments):
        _check_pairs(first.times, last.times, "OffsetsByTimestamp", "time", format_time)
    elif isinstance(first, Moment) and isinstance(last, Moment) and first.ms > last.ms:
        raise ConfigError(f"startingTimestamp {format_time(first.ms)} is after endingTimestamp {format_time(last.ms)}")
    elif isinstance(first, Ago) and isinstance(last, Ago) and first.ms < last.ms:
        raise ConfigError("the end is before the start")


def _check_pairs(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    name: str,
    noun: str,
    text: Callable[[int], str],
) -> None:
    if starts.keys() != ends.keys():
        unmatched = ", ".join(map(str, sorted(starts.keys() ^ ends.keys())))
        raise ConfigError(f"starting{name} and ending{name} must name the same partitions; {unmatched} is in one only")
    for tp in sorted(starts):
        if 0 <= ends[tp] < starts[tp]:
            end, start = text(ends[tp]), text(starts[tp])
            raise ConfigError(f"{tp}: the end {noun} {end} is before the start {noun} {start}")


def with_resolved_times(options: Mapping[str, str], now_ms: int) -> dict[str, str]:
    """Return the options for people: a time, relative or as a number, is followed by the one that it means now."""
    shown = dict(options)
    readers = {f"{side}{name}": read for side in ("starting", "ending") for name, read in _READ.items()}
    for name, text in options.items():
        canonical = CANONICAL.get(name.lower(), name)
        spec = readers[canonical](canonical, text.strip()) if canonical in readers else None
        if isinstance(spec, Moments):
            times = offsets_dict(spec.times)
            resolved = json.dumps({topic: {p: format_time(ms) for p, ms in of.items()} for topic, of in times.items()})
        elif isinstance(spec, (Moment, Ago)):
            resolved = format_time(moment_ms(spec, now_ms))
        else:
            continue
        if resolved != text:
            shown[name] = f"{text} ({resolved})"
    return shown


def moment_ms(at: Moment | Ago, now_ms: int) -> int:
    """Return the time in ms since the epoch."""
    return at.ms if isinstance(at, Moment) else max(0, now_ms - at.ms)


def _spec(options: Mapping[str, str], side: str) -> Spec | None:
    for name, read in _READ.items():
        text = options.get(f"{side}{name}".lower())
        if text is not None:
            return read(f"{side}{name}", text.strip())
    return None


def _moment(name: str, text: str) -> Spec:
    return _ago(text) or Moment(OPTIONS[name].parse(text))


def _moments(name: str, text: str) -> Spec:
    return Moments(read_times(text, name))


def _offsets(name: str, text: str) -> Spec:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    if text.startswith("group:"):
        if not text[6:].strip():
            raise ConfigError(f"{name}=group: has no group name; use group:NAME")
        return OfGroup(text[6:].strip())
    if not text.startswith("{"):
        ago = _ago(text)
        if ago is None:
            raise ConfigError(
                f"{name}: {text!r} is not valid; use earliest, latest, JSON, group:NAME or a relative time like -1h"
            )
        return ago
    return Offsets(read_offsets(text, name))


_READ = {"Timestamp": _moment, "OffsetsByTimestamp": _moments, "Offsets": _offsets}  # by precedence


def _ago(text: str) -> Ago | None:
    """Parse `-1h30m`. A unit is required, because -1 alone is an offset."""
    ms = duration_ms(text[1:]) if text.startswith("-") else None
    return None if ms is None or ms > LONG_MAX else Ago(round(ms))


def _choice(options: Mapping[str, str], name: str, default: str) -> str:
    return str(OPTIONS[name].parse(options.get(name.lower(), default)))
