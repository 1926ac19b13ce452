"""Rules about offsets: committed outside the log, never committed, skewed lag, and the trend of the lag. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    format_topic_partitions,
    join_names,
    member_name,
    quantity,
)
from kcli.admin.groups.lag import rows_by_topic
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations, PartitionProgress
    from kcli.admin.groups.lag import PartitionLag

# A lag is skewed from this multiple of the median of the other partitions on, and from this number of records on.
SKEW_FACTOR = 10
SKEW_RECORDS = 1000


def committed_outside_log(facts: Observations) -> Iterator[Finding]:
    """Committed offsets below the start or beyond the end of the log."""
    below, beyond = [], []
    for row in facts.partitions:
        if row.committed is None or row.start is None or row.end is None or not facts.commits_offsets:
            continue
        if row.committed.offset < row.start:
            below.append(row)
        elif row.committed.offset > row.end:
            beyond.append(row)
    for topic, rows in rows_by_topic(below).items():
        lost = [(row.start or 0) - _committed(row) for row in rows]
        worst = rows[lost.index(max(lost))]
        yield Finding(
            "committed-below-start",
            PROBLEM,
            format_topic_partitions(topic, [row.tp.partition for row in rows]),
            f"Up to {quantity(sum(lost), 'record')} were deleted before the group read them: the committed offset of "
            f"{worst.tp} is {_committed(worst)}, but its log starts at {worst.start}.",
            "Retention or a DeleteRecords request overtook the group. A consumer continues where auto.offset.reset "
            "says: `earliest` at the start of the log, `latest` at its end without the records in between; `none` "
            "stops it with an error. Keep records for longer than the group may be stopped.",
        )
    for topic, rows in rows_by_topic(beyond).items():
        worst = max(rows, key=lambda row: _committed(row) - (row.end or 0))
        yield Finding(
            "committed-beyond-end",
            PROBLEM,
            format_topic_partitions(topic, [row.tp.partition for row in rows]),
            f"The committed offset of {worst.tp} is {_committed(worst)}, but its log ends at {worst.end}.",
            "The topic was deleted and created again, it lost records in an unclean leader election, or the offsets "
            "belong to another cluster. A consumer continues where auto.offset.reset says (`none` stops it with an "
            "error); its lag is unknown. Find the cause, then set the offsets with `kcli offsets reset`.",
        )


def never_committed(facts: Observations) -> Iterator[Finding]:
    """Partitions that a member owns, but that have no committed offset at either observation."""
    if not facts.commits_offsets or facts.first.error or facts.second.error:
        return
    before = {row.tp for row in facts.first.partitions if row.committed is None and not row.error}
    uncommitted = [
        row for row in facts.partitions if row.tp in before and row.committed is None and not row.error and row.member
    ]
    for topic, rows in rows_by_topic(uncommitted).items():
        unread = sum(_records(row) for row in rows)
        owners = join_names(sorted({member_name(row.member) for row in rows if row.member is not None}))
        evidence = f"Owned by {owners}, but no offset was ever committed; "
        if unread:
            evidence += (
                f"{'the partition has' if len(rows) == 1 else 'the partitions have'} {quantity(unread, 'record')}."
            )
            advice = (
                "The member may still be processing its first batch. Otherwise it reads without committing "
                "(enable.auto.commit=false and no commit in its code), or it reads nothing. After a restart, "
                "auto.offset.reset decides where it starts, so records are read twice or skipped."
            )
        else:
            evidence += f"{'the partition is' if len(rows) == 1 else 'the partitions are'} empty."
            advice = "Nothing to do: there is nothing to read yet."
        severity = WARNING if unread else NOTE
        partitions = format_topic_partitions(topic, [row.tp.partition for row in rows])
        yield Finding("never-committed", severity, partitions, evidence, advice)


def lag_skew(facts: Observations) -> Iterator[Finding]:
    """One partition of a topic whose lag is far above that of the others."""
    for rows in rows_by_topic(row for row in facts.partitions if row.lag is not None).values():
        lags = sorted(row.lag or 0 for row in rows)
        worst = max(rows, key=lambda row: row.lag or 0)
        middle = median(lags[:-1]) if len(lags) > 1 else 0.0
        if len(rows) < 2 or lags[-1] < SKEW_RECORDS or lags[-1] < SKEW_FACTOR * max(1.0, middle):
            continue
        progress = facts.progress.get(worst.tp)
        owner = f"owned by {member_name(worst.member)}" if worst.member is not None else "without an owner"
        evidence = (
            f"Lag {lags[-1]:,}, {owner}; the median lag of the other {quantity(len(rows) - 1, 'partition')} is "
            f"{middle:,.0f}."
        )
        if progress is not None and not progress.consumed:
            evidence += f" Nothing was committed there in {format_duration(facts.elapsed_ms)}."
            advice = (
                "The partition makes no progress: look for a record that its consumer fails on, starting at the "
                "committed offset."
            )
        else:
            advice = (
                "Either most records have the same key, or the owner is slower than the other members. Compare the "
                "write rates of the partitions."
            )
        yield Finding("one-far-behind", WARNING, str(worst.tp), evidence, advice)


def lag_trend(facts: Observations) -> Iterator[Finding]:
    """Growth or decrease of the total lag, with the rates of writing and committing."""
    progress = list(facts.progress.values())
    consumed, produced = sum(p.consumed for p in progress), sum(p.produced for p in progress)
    lag = sum(p.lag for p in progress)
    growth = lag - sum(p.first.lag or 0 for p in progress)
    if not growth:
        return
    verb = "committed" if facts.commits_offsets else "acknowledged"
    produced_per_s, consumed_per_s = produced / facts.elapsed_ms * 1000, consumed / facts.committing_ms * 1000
    evidence = (
        f"In {format_duration(facts.elapsed_ms)}: {quantity(produced, 'record')} written ({produced_per_s:,.1f}/s), "
        f"{quantity(consumed, 'record')} {verb} ({consumed_per_s:,.1f}/s). The lag changed from {lag - growth:,} to "
        f"{lag:,}."
    )
    if growth > 0:
        yield Finding("lag-grows", WARNING, facts.group.group, evidence + _largest_growth(progress), _advice(consumed))
        return
    rate = -growth / facts.elapsed_ms
    evidence += f" At this rate it reaches 0 in {format_duration(lag / rate)}." if lag else " The group has caught up."
    yield Finding("lag-shrinks", NOTE, facts.group.group, evidence, "Nothing to do: the group catches up.")


def _advice(consumed: int) -> str:
    if consumed <= 0:
        return (
            "The group commits nothing: follow the other findings first. If its consumers commit less often than "
            "--interval, repeat with a longer --interval."
        )
    return (
        "Two observations cover a short time: repeat with a longer --interval. If the lag keeps growing, more records "
        "are written than read: add members (up to the number of partitions), or make them faster."
    )


def _largest_growth(progress: list[PartitionProgress]) -> str:
    worst = max(progress, key=lambda p: p.produced - p.consumed)
    if len(progress) < 2:
        return ""
    return f" It grew most on {worst.tp}: {quantity(worst.produced - worst.consumed, 'record')}."


def unsubscribed_topics(facts: Observations) -> Iterator[Finding]:
    """Topics with committed offsets to which no member of the stable group subscribes."""
    members = facts.group.members
    if not facts.is_stable or not facts.commits_offsets or any(m.pattern or m.error for m in members):
        return
    subscribed = set(facts.group.topics)
    unsubscribed = [
        row
        for row in facts.partitions
        if row.tp.topic not in subscribed and row.committed is not None and not row.error
    ]
    for topic, rows in rows_by_topic(unsubscribed).items():
        lag = sum(row.lag or 0 for row in rows)
        yield Finding(
            "not-subscribed",
            NOTE,
            topic,
            f"The group has committed offsets of {format_topic_partitions(topic, [row.tp.partition for row in rows])} "
            f"(lag {lag:,}), but no member subscribes to {topic}.",
            "If the group no longer needs the topic, delete these offsets with `kcli offsets delete`; until then they "
            "count as lag.",
        )


def unavailable_facts(facts: Observations) -> Iterator[Finding]:
    """Missing topics, and errors other than a missing leader that kept a fact from the rules."""
    if facts.second.error is not None:
        evidence = f"The committed offsets could not be read: {facts.second.error}."
        advice = "The lag is unknown. Correct the cause of the error, then run the command again."
        yield Finding("unreadable", WARNING, facts.group.group, evidence, advice)
    topic_errors = dict(facts.topic_errors())
    for name, error in topic_errors.items():
        is_gone = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield Finding(
            "topic-gone" if is_gone else "unreadable",
            PROBLEM if any(name in member.topics for member in facts.group.members) else WARNING,
            name,
            f"The group uses {name}, but the cluster returns an error: {error}.",
            "The topic was deleted, or its name is wrong. Create it, or delete the group's offsets of it with `kcli "
            "offsets delete`."
            if is_gone
            else "Check that you are authorized to describe the topic, then run the command again.",
        )
    for row in facts.partitions:
        leaderless = isinstance(row.error, BrokerError) and row.error.code == ErrorCode.LEADER_NOT_AVAILABLE
        if row.error is not None and row.tp.topic not in topic_errors and not leaderless:
            advice = "Offsets of the partition are unknown. Correct the cause of the error, then run the command again."
            yield Finding("unreadable", WARNING, str(row.tp), f"{row.error}.", advice)


def _committed(row: PartitionLag) -> int:
    return row.committed.offset if row.committed is not None else -1


def _records(row: PartitionLag) -> int:
    return (row.end or 0) - (row.start or 0)
