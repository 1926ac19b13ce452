"""SQL statements over topics and groups. Each statement reads the state at its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.pipelines.result import Result, collect
from kcli.spark.pipelines.source import load, with_pushdown
from kcli.spark.pipelines.sql_text import CALLS, Relation, Statement, columns_read, replace_relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.pipelines.source import KafkaSource


class StatementResult(NamedTuple):
    """Result of a statement; `more`: rows beyond the limit were dropped."""

    result: Result
    more: bool


def find_tables(statements: Sequence[Statement]) -> list[Relation]:
    """Return the distinct tables of kcli in the statements. ConfigError for malformed calls."""
    tables: list[Relation] = []
    for statement in statements:
        replace_relations(statement, lambda relation: tables.append(relation) or "x")  # type: ignore[func-returns-value]
    return list(dict.fromkeys(tables))


def run(
    spark: SparkSession,
    statements: Sequence[Statement],
    source_of: Callable[[Relation], KafkaSource],
    *,
    max_rows: int | None = None,
) -> Iterator[StatementResult]:
    """Run the statements in order, and yield the results of those that have one. `max_rows` None: no limit.

    Tables are planned anew for each statement; a view made by a statement keeps its offsets.
    """
    created_views: list[str] = []
    try:
        for statement in statements:
            frame = spark.sql(_with_tables(spark, statement, source_of, created_views).text)
            if frame.columns:
                result = collect(frame if max_rows is None else frame.limit(max_rows + 1))
                yield StatementResult(
                    Result(result.columns, result.rows[:max_rows]), max_rows is not None and len(result.rows) > max_rows
                )
    finally:
        for name in dict.fromkeys(created_views):
            spark.catalog.dropTempView(name)


def _with_tables(
    spark: SparkSession, statement: Statement, source_of: Callable[[Relation], KafkaSource], created_views: list[str]
) -> Statement:
    """Replace table calls by names of temporary views. These are unique, because other views may be based on them."""

    def name(relation: Relation) -> str:
        view_name = f"kcli_{relation.view}_{len(created_views)}" if relation.topics else relation.view
        source = with_pushdown(spark, source_of(relation))
        load(spark, source, relation.view, columns_of(statement, relation.view)).createOrReplaceTempView(view_name)
        created_views.append(view_name)
        return view_name

    return replace_relations(statement, name)


def columns_of(statement: Statement, view: str) -> list[str] | None:
    """Return the columns to read for a statement, None: all.

    Of large views only the necessary ones; at least one, because counting needs rows.
    """
    from kcli.spark.record_schema import ALL, CONNECTOR
    from kcli.spark.views.registry import VIEWS

    if view not in CALLS.values():
        return None
    usual = VIEWS[view].columns if view in VIEWS else CONNECTOR
    known = usual if view in VIEWS else ALL
    return columns_read(statement, [name for name, _ in known], [name for name, _ in usual]) or ["partition"]
