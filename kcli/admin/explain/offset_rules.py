"""Rules about offsets: outside the log, never committed, one far behind the rest, lag that grows or shrinks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    count,
    lasting,
    listed,
    partitions_of,
)
from kcli.admin.explain.rebalance_rules import who
from kcli.admin.groups.lag import rows_by_topic
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Movement, Observations
    from kcli.admin.groups.lag import PartitionLag

# One partition is far behind when its lag is this many times the middle one's, and no trifle.
SKEW_FACTOR = 10
SKEW_AT_LEAST = 1000

_RESET = "With auto.offset.reset=none it stops with an error instead."


def outside_the_log(facts: Observations) -> Iterator[Finding]:
    """Committed offsets whose records are gone, or were never there."""
    below, beyond = [], []
    for row in facts.partitions:
        if row.committed is None or row.start is None or row.end is None or not facts.commits:
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
            f"Up to {count(sum(lost), 'record')} that the group had not read were deleted: {worst.tp} is committed at "
            f"{_committed(worst)}, and its log begins at {worst.start}.",
            "Retention or a deletion of records overtook the group. A consumer that comes to it goes on where "
            f"auto.offset.reset says: `latest` leaves out what is left, too. {_RESET} Keep records for longer than the "
            "group may stand still.",
        )
    for topic, rows in rows_by_topic(beyond).items():
        worst = max(rows, key=lambda row: _committed(row) - (row.end or 0))
        partitions = [row.tp.partition for row in rows]
        yield Finding(
            "committed-beyond-end",
            PROBLEM,
            partitions_of(topic, partitions),
            f"{worst.tp} is committed at {_committed(worst)}, but its log ends at {worst.end}.",
            "The topic was deleted and made again, lost records in an unclean election, or the offsets are another "
            f"cluster's. Readers start over as auto.offset.reset says; a lag of 0 is not true here. {_RESET} Find out "
            "which, then set the offsets.",
        )


def never_committed(facts: Observations) -> Iterator[Finding]:
    """Partitions that a member owns, but that the group has not committed at either look."""
    if not facts.commits or facts.first.error or facts.second.error:
        return
    had = {row.tp for row in facts.first.partitions if row.committed is None and not row.error}
    rows = [row for row in facts.partitions if row.tp in had and row.committed is None and not row.error and row.member]
    for topic, part in rows_by_topic(rows).items():
        waiting = sum(_records(row) for row in part)
        partitions = [row.tp.partition for row in part]
        owners = listed(sorted({who(row.member) for row in part if row.member is not None}))
        evidence = f"Owned by {owners}, but nothing was ever committed; "
        if waiting:
            evidence += f"{count(waiting, 'record')} are there."
            advice = (
                "It may not have come to the end of its first batch yet. Else it reads without committing "
                "(enable.auto.commit=false and no commit of its own), or it reads nothing; after a restart "
                "auto.offset.reset decides, and records are read twice or left out."
            )
        else:
            evidence += f"{'it is' if len(part) == 1 else 'they are'} empty."
            advice = "Nothing: there was nothing to read yet."
        severity = WARNING if waiting else NOTE
        yield Finding("never-committed", severity, partitions_of(topic, partitions), evidence, advice)


def far_behind(facts: Observations) -> Iterator[Finding]:
    """One partition of a topic whose lag is far above that of the others."""
    for rows in rows_by_topic(row for row in facts.partitions if row.lag is not None).values():
        lags = sorted(row.lag or 0 for row in rows)
        worst = max(rows, key=lambda row: row.lag or 0)
        middle = median(lags[:-1]) if len(lags) > 1 else 0.0
        if len(rows) < 2 or lags[-1] < SKEW_AT_LEAST or lags[-1] < SKEW_FACTOR * max(1.0, middle):
            continue
        movement = facts.movements.get(worst.tp)
        stands = movement is not None and not movement.consumed
        owner = f", owned by {who(worst.member)}" if worst.member is not None else ", owned by nobody"
        evidence = (
            f"Lag {lags[-1]:,}{owner}; the median of the other {count(len(rows) - 1, 'partition')} is {middle:,.0f}."
        )
        if stands:
            evidence += f" Nothing of it was committed in {lasting(facts.elapsed_ms)}."
            advice = "It stands still: look for a record that its consumer fails on, beginning at the committed offset."
        else:
            advice = (
                "It moves: a key with most of the records, or an owner that is slower than the others. Compare what is "
                "written to each partition."
            )
        yield Finding("one-far-behind", WARNING, str(worst.tp), evidence, advice)


def lag_trend(facts: Observations) -> Iterator[Finding]:
    """Whether the group as a whole catches up or falls back, and at which speed."""
    movements = list(facts.movements.values())
    consumed, produced = sum(m.consumed for m in movements), sum(m.produced for m in movements)
    lag = sum(m.lag for m in movements)
    grown = lag - sum(m.first.lag or 0 for m in movements)
    if not grown:
        return
    done_with = "committed" if facts.commits else "acknowledged"
    coming, going = produced / facts.elapsed_ms * 1000, consumed / facts.committing_ms * 1000
    told = (
        f"In {lasting(facts.elapsed_ms)} {count(produced, 'record')} came and {count(consumed, 'record')} were "
        f"{done_with} ({coming:,.1f}/s and {going:,.1f}/s). Lag: {lag - grown:,}, then {lag:,}."
    )
    if grown > 0:
        yield Finding("lag-grows", WARNING, facts.group.group, told + _worst(movements), _grows(consumed))
        return
    speed = -grown / facts.elapsed_ms
    told += f" At this rate it is gone in {lasting(lag / speed)}." if lag else " It has caught up."
    yield Finding("lag-shrinks", NOTE, facts.group.group, told, "Nothing: it catches up.")


def _grows(consumed: int) -> str:
    if consumed <= 0:
        return "Nothing is committed: see the other findings first. If consumers commit more seldom, look for longer."
    return (
        "Two looks are a short time: look again with a longer --interval. If it goes on, more is written than is read: "
        "add members (up to the number of partitions), or make them faster."
    )


def _worst(movements: list[Movement]) -> str:
    worst = max(movements, key=lambda m: m.produced - m.consumed)
    return f" Most on {worst.tp}: {count(worst.produced - worst.consumed, 'record')}." if len(movements) > 1 else ""


def unread_topics(facts: Observations) -> Iterator[Finding]:
    """Topics with commits that no member subscribes to any more, though the group has members."""
    members = facts.group.members
    if not facts.at_rest or not facts.commits or any(m.pattern or m.error for m in members):
        return
    read = set(facts.group.topics)
    left = [row for row in facts.partitions if row.tp.topic not in read and row.committed is not None and not row.error]
    for topic, rows in rows_by_topic(left).items():
        lag = sum(row.lag or 0 for row in rows)
        yield Finding(
            "not-subscribed",
            NOTE,
            topic,
            f"The group has committed {partitions_of(topic, [row.tp.partition for row in rows])} (lag {lag:,}), but no "
            "member subscribes to it now.",
            "If the group is done with the topic, its offsets may be deleted; until then they count as lag.",
        )


def unreadable(facts: Observations) -> Iterator[Finding]:
    """Topics that are gone, and partitions whose numbers could not be had, but for those without a leader."""
    if facts.second.error is not None:
        evidence = f"Its committed offsets could not be read: {facts.second.error}."
        yield Finding("unreadable", WARNING, facts.group.group, evidence, "Without them no rule could judge its lag.")
    gone = dict(facts.missing_topics())
    for name, error in gone.items():
        is_gone = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield Finding(
            "topic-gone" if is_gone else "unreadable",
            PROBLEM if any(name in member.topics for member in facts.group.members) else WARNING,
            name,
            f"The group knows {name}, but the cluster says: {error}.",
            "The topic was deleted, or its name is wrong: create it, or delete the group's offsets of it."
            if is_gone
            else "See that you may describe the topic, then ask again.",
        )
    for row in facts.partitions:
        leaderless = isinstance(row.error, BrokerError) and row.error.code == ErrorCode.LEADER_NOT_AVAILABLE
        if row.error is not None and row.tp.topic not in gone and not leaderless:
            yield Finding(
                "unreadable", WARNING, str(row.tp), f"{row.error}.", "What is missing here no rule could judge."
            )


def _committed(row: PartitionLag) -> int:
    return row.committed.offset if row.committed is not None else -1


def _records(row: PartitionLag) -> int:
    return (row.end or 0) - (row.start or 0)
