"""Rules about logs: missing leaders, open transactions, and retention that overtakes a group. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import NOTE, PROBLEM, WARNING, Finding, count, listed, partitions_of
from kcli.admin.groups.lag import CREATE_TIME
from kcli.text import format_duration, format_size

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Movement, Observations, Retention
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.logs.open_transactions import OpenTransaction

# Unread records are in danger when this part of the retention time or size is used up.
DANGER = 0.8


def leaderless(seen: Observations) -> Iterator[Finding]:
    """Report partitions without a leader, which cannot be read, written or measured."""
    known = {row.tp.topic for row in seen.partitions} | set(seen.group.topics)
    for name in sorted(known):
        topic = seen.topic(name)
        dead = [info for info in topic.partitions.values() if info.leader < 0] if topic else []
        if not dead:
            continue
        away = sorted({node for info in dead for node in info.offline})
        kept = sorted({node for info in dead for node in info.replicas})
        in_sync = sorted({node for info in dead for node in info.isr})
        nodes = "no replica is reported offline"
        if away:
            nodes = (
                f"broker {away[0]} is offline" if len(away) == 1 else f"brokers {listed(map(str, away))} are offline"
            )
        yield Finding(
            "leaderless",
            PROBLEM,
            partitions_of(name, [info.partition for info in dead]),
            f"No leader; replicas on {listed(map(str, kept))}, in sync {listed(map(str, in_sync)) or 'none'}; {nodes}.",
            f"Restart {'broker' if len(in_sync or away) == 1 else 'one of brokers'} "
            f"{listed(map(str, in_sync or away))}. An unclean election makes another replica leader and loses records.",
        )


def open_transactions(seen: Observations) -> Iterator[Finding]:
    """Report transactions that hold back the last stable offset, up to which read_committed consumers read."""
    before, after = seen.surroundings.stable_ends
    for transaction in seen.surroundings.transactions:
        tp = transaction.tp
        row = seen.rows.get(tp)
        stable = after.get(tp)
        if row is None or row.end is None or stable is None or transaction.start_offset > stable or row.end <= stable:
            continue
        if before.get(tp) != stable:
            continue  # the last stable offset has moved since the first observation: short transactions are normal
        yield _pinning(seen, transaction, row, stable)


def _pinning(seen: Observations, transaction: OpenTransaction, row: PartitionLag, stable: int) -> Finding:
    now_ms, committed = seen.surroundings.wall_ms, row.committed.offset if row.committed else None
    behind = (row.end or 0) - stable
    evidence = (
        f"The transaction of producer {transaction.producer_id} (epoch "
        f"{transaction.producer_epoch}{_name(transaction)}) has been open {_age(transaction, now_ms)} and starts at "
        f"{transaction.start_offset}: the last stable offset is held at {stable}, with {count(behind, 'offset')} after "
        "it."
    )
    if committed is None or committed < stable:
        severity = WARNING
        evidence += f" The group has not reached it yet (committed: {'none' if committed is None else committed})."
    elif committed == stable:
        severity = PROBLEM
        evidence += f" The group has committed {committed}: a read_committed consumer cannot continue."
    else:
        severity = NOTE
        evidence += f" The group has committed {committed}, so it does not use read_committed and is not blocked."
    return Finding("open-transaction", severity, str(row.tp), evidence, _advice(transaction, row, now_ms))


def _name(transaction: OpenTransaction) -> str:
    return f", transactional id {transaction.transactional_id}" if transaction.transactional_id else ""


def _age(transaction: OpenTransaction, now_ms: int) -> str:
    if transaction.started_ms is not None:
        return f"for {format_duration(max(0, now_ms - transaction.started_ms))}"
    if transaction.last_write_ms >= 0:
        return f"for at least {format_duration(max(0, now_ms - transaction.last_write_ms))} (its last write)"
    return "for an unknown time"


def _advice(transaction: OpenTransaction, row: PartitionLag, now_ms: int) -> str:
    if transaction.hanging:
        return (
            "No coordinator knows this transaction: it hangs, and no time-out ends it. Abort it: "
            f"kafka-transactions.sh abort --topic {row.tp.topic} --partition {row.tp.partition} --start-offset "
            f"{transaction.start_offset}."
        )
    if transaction.started_ms is None or transaction.timeout_ms is None:
        return "Find the producer by its id. Its coordinator aborts the transaction after transaction.timeout.ms."
    left_ms = transaction.started_ms + transaction.timeout_ms - now_ms
    if left_ms > 0:
        return (
            f"Check its producer. If it is dead, the coordinator aborts the transaction in {format_duration(left_ms)}."
        )
    return (
        f"Its time-out of {format_duration(transaction.timeout_ms)} has passed: the coordinator should abort it (state "
        f"{transaction.state}). If this lasts, see the coordinator's log."
    )


def retention(seen: Observations) -> Iterator[Finding]:
    """Report records that are deleted before the group, at its current rate, reads them."""
    for tp, movement in sorted(seen.movements.items()):
        limits = seen.surroundings.retention.get(tp.topic)
        if limits is None or not movement.lag or (movement.second.start or 0) > _committed(movement):
            continue
        yield from _by_time(seen, movement, limits)
        yield from _by_size(seen, movement, limits)


def _by_time(seen: Observations, movement: Movement, limits: Retention) -> Iterator[Finding]:
    age_ms = movement.second.time_lag_ms
    if limits.ms is None or age_ms is None:
        return
    left_ms, needed_ms = limits.ms - age_ms, _time_to_read(seen, movement)
    soon = age_ms >= DANGER * limits.ms
    if not soon and (needed_ms is None or needed_ms <= left_ms):
        return
    evidence = (
        f"The next record to read is {format_duration(age_ms)} old, and the retention time of the topic is "
        f"{format_duration(limits.ms)}"
    )
    evidence += f": {format_duration(left_ms)} remain." if left_ms > 0 else ": it can be deleted at any time."
    if needed_ms is not None:
        if soon and needed_ms < left_ms:
            return  # the group reads it in time
        evidence += f" At its current rate the group needs {format_duration(needed_ms)} for the existing records."
    else:
        evidence += f" The group did not commit in this partition in {format_duration(seen.elapsed_ms)}."
    doubts = [note for note in (movement.second.time_lag_note or "").split("; ") if note not in ("", CREATE_TIME)]
    if doubts:
        evidence += f" (Not exact, because of the record: {', '.join(doubts)}.)"
    yield Finding("retention-overtakes", PROBLEM if soon else WARNING, str(movement.tp), evidence, _KEEP)


def _by_size(seen: Observations, movement: Movement, limits: Retention) -> Iterator[Finding]:
    size, row = seen.surroundings.log_bytes.get(movement.tp), movement.second
    records = (row.end or 0) - (row.start or 0)
    if limits.bytes is None or not size or records <= 0:
        return
    unread = size * movement.lag / records
    if unread < DANGER * limits.bytes or movement.consumed > movement.produced:
        return
    evidence = (
        f"About {format_size(unread)} are unread, and the topic keeps {format_size(limits.bytes)} per partition: the "
        "oldest records are deleted as new ones arrive."
    )
    yield Finding(
        "retention-overtakes", PROBLEM if unread >= limits.bytes else WARNING, str(movement.tp), evidence, _KEEP
    )


_KEEP = (
    "Increase retention.ms or retention.bytes of the topic now, then find out why the group lags. Whole segments are "
    "deleted, so the deletion may come a little later."
)


def _time_to_read(seen: Observations, movement: Movement) -> float | None:
    """Return the time in ms to read the existing records at the rate of the commits; None without a commit."""
    return movement.lag * seen.committed_elapsed_ms / movement.consumed if movement.consumed > 0 else None


def _committed(movement: Movement) -> int:
    return movement.second.committed.offset if movement.second.committed else -1
