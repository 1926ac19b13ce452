"""Judgement of a soak by what its readers printed: nothing lost, doubled only after a crash, no CPU while idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MOST_SHOWN = 5
WINDOW_S = 5.0


class Line(NamedTuple):
    """A printed record; `value` is unique in the topic."""

    partition: int
    offset: int
    value: int


class Run(NamedTuple):
    """The output of one process. `crashed`: it was killed, so that its last records may be printed again by others."""

    lines: Sequence[Line]
    crashed: bool = False


class Sample(NamedTuple):
    """One process at one time: seconds since its start, CPU seconds so far, bytes printed so far."""

    at_s: float
    cpu_s: float
    printed: int


class Waiting(NamedTuple):
    """The time in which a process printed nothing, and its largest CPU share (of one core) in a window of it.

    `largest_at_s`: the end of that window, in seconds since the start of the process.
    """

    seconds: float
    largest_share: float
    largest_at_s: float


def read_lines(text: bytes) -> list[Line]:
    """Return the whole lines of an output; a kill can tear the last one."""
    whole = text.rpartition(b"\n")[0]
    return [Line(*map(int, line.split())) for line in whole.split(b"\n") if line]


def judge_log(acknowledged: Mapping[int, tuple[int, int]], ends: Mapping[int, int], follower: Run) -> list[str]:
    """Return the faults of the log, as a follower without a group printed it.

    `acknowledged`: partition and offset by value; `ends`: end offset by partition. Each offset is printed once, in
    order; each acknowledged value is at its offset; no value is in the log twice.
    """
    faults = []
    following = dict.fromkeys(ends, 0)
    stored: dict[int, tuple[int, int]] = {}
    for line in follower.lines:
        expected = following[line.partition]
        if line.offset != expected:
            faults.append(f"the follower printed offset {line.offset} of partition {line.partition}, not {expected}")
        following[line.partition] = line.offset + 1
        if line.value in stored:
            faults.append(f"value {line.value} is stored twice: at {stored[line.value]} and at {line[:2]}")
        stored[line.value] = line.partition, line.offset
    faults += [
        f"the follower ended at {following[partition]} of {end} in partition {partition}"
        for partition, end in ends.items()
        if following[partition] != end
    ]
    faults += [
        f"value {value} was acknowledged at {where} and is at {stored.get(value)}"
        for value, where in acknowledged.items()
        if stored.get(value) != where
    ]
    return faults


def judge_group(name: str, ends: Mapping[int, int], runs: Iterable[Run]) -> tuple[list[str], int]:
    """Return the faults of a group, and the number of records that were printed again after a crash.

    Each record is printed by a member, and by at most one that was not killed.
    """
    all_printed: Counter[tuple[int, int]] = Counter()
    by_survivors: Counter[tuple[int, int]] = Counter()
    for run in runs:
        printed = Counter(line[:2] for line in run.lines)
        all_printed += printed
        if not run.crashed:
            by_survivors += printed
    lost = [(partition, o) for partition, end in ends.items() for o in range(end) if (partition, o) not in all_printed]
    doubled = sorted(where for where, count in by_survivors.items() if count > 1)
    faults = []
    for what, places in (("lost", lost), ("doubled without a crash", doubled)):
        if places:
            faults.append(f"group {name}: {len(places)} records {what}: {places[:MOST_SHOWN]}")
    return faults, sum(count - 1 for count in all_printed.values() if count > 1)


def waiting_of(samples: Sequence[Sample], *, window_s: float = WINDOW_S, warm_up_s: float = 5.0) -> Waiting:
    """Return the waiting of one process: the windows in which it printed nothing.

    The first seconds after the first record do not count: there modules are imported.
    """
    begun = next((sample.at_s for sample in samples if sample.printed), float("inf"))
    counted = [sample for sample in samples if sample.at_s >= begun + warm_up_s]
    seconds, largest, largest_at_s, first = 0.0, 0.0, 0.0, 0
    for last in range(1, len(counted)):
        if counted[last].printed != counted[last - 1].printed:
            first = last
            continue
        seconds += counted[last].at_s - counted[last - 1].at_s
        while counted[last].at_s - counted[first + 1].at_s >= window_s:
            first += 1
        elapsed_s = counted[last].at_s - counted[first].at_s
        share = (counted[last].cpu_s - counted[first].cpu_s) / elapsed_s
        if elapsed_s >= window_s and share > largest:
            largest, largest_at_s = share, counted[last].at_s
    return Waiting(seconds, largest, largest_at_s)
