"""Rules about offsets: outside the log, never committed, one partition far behind, lag that grows or shrinks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import NOTE, PROBLEM, WARNING, Finding, count, listed, member_name, partitions_of
from kcli.admin.groups.lag import rows_by_topic
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Movement, Observations
    from kcli.admin.groups.lag import PartitionLag

# A partition is far behind if its lag is this many times the median of the others, and at least SKEW_AT_LEAST.
SKEW_FACTOR = 10
SKEW_AT_LEAST = 1000

_RESET = "With auto.offset.reset=none the consumer stops with an error instead."


def outside_the_log(seen: Observations) -> Iterator[Finding]:
    """Report committed offsets below the start or beyond the end of the log."""
    below, beyond = [], []
    for row in seen.partitions:
        if row.committed is None or row.start is None or row.end is None or not seen.commits:
            continue
        if row.committed.offset < row.start:
            below.append(row)
        elif row.committed.offset > row.end:
            beyond.append(row)
    for topic, rows in rows_by_topic(below).items():
        lost = [(row.start or 0) - _committed(row) for row in rows]
        worst = rows[lost.index(max(lost))]
        partitions = [row.tp.partition for row in rows]
        yield Finding(
            "committed-below-start",
            PROBLEM,
            partitions_of(topic, partitions),
            f"Up to {count(sum(lost), 'unread record')} were deleted: {worst.tp} is committed at {_committed(worst)}, "
            f"and its log starts at {worst.start}.",
            "Retention or a deletion of records overtook the group. Its consumers continue as auto.offset.reset says: "
            f"`latest` skips the remaining records too. {_RESET} Keep records for longer than the group may be "
            "stopped.",
        )
    for topic, rows in rows_by_topic(beyond).items():
        worst = max(rows, key=lambda row: _committed(row) - (row.end or 0))
        partitions = [row.tp.partition for row in rows]
        yield Finding(
            "committed-beyond-end",
            PROBLEM,
            partitions_of(topic, partitions),
            f"{worst.tp} is committed at {_committed(worst)}, but its log ends at {worst.end}.",
            "The topic was recreated, lost records in an unclean election, or the offsets are of another cluster. "
            f"Consumers continue as auto.offset.reset says, and the lag of 0 is wrong. {_RESET} Find the cause, then "
            "set the offsets.",
        )


def never_committed(seen: Observations) -> Iterator[Finding]:
    """Report owned partitions without a committed offset at both observations."""
    if not seen.commits or seen.first.error or seen.second.error:
        return
    had = {row.tp for row in seen.first.partitions if row.committed is None and not row.error}
    rows = [row for row in seen.partitions if row.tp in had and row.committed is None and not row.error and row.member]
    for topic, part in rows_by_topic(rows).items():
        records = sum(_records(row) for row in part)
        partitions = [row.tp.partition for row in part]
        owners = listed(sorted({member_name(row.member) for row in part if row.member is not None}))
        evidence = f"Owned by {owners}, but without a committed offset; "
        if records:
            evidence += f"{count(records, 'record')} exist."
            advice = (
                "The member may still process its first batch. Otherwise it does not commit (enable.auto.commit=false "
                "and no commit of its own), or does not read; after a restart auto.offset.reset decides, and records "
                "are read twice or skipped."
            )
        else:
            evidence += f"{'it is' if len(part) == 1 else 'they are'} empty."
            advice = "No action: there are no records yet."
        severity = WARNING if records else NOTE
        yield Finding("never-committed", severity, partitions_of(topic, partitions), evidence, advice)


def far_behind(seen: Observations) -> Iterator[Finding]:
    """Report a partition whose lag is far above that of the others."""
    for rows in rows_by_topic(row for row in seen.partitions if row.lag is not None).values():
        lags = sorted(row.lag or 0 for row in rows)
        worst = max(rows, key=lambda row: row.lag or 0)
        middle = median(lags[:-1]) if len(lags) > 1 else 0.0
        if len(rows) < 2 or lags[-1] < SKEW_AT_LEAST or lags[-1] < SKEW_FACTOR * max(1.0, middle):
            continue
        movement = seen.movements.get(worst.tp)
        stuck = movement is not None and not movement.consumed
        owner = f", owned by {member_name(worst.member)}" if worst.member is not None else ", without an owner"
        evidence = (
            f"Lag {lags[-1]:,}{owner}; the median of the other {count(len(rows) - 1, 'partition')} is {middle:,.0f}."
        )
        if stuck:
            evidence += f" It had no commit in {format_duration(seen.elapsed_ms)}."
            advice = "It is stuck: look for a record that fails in its consumer, from the committed offset on."
        else:
            advice = (
                "It moves: either a key has most of the records, or its owner is slower. Compare the produced records "
                "of each partition."
            )
        yield Finding("one-far-behind", WARNING, str(worst.tp), evidence, advice)


def lag_trend(seen: Observations) -> Iterator[Finding]:
    """Report whether the lag of the group grows or shrinks, and at what rate."""
    movements = list(seen.movements.values())
    consumed, produced = sum(m.consumed for m in movements), sum(m.produced for m in movements)
    lag = sum(m.lag for m in movements)
    grown = lag - sum(m.first.lag or 0 for m in movements)
    if not grown:
        return
    verb = "committed" if seen.commits else "acknowledged"
    produced_rate, consumed_rate = produced / seen.elapsed_ms * 1000, consumed / seen.committed_elapsed_ms * 1000
    evidence = (
        f"In {format_duration(seen.elapsed_ms)} {count(produced, 'record')} were produced and "
        f"{count(consumed, 'record')} were {verb} ({produced_rate:,.1f}/s and {consumed_rate:,.1f}/s). Lag: "
        f"{lag - grown:,}, then {lag:,}."
    )
    if grown > 0:
        yield Finding("lag-grows", WARNING, seen.group.group, evidence + _worst(movements), _grows(consumed))
        return
    rate = -grown / seen.elapsed_ms
    evidence += f" At this rate it is 0 in {format_duration(lag / rate)}." if lag else " It has caught up."
    yield Finding("lag-shrinks", NOTE, seen.group.group, evidence, "No action: the group catches up.")


def _grows(consumed: int) -> str:
    if consumed <= 0:
        return (
            "There are no commits: see the other findings first. If consumers commit less often, use a longer "
            "--interval."
        )
    return (
        "Observe again with a longer --interval. If the lag still grows, more is produced than consumed: add members "
        "(up to the number of partitions), or make them faster."
    )


def _worst(movements: list[Movement]) -> str:
    worst = max(movements, key=lambda m: m.produced - m.consumed)
    return (
        f" The largest growth is on {worst.tp}: {count(worst.produced - worst.consumed, 'record')}."
        if len(movements) > 1
        else ""
    )


def unread_topics(seen: Observations) -> Iterator[Finding]:
    """Report topics with committed offsets to which no member subscribes any more."""
    members = seen.group.members
    if not seen.at_rest or not seen.commits or any(m.pattern or m.error for m in members):
        return
    read = set(seen.group.topics)
    left = [row for row in seen.partitions if row.tp.topic not in read and row.committed is not None and not row.error]
    for topic, rows in rows_by_topic(left).items():
        lag = sum(row.lag or 0 for row in rows)
        yield Finding(
            "not-subscribed",
            NOTE,
            topic,
            f"The group has committed {partitions_of(topic, [row.tp.partition for row in rows])} (lag {lag:,}), but no "
            "member subscribes to it now.",
            "If the group no longer needs the topic, delete its offsets (`kcli offsets delete`); until then they "
            "count as lag.",
        )


def unreadable(seen: Observations) -> Iterator[Finding]:
    """Report missing topics, and partitions whose values could not be read, except those without a leader."""
    if seen.second.error is not None:
        evidence = f"Its committed offsets could not be read: {seen.second.error}."
        yield Finding(
            "unreadable", WARNING, seen.group.group, evidence, "The rules about its lag could not be applied."
        )
    gone = dict(seen.missing_topics())
    for name, error in gone.items():
        is_gone = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield Finding(
            "topic-gone" if is_gone else "unreadable",
            PROBLEM if any(name in member.topics for member in seen.group.members) else WARNING,
            name,
            f"The group uses {name}, but the cluster reports: {error}.",
            "The topic was deleted, or its name is wrong: create it, or delete the offsets of the group in it."
            if is_gone
            else "Check the permission to describe the topic, then run the command again.",
        )
    for row in seen.partitions:
        leaderless = isinstance(row.error, BrokerError) and row.error.code == ErrorCode.LEADER_NOT_AVAILABLE
        if row.error is not None and row.tp.topic not in gone and not leaderless:
            yield Finding(
                "unreadable",
                WARNING,
                str(row.tp),
                f"{row.error}.",
                "The rules about this partition could not be applied.",
            )


def _committed(row: PartitionLag) -> int:
    return row.committed.offset if row.committed is not None else -1


def _records(row: PartitionLag) -> int:
    return (row.end or 0) - (row.start or 0)
