"""Rules about the logs that a group reads: leaders, open transactions, and retention. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    format_topic_partitions,
    name_brokers,
    one_of_brokers,
    quantity,
)
from kcli.admin.groups.lag import CREATE_TIME
from kcli.text import format_duration, format_size
from kcli.visible import shell_word

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations, PartitionProgress, Retention
    from kcli.admin.groups.lag import PartitionLag
    from kcli.admin.logs.open_transactions import OpenTransaction

# Unread records are in danger from this fraction of the topic's retention on.
DANGER = 0.8

_INCREASE_RETENTION = (
    "Increase retention.ms or retention.bytes of the topic before the records are deleted, then find out why the group "
    "lags. Kafka deletes whole segments, so the deletion may come somewhat later."
)


def leaderless_partitions(facts: Observations) -> Iterator[Finding]:
    """Partitions without a leader: they cannot be read or written, and their end offset is unknown."""
    topics = {row.tp.topic for row in facts.partitions} | set(facts.group.topics)
    for name in sorted(topics):
        topic = facts.topic(name)
        leaderless = [info for info in topic.partitions.values() if info.leader < 0] if topic else []
        if not leaderless:
            continue
        replicas = sorted({node for info in leaderless for node in info.replicas})
        in_sync = sorted({node for info in leaderless for node in info.isr})
        offline = sorted({node for info in leaderless for node in info.offline})
        yield Finding(
            "leaderless",
            PROBLEM,
            format_topic_partitions(name, [info.partition for info in leaderless]),
            f"No leader. Replicas: {name_brokers(replicas)}; in sync: {name_brokers(in_sync)}; "
            f"offline: {name_brokers(offline)}.",
            f"Start {one_of_brokers(in_sync or offline or replicas)}. An unclean leader election would make another "
            "replica the leader and lose records.",
        )


def open_transactions(facts: Observations) -> Iterator[Finding]:
    """Transactions that hold back the last stable offset, where read_committed consumers stop."""
    before, after = facts.cluster.stable_ends
    for transaction in facts.cluster.transactions:
        tp = transaction.tp
        row = facts.rows.get(tp)
        stable_end = after.get(tp)
        if row is None or row.end is None or stable_end is None:
            continue
        if transaction.start_offset > stable_end or row.end <= stable_end:
            continue
        if before.get(tp) != stable_end:
            continue  # the last stable offset advances: short transactions are normal
        yield _open_transaction(facts, transaction, row, stable_end)


def _open_transaction(facts: Observations, transaction: OpenTransaction, row: PartitionLag, stable_end: int) -> Finding:
    now_ms, committed = facts.cluster.wall_ms, row.committed.offset if row.committed else None
    transactional_id = f", transactional id {transaction.transactional_id}" if transaction.transactional_id else ""
    evidence = (
        f"The transaction of producer {transaction.producer_id} (epoch {transaction.producer_epoch}{transactional_id}) "
        f"has been open {_age(transaction, now_ms)}. It starts at offset {transaction.start_offset}; the last stable "
        f"offset stays at {stable_end}, {quantity((row.end or 0) - stable_end, 'offset')} before the end of the log. "
    )
    if committed is None:
        severity = WARNING
        evidence += "The group has not committed an offset in this partition."
    elif committed < stable_end:
        severity = WARNING
        evidence += f"The group has not reached it yet: its committed offset is {committed}."
    elif committed == stable_end:
        severity = PROBLEM
        evidence += f"The committed offset is {committed}: a read_committed consumer cannot read further."
    else:
        severity = NOTE
        evidence += f"The committed offset is {committed}: the group reads uncommitted records and is not blocked."
    return Finding("open-transaction", severity, str(row.tp), evidence, _transaction_advice(transaction, row, now_ms))


def _age(transaction: OpenTransaction, now_ms: int) -> str:
    if transaction.started_ms is not None:
        return f"for {format_duration(max(0, now_ms - transaction.started_ms))}"
    if transaction.last_write_ms >= 0:
        return f"for at least {format_duration(max(0, now_ms - transaction.last_write_ms))} (since its last write)"
    return "for an unknown time"


def _transaction_advice(transaction: OpenTransaction, row: PartitionLag, now_ms: int) -> str:
    if transaction.hanging:
        return (
            "No coordinator knows this transaction, so no timeout ends it (a hanging transaction). Abort it: "
            f"kcli transaction abort --topic {shell_word(row.tp.topic)} --partition {row.tp.partition} "
            f"--start-offset {transaction.start_offset} --execute."
        )
    if transaction.started_ms is None or transaction.timeout_ms is None:
        return "Find the producer by its id. The coordinator aborts the transaction after its transaction.timeout.ms."
    remaining_ms = transaction.started_ms + transaction.timeout_ms - now_ms
    if remaining_ms > 0:
        return (
            "Check the producer. If it does not complete the transaction, the coordinator aborts the transaction in "
            f"{format_duration(remaining_ms)}."
        )
    return (
        f"The transaction timeout of {format_duration(transaction.timeout_ms)} has passed: the coordinator should be "
        f"aborting the transaction (state {transaction.state}). If it stays open, check the coordinator's log."
    )


def retention_limits(facts: Observations) -> Iterator[Finding]:
    """Records that retention deletes before the group has read them at its present rate."""
    for tp, progress in sorted(facts.progress.items()):
        retention = facts.cluster.retention.get(tp.topic)
        if retention is None or not progress.lag or (progress.second.start or 0) > _committed(progress):
            continue
        yield from _retention_by_time(facts, progress, retention)
        yield from _retention_by_size(facts, progress, retention)


def _retention_by_time(facts: Observations, progress: PartitionProgress, retention: Retention) -> Iterator[Finding]:
    age_ms = progress.second.time_lag_ms
    if retention.ms is None or age_ms is None:
        return
    remaining_ms, needed_ms = retention.ms - age_ms, _time_to_read(facts, progress)
    soon = age_ms >= DANGER * retention.ms
    if not soon and (needed_ms is None or needed_ms <= remaining_ms):
        return
    evidence = (
        f"The next record to read is {format_duration(age_ms)} old, and the topic keeps records for "
        f"{format_duration(retention.ms)}: "
    )
    if remaining_ms > 0:
        evidence += f"{format_duration(remaining_ms)} until it may be deleted."
    else:
        evidence += "it may be deleted at any moment."
    if needed_ms is not None:
        if soon and needed_ms < remaining_ms:
            return  # the group reads the records in time
        evidence += f" At its current rate the group needs {format_duration(needed_ms)} to read the remaining records."
    else:
        evidence += f" The group committed nothing in this partition in {format_duration(facts.elapsed_ms)}."
    doubts = [note for note in (progress.second.time_lag_note or "").split("; ") if note not in ("", CREATE_TIME)]
    if doubts:
        evidence += f" (The age is uncertain: {', '.join(doubts)}.)"
    severity = PROBLEM if soon else WARNING
    yield Finding("retention-overtakes", severity, str(progress.tp), evidence, _INCREASE_RETENTION)


def _retention_by_size(facts: Observations, progress: PartitionProgress, retention: Retention) -> Iterator[Finding]:
    log_bytes, row = facts.cluster.log_bytes.get(progress.tp), progress.second
    records = (row.end or 0) - (row.start or 0)
    if retention.bytes is None or not log_bytes or records <= 0:
        return
    unread_bytes = log_bytes * progress.lag / records
    if unread_bytes < DANGER * retention.bytes or progress.consumed > progress.produced:
        return
    evidence = (
        f"About {format_size(unread_bytes)} are unread, and the topic keeps {format_size(retention.bytes)} of each "
        "partition: Kafka deletes the oldest records as new records arrive."
    )
    severity = PROBLEM if unread_bytes >= retention.bytes else WARNING
    yield Finding("retention-overtakes", severity, str(progress.tp), evidence, _INCREASE_RETENTION)


def _time_to_read(facts: Observations, progress: PartitionProgress) -> float | None:
    """Return the ms that the group needs for its lag at the rate of its commits; None if it committed nothing."""
    return progress.lag * facts.committing_ms / progress.consumed if progress.consumed > 0 else None


def _committed(progress: PartitionProgress) -> int:
    return progress.second.committed.offset if progress.second.committed else -1
