"""Items of transactions, with their columns, and the options that select transactional ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from kcli.cli.parser import Argument
from kcli.errors import ConfigError
from kcli.structs import numbers_by_topic

if TYPE_CHECKING:
    from kcli.admin.logs.open_transactions import OpenTransaction
    from kcli.admin.transactions import Transaction
    from kcli.cli.output.report import Item

TransactionalIds = Annotated[list[str], Argument(metavar="ID...", help="Transactional ids.")]

COLUMNS = ["transactional_id", "state", "producer_id", "epoch", "age", "timeout", "partitions"]


def check_ids(ids: Sequence[str]) -> None:
    """Raise ConfigError for an empty transactional id, which an unset variable of a script gives."""
    if "" in ids:
        raise ConfigError("transactional id must not be empty")


def transaction_item(transaction: Transaction, now_ms: int) -> Item:
    """Return a described transaction. `age_ms` and `started_ms` are null without an open transaction."""
    started_ms = transaction.started_ms if transaction.is_open and transaction.started_ms >= 0 else None
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "epoch": transaction.producer_epoch,
        "started_ms": started_ms,
        "age_ms": None if started_ms is None else max(0, now_ms - started_ms),
        "timeout_ms": transaction.timeout_ms,
        "topics": [
            {"topic": topic, "partitions": numbers}
            for topic, numbers in numbers_by_topic(transaction.partitions).items()
        ],
    }


def table_row(item: Item) -> Item:
    """Return the row of an item in a table: durations and partitions as text."""
    from kcli.cli.group.rows import format_node
    from kcli.text import format_duration, format_partitions

    ages = {name: item.get(f"{name}_ms") for name in ("age", "timeout")}
    topics = item.get("topics")
    return {
        **item,
        **{name: None if ms is None else format_duration(ms) for name, ms in ages.items()},
        "partitions": [f"{topic['topic']}:{format_partitions(topic['partitions'])}" for topic in topics]
        if topics
        else None,
        "coordinator": format_node(item.get("coordinator")),
    }


def hanging_item(transaction: OpenTransaction, now_ms: int) -> Item:
    """Return a hanging transaction; `last_write_age_ms` null: the time of the last write is unknown."""
    last_ms = transaction.last_write_ms
    return {
        "topic": transaction.tp.topic,
        "partition": transaction.tp.partition,
        "start_offset": transaction.start_offset,
        "producer_id": transaction.producer_id,
        "epoch": transaction.producer_epoch,
        "last_write_ms": last_ms if last_ms >= 0 else None,
        "last_write_age_ms": max(0, now_ms - last_ms) if last_ms >= 0 else None,
    }


def hanging_row(item: Item) -> Item:
    """Return the row of an item in a table: the time since the last write as text."""
    from kcli.text import format_duration

    age_ms = item.get("last_write_age_ms")
    return {**item, "last_write": None if age_ms is None else format_duration(age_ms)}
