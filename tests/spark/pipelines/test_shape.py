"""Columns of exported rows without a JVM: the DDL of a variant schema."""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.spark.pipelines.shape import ddl_of_variant


@pytest.mark.parametrize(
    ("result", "ddl"),
    [
        ("OBJECT<a: VOID, b: ARRAY<VARIANT>>", "STRUCT<a: STRING, b: ARRAY<STRING>>"),
        ("OBJECT<a: OBJECT<>, b: ARRAY<OBJECT<>>>", "STRUCT<a: STRING, b: ARRAY<STRING>>"),
        ("OBJECT<a: OBJECT<b: DECIMAL(3,2)>>", "STRUCT<a: STRUCT<b: DOUBLE>>"),
        (
            "OBJECT<VARIANT: BIGINT, VOID: VOID, OBJECT: STRING>",
            "STRUCT<VARIANT: BIGINT, VOID: STRING, OBJECT: STRING>",
        ),
        ("OBJECT<`a VOID`: VOID, `x: VOID, ```: BIGINT>", "STRUCT<`a VOID`: STRING, `x: VOID, ```: BIGINT>"),
        ("OBJECT<`OBJECT<`: OBJECT<`DECIMAL(3,2)`: VARIANT>>", "STRUCT<`OBJECT<`: STRUCT<`DECIMAL(3,2)`: STRING>>"),
    ],
)
def test_variant_types_become_ddl_types(result: str, ddl: str) -> None:
    """`schema` is output of schema_of_variant_agg of Spark 4.3.0: names that are not identifiers are in backticks."""
    assert ddl_of_variant(result) == ddl


@pytest.mark.parametrize("result", ["", "VOID", "OBJECT<>", "ARRAY<OBJECT<a: BIGINT>>"])
def test_values_that_are_not_objects_have_no_schema(result: str) -> None:
    with pytest.raises(ConfigError, match="not JSON objects"):
        ddl_of_variant(result)
