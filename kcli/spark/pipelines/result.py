"""What a pipeline finds: rows of plain values, ready for any output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Result(NamedTuple):
    """`rows` are dicts of JSON's types by the names in `columns`; more fields than those go into JSON only."""

    columns: list[str]
    rows: list[dict[str, Any]]


def collect(frame: DataFrame) -> Result:
    """All rows of a small frame, as plain values (`kcli.spark.pipelines.plain`).

    SQL lets columns have one name: the second `offset` is called `offset_2`.
    """
    from kcli.spark.pipelines.plain import rows_of

    table = frame.toArrow()
    names = _each_once(table.column_names)
    return Result(names, rows_of(table.rename_columns(names)))


def _each_once(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found.append(name if name not in found else next(it for it in numbered if it not in (*names, *found)))
    return found


def write_parquet(columns: Sequence[str], rows: Sequence[dict[str, Any]], path: str) -> None:
    """Rows as one Parquet file."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: pyarrow.array([row.get(name) for row in rows]) for name in columns})
    parquet.write_table(table, path)
