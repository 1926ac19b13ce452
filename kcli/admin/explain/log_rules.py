"""Rules about what lies under a group: leaders, open transactions, and retention that overtakes it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import NOTE, PROBLEM, WARNING, Finding, count, lasting, listed, partitions_of
from kcli.admin.groups.lag import CREATE_TIME
from kcli.text import format_size

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Movement, Observations, OpenTransaction, Retention
    from kcli.admin.groups.lag import PartitionLag

# Unread records are in danger when this part of their time, or of their room, is used up.
DANGER = 0.8


def leaderless(facts: Observations) -> Iterator[Finding]:
    """Partitions that nobody leads: not read, not written, not measured."""
    known = {row.tp.topic for row in facts.partitions} | set(facts.group.topics)
    for name in sorted(known):
        topic = facts.topic(name)
        dead = [info for info in topic.partitions.values() if info.leader < 0] if topic else []
        if not dead:
            continue
        away = sorted({node for info in dead for node in info.offline})
        kept = sorted({node for info in dead for node in info.replicas})
        in_sync = sorted({node for info in dead for node in info.isr})
        nodes = "no replica is told to be away"
        if away:
            nodes = f"broker {away[0]} is away" if len(away) == 1 else f"brokers {listed(map(str, away))} are away"
        yield Finding(
            "leaderless",
            PROBLEM,
            partitions_of(name, [info.partition for info in dead]),
            f"No leader; replicas on {listed(map(str, kept))}, in sync {listed(map(str, in_sync)) or 'none'}; {nodes}.",
            f"Bring {'broker' if len(in_sync or away) == 1 else 'one of brokers'} {listed(map(str, in_sync or away))} "
            "back. An unclean election makes another replica leader and loses records.",
        )


def open_transactions(facts: Observations) -> Iterator[Finding]:
    """Transactions that hold the last stable offset back, and with it all that read_committed consumers may see."""
    before, after = facts.around.stable_ends
    for transaction in facts.around.transactions:
        tp = transaction.tp
        row = facts.rows.get(tp)
        stable = after.get(tp)
        if row is None or row.end is None or stable is None or transaction.start_offset > stable or row.end <= stable:
            continue
        if before.get(tp) != stable:
            continue  # it was not the same at the first look: transactions come and go, as they should
        yield _pinning(facts, transaction, row, stable)


def _pinning(facts: Observations, transaction: OpenTransaction, row: PartitionLag, stable: int) -> Finding:
    now_ms, committed = facts.around.wall_ms, row.committed.offset if row.committed else None
    behind = (row.end or 0) - stable
    told = (
        f"The transaction of producer {transaction.producer_id} (epoch {transaction.producer_epoch}"
        f"{_name(transaction)}) has been open {_age(transaction, now_ms)} and begins at {transaction.start_offset}: "
        f"the last stable offset stays at {stable}, with {count(behind, 'offset')} behind it."
    )
    if committed is None or committed < stable:
        severity = WARNING
        told += f" The group is not there yet (committed {'nothing' if committed is None else committed})."
    elif committed == stable:
        severity = PROBLEM
        told += f" The group is committed at {committed}: a read_committed consumer cannot go on."
    else:
        severity = NOTE
        told += f" The group is committed at {committed}, so it does not read read_committed and is not stopped."
    return Finding("open-transaction", severity, str(row.tp), told, _to_do(transaction, row, now_ms))


def _name(transaction: OpenTransaction) -> str:
    return f", transactional id {transaction.transactional_id}" if transaction.transactional_id else ""


def _age(transaction: OpenTransaction, now_ms: int) -> str:
    if transaction.started_ms is not None:
        return f"for {lasting(max(0, now_ms - transaction.started_ms))}"
    if transaction.last_write_ms >= 0:
        return f"for at least {lasting(max(0, now_ms - transaction.last_write_ms))} (its last write)"
    return "for an unknown time"


def _to_do(transaction: OpenTransaction, row: PartitionLag, now_ms: int) -> str:
    if transaction.hanging:
        return (
            "No coordinator knows this transaction: it hangs, and no time-out will end it. Abort it: "
            f"kafka-transactions.sh abort --topic {row.tp.topic} --partition {row.tp.partition} "
            f"--start-offset {transaction.start_offset}."
        )
    if transaction.started_ms is None or transaction.timeout_ms is None:
        return "Find the producer by its id. Its coordinator ends the transaction at its transaction.timeout.ms."
    left_ms = transaction.started_ms + transaction.timeout_ms - now_ms
    if left_ms > 0:
        return (
            f"See what its producer does. If it is dead, the coordinator aborts the transaction in {lasting(left_ms)}."
        )
    return (
        f"Its time-out of {lasting(transaction.timeout_ms)} is over: the coordinator should be aborting it (state "
        f"{transaction.state}). If this stays so, see the coordinator's log."
    )


def retention(facts: Observations) -> Iterator[Finding]:
    """Records that will be deleted before the group, at its present rate, has read them."""
    for tp, movement in sorted(facts.movements.items()):
        limits = facts.around.retention.get(tp.topic)
        if limits is None or not movement.lag or (movement.second.start or 0) > _committed(movement):
            continue
        yield from _by_time(facts, movement, limits)
        yield from _by_size(facts, movement, limits)


def _by_time(facts: Observations, movement: Movement, limits: Retention) -> Iterator[Finding]:
    age_ms = movement.second.time_lag_ms
    if limits.ms is None or age_ms is None:
        return
    left_ms, needed_ms = limits.ms - age_ms, _time_to_read(facts, movement)
    soon = age_ms >= DANGER * limits.ms
    if not soon and (needed_ms is None or needed_ms <= left_ms):
        return
    told = f"The next record to read is {lasting(age_ms)} old, and the topic keeps records for {lasting(limits.ms)}"
    told += f": {lasting(left_ms)} are left." if left_ms > 0 else ": it may be deleted at any moment."
    if needed_ms is not None:
        if soon and needed_ms < left_ms:
            return  # it will be in time
        told += f" At its rate the group has read what is there in {lasting(needed_ms)}."
    else:
        told += f" The group committed nothing of it in {lasting(facts.elapsed_ms)}."
    doubts = [note for note in (movement.second.time_lag_note or "").split("; ") if note not in ("", CREATE_TIME)]
    if doubts:
        told += f" (Not sure, for the record: {', '.join(doubts)}.)"
    yield Finding("retention-overtakes", PROBLEM if soon else WARNING, str(movement.tp), told, _KEEP)


def _by_size(facts: Observations, movement: Movement, limits: Retention) -> Iterator[Finding]:
    size, row = facts.around.log_bytes.get(movement.tp), movement.second
    records = (row.end or 0) - (row.start or 0)
    if limits.bytes is None or not size or records <= 0:
        return
    unread = size * movement.lag / records
    if unread < DANGER * limits.bytes or movement.consumed > movement.produced:
        return
    told = (
        f"About {format_size(unread)} are not read yet, and the topic keeps {format_size(limits.bytes)} of each "
        "partition: the oldest go as new ones come."
    )
    yield Finding("retention-overtakes", PROBLEM if unread >= limits.bytes else WARNING, str(movement.tp), told, _KEEP)


_KEEP = (
    "Raise retention.ms or retention.bytes of the topic now, before the records are gone, then see why the group is "
    "behind. Whole segments are deleted, so it may come a little later than said."
)


def _time_to_read(facts: Observations, movement: Movement) -> float | None:
    """How long the group needs for what is there now, at the rate of its commits; None when it committed nothing."""
    return movement.lag * facts.committing_ms / movement.consumed if movement.consumed > 0 else None


def _committed(movement: Movement) -> int:
    return movement.second.committed.offset if movement.second.committed else -1
