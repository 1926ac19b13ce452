"""Columns of the view `records` with their SQL types: those of the Kafka connector, and additional ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kcli.errors import ConfigError
from kcli.text import closest_name

#: The largest time in ms that fits 64 bits in microseconds. No calendar has such years, but a producer may send them.
MOST_MS = (1 << 63) // 1000 - 1
#: (name, SQL type), in order.
Columns: TypeAlias = "list[tuple[str, str]]"

# The row of spark-sql-kafka-0-10 (structured-streaming-kafka-integration.md), in its order.
CONNECTOR: Columns = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
HEADERS = ("headers", "array<struct<key:string,value:binary>>")
#: Sizes in bytes; null where the key or the value is null. Only if selected by name.
SIZES: Columns = [("key_size", "int"), ("value_size", "int"), ("headers_size", "int")]
#: Fields of the record's batch (record format v2). Only if selected by name.
BATCH_FACTS: Columns = [
    ("leader_epoch", "int"),
    ("producer_id", "bigint"),
    ("producer_epoch", "int"),
    ("sequence", "int"),
    ("base_offset", "bigint"),
    ("compression", "string"),
    ("is_transactional", "boolean"),
]
ALL: Columns = [*CONNECTOR, HEADERS, *SIZES, *BATCH_FACTS]


def record_columns(
    *, include_headers: bool = False, names: Iterable[str] | None = None, decoded: Mapping[str, Columns] | None = None
) -> Columns:
    """Return the columns of the view `records`: the connector's, or those in `names`, in that order.

    `decoded` has the columns in place of `key` or `value`.
    """
    usual = [*CONNECTOR, HEADERS] if include_headers else list(CONNECTOR)
    available = ALL
    if decoded:
        usual, available = (
            [shown for column in columns for shown in decoded.get(column[0], [column])] for columns in (usual, ALL)
        )
    if names is None:
        return usual
    return project(available, names)


def project(available: Columns, names: Iterable[str]) -> Columns:
    """Return the columns called `names`, in that order. ConfigError for an unknown or repeated name."""
    types = dict(available)
    chosen: Columns = []
    for name in names:
        if name not in types:
            close = closest_name(name, types)
            hint = f"did you mean {close}?" if close else f"the columns are {', '.join(types)}"
            raise ConfigError(f"columns: {name!r} is not a column; {hint}")
        if name in dict(chosen):
            raise ConfigError(f"columns: {name} is given twice")
        chosen.append((name, types[name]))
    if not chosen:
        raise ConfigError(f"columns is empty; use some of {', '.join(types)}")
    return chosen


def ddl(columns: Sequence[tuple[str, str]]) -> str:
    """Return the columns in the syntax of Spark's `CREATE TABLE`."""
    return ", ".join(f"`{name}` {sql_type}" for name, sql_type in columns)
