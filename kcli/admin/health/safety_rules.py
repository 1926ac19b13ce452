"""Rules about topics that may lose records, transactions that hold records back, and facts that are missing. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import PROBLEM, WARNING, Finding, join_names, quantity
from kcli.admin.health.inventory import UNCLEAN_ELECTION
from kcli.text import format_duration
from kcli.visible import shell_word

if TYPE_CHECKING:
    from kcli.admin.health.inventory import Failure, Inventory
    from kcli.admin.logs.open_transactions import OpenTransaction

_GRACE_MS = 60_000  # coordinators look for expired transactions each 10 seconds


def single_replicas(facts: Inventory) -> Iterator[Finding]:
    """Topics with a partition that has one replica only, in a cluster of several brokers."""
    single = [
        topic.name for topic in facts.topics.values() if any(len(p.replicas) == 1 for p in topic.partitions.values())
    ]
    if single and len(facts.brokers) > 1:
        yield Finding(
            "single-replica",
            WARNING,
            _name_topics(sorted(single)),
            "A partition has one replica: it is not available while that broker is down, and lost with its disk.",
            "Add replicas with kafka-reassign-partitions.sh, and set default.replication.factor of the brokers.",
        )


def unclean_elections(facts: Inventory) -> Iterator[Finding]:
    """Topics that allow the election of a leader that is not in sync, which loses records."""
    allowed = [name for name, by in facts.topic_settings.items() if by.get(UNCLEAN_ELECTION) == "true"]
    if allowed:
        yield Finding(
            "unclean-election",
            WARNING,
            _name_topics(sorted(allowed)),
            "unclean.leader.election.enable is true: when no replica in sync is live, another one becomes the leader, "
            "and committed records are lost.",
            "Delete the setting from the topic (kcli topic alter TOPIC --delete-config "
            "unclean.leader.election.enable), or set it to false on the brokers.",
        )


def _name_topics(names: list[str]) -> str:
    return f"topic{'' if len(names) == 1 else 's'} {join_names(names)}"


def hanging_transactions(facts: Inventory) -> Iterator[Finding]:
    """Open transactions that no coordinator ends, and those that are open after their timeout."""
    for transaction in facts.transactions:
        if transaction.hanging:
            yield _hanging(transaction, facts)
        elif transaction.started_ms is not None and transaction.timeout_ms is not None:
            late_ms = facts.wall_ms - transaction.started_ms - transaction.timeout_ms
            if late_ms > _GRACE_MS:
                yield _overdue(transaction, late_ms)


def _hanging(transaction: OpenTransaction, facts: Inventory) -> Finding:
    tp = transaction.tp
    since = "for an unknown time"
    if transaction.last_write_ms >= 0:
        since = f"since its last write {format_duration(max(0, facts.wall_ms - transaction.last_write_ms))} ago"
    evidence = (
        f"The transaction of producer {transaction.producer_id} (epoch {transaction.producer_epoch}) is open {since}, "
        f"and no coordinator knows it. It starts at offset {transaction.start_offset}, where read_committed consumers "
        "stop."
    )
    advice = (
        f"Abort it: kcli transaction abort --topic {shell_word(tp.topic)} --partition {tp.partition} --start-offset "
        f"{transaction.start_offset} --execute."
    )
    if facts.restricted:
        evidence += " Coordinators hide transactional ids without DESCRIBE."
        advice = "Check with a principal that may describe all transactional ids. If no coordinator knows it: " + advice
    return Finding("hanging-transaction", PROBLEM, str(tp), evidence, advice)


def _overdue(transaction: OpenTransaction, late_ms: int) -> Finding:
    return Finding(
        "overdue-transaction",
        WARNING,
        str(transaction.tp),
        f"The transaction {transaction.transactional_id} of producer {transaction.producer_id} is in the state "
        f"{transaction.state}; its timeout of {format_duration(transaction.timeout_ms or 0)} passed "
        f"{format_duration(late_ms)} ago. It starts at offset {transaction.start_offset}, where read_committed "
        "consumers stop.",
        "Its coordinator should have ended it: read the coordinator's log, and check that all partitions of the "
        "transaction have leaders.",
    )


def unchecked_facts(facts: Inventory) -> Iterator[Finding]:
    """Facts that could not be requested, so that their rules found nothing."""
    by_fact: dict[str, list[Failure]] = {}
    for failure in facts.failures:
        by_fact.setdefault(failure.fact, []).append(failure)
    for fact, failures in by_fact.items():
        messages: dict[str, list[str]] = {}
        for failure in failures:
            messages.setdefault(str(failure.error), []).append(failure.where)
        texts = [_failed(message, [place for place in where if place]) for message, where in messages.items()]
        yield Finding(
            "unchecked",
            WARNING,
            fact,
            f"{quantity(len(failures), 'request')} failed: {join_names(texts, '; ')}. The cluster may have faults that "
            "are not reported.",
            "Correct the cause of the error, or use a principal with the right, then run the command again.",
        )


def _failed(message: str, where: list[str]) -> str:
    named = [name for name in where if name not in message]
    return f"{message} ({join_names(named)})" if named else message
