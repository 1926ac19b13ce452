"""The columns of exported rows, as far as no JVM is needed: what a schema of variants is as DDL."""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.spark.pipelines.shape import ddl_of_variant


@pytest.mark.parametrize(
    ("told", "ddl"),
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
def test_types_of_variants_become_ours_and_names_of_fields_stay(told: str, ddl: str) -> None:
    """`told` as schema_of_variant_agg of Spark 4.3.0 tells it: names that are no identifiers stand in backticks."""
    assert ddl_of_variant(told) == ddl


@pytest.mark.parametrize("told", ["", "VOID", "OBJECT<>", "ARRAY<OBJECT<a: BIGINT>>"])
def test_values_that_are_no_objects_have_no_columns(told: str) -> None:
    with pytest.raises(ConfigError, match="not JSON objects"):
        ddl_of_variant(told)
