"""The columns of a record as Spark sees them: the Kafka connector's own, and what kcli can add. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from kcli.errors import ConfigError

#: Beyond this a time in microseconds leaves 64 bits. No calendar knows such years, but a producer may send them.
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
#: Sizes in bytes without the bytes; null where the key or the value is. Only when asked for by name.
SIZES: Columns = [("key_size", "int"), ("value_size", "int"), ("headers_size", "int")]
#: What the record batch around a record says (record format v2). Only when asked for by name.
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


def record_columns(*, include_headers: bool = False, names: Iterable[str] | None = None) -> Columns:
    """The columns of the view `records`: the connector's, or those in `names`, in that order."""
    usual = [*CONNECTOR, HEADERS] if include_headers else list(CONNECTOR)
    if names is None:
        return usual
    return project(ALL, names)


def project(available: Columns, names: Iterable[str]) -> Columns:
    """The columns called `names`, in that order. ConfigError: there is none of that name, or it comes twice."""
    types = dict(available)
    chosen: Columns = []
    for name in names:
        if name not in types:
            near = difflib.get_close_matches(name, types, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(types)}"
            raise ConfigError(f"columns: there is no column {name!r}; {hint}")
        if name in dict(chosen):
            raise ConfigError(f"columns: {name} is named twice")
        chosen.append((name, types[name]))
    if not chosen:
        raise ConfigError(f"columns is empty: name some of {', '.join(types)}")
    return chosen


def ddl(columns: Sequence[tuple[str, str]]) -> str:
    """The columns as Spark's `CREATE TABLE` would have them."""
    return ", ".join(f"`{name}` {sql_type}" for name, sql_type in columns)
