"""Statements of SQL over topics and what is known of groups. Each reads what is there when it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.spark.pipelines.result import Result, collect
from kcli.spark.pipelines.source import load, pushing
from kcli.spark.pipelines.sql_text import CALLS, Relation, Statement, columns_read, find_relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.pipelines.source import KafkaSource


class Answer(NamedTuple):
    """What a statement came to; `more`: there are more rows than were asked for."""

    result: Result
    more: bool


def relations_of(statements: Sequence[Statement]) -> list[Relation]:
    """The tables of ours that are in the statements, each once. ConfigError for calls that are malformed."""
    found: list[Relation] = []
    for statement in statements:
        find_relations(statement, lambda relation: found.append(relation) or "x")  # type: ignore[func-returns-value]
    return list(dict.fromkeys(found))


def run(
    spark: SparkSession,
    statements: Sequence[Statement],
    source_of: Callable[[Relation], KafkaSource],
    *,
    most: int | None = None,
) -> Iterator[Answer]:
    """Carry the statements out, one after the other, and tell what those have found that find something. `most` rows of
    each, None: all.

    Tables are looked up anew for each statement; a view that one of them has made stays with the offsets of then.
    """
    made: list[str] = []
    try:
        for statement in statements:
            frame = spark.sql(_with_tables(spark, statement, source_of, made).text)
            if frame.columns:
                found = collect(frame if most is None else frame.limit(most + 1))
                yield Answer(Result(found.columns, found.rows[:most]), most is not None and len(found.rows) > most)
    finally:
        for name in dict.fromkeys(made):
            spark.catalog.dropTempView(name)


def _with_tables(
    spark: SparkSession, statement: Statement, source_of: Callable[[Relation], KafkaSource], made: list[str]
) -> Statement:
    """The statement with names of temporary views in it. Those of calls are never used again: other views may be made
    of them.
    """

    def name(relation: Relation) -> str:
        own = f"kcli_{relation.view}_{len(made)}" if relation.topics else relation.view
        source = pushing(spark, source_of(relation))
        load(spark, source, relation.view, columns_of(statement, relation.view)).createOrReplaceTempView(own)
        made.append(own)
        return own

    return find_relations(statement, name)


def columns_of(statement: Statement, view: str) -> list[str] | None:
    """What is read of a view for this statement, None: all. Of what is large only what is needed, one column at least,
    as counting needs rows.
    """
    from kcli.spark.record_schema import ALL, CONNECTOR
    from kcli.spark.views.registry import VIEWS

    if view not in CALLS.values():
        return None
    usual = VIEWS[view].columns if view in VIEWS else CONNECTOR
    known = usual if view in VIEWS else ALL
    return columns_read(statement, [name for name, _ in known], [name for name, _ in usual]) or ["partition"]
