"""DDL of JSON values without a JVM: schemas that are accepted and refused, and the DDL of a variant schema."""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.spark.pipelines.files.shape import check_ddl, ddl_of_variant


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
    check_ddl(ddl)


@pytest.mark.parametrize("result", ["", "VOID", "OBJECT<>", "ARRAY<OBJECT<a: BIGINT>>"])
def test_values_that_are_not_objects_have_no_schema(result: str) -> None:
    with pytest.raises(ConfigError, match="not JSON objects"):
        ddl_of_variant(result)


@pytest.mark.parametrize(
    "ddl",
    [
        "id BIGINT, name STRING",
        "id: bigint, `odd, name`: dec(10, 2)",
        "STRUCT<a: INT, b: STRUCT<>>",
        "a ARRAY<ARRAY<DECIMAL(10,2)>>, m MAP<STRING COLLATE UTF8_LCASE, ARRAY<STRUCT<x INT, y: DATE>>>",
        "a INT NOT NULL COMMENT 'not, a > type', b INTERVAL DAY TO SECOND, c TIMESTAMP WITHOUT TIME ZONE",
        "date DATE, timestamp TIMESTAMP, array INT",
        "v VARIANT, c VARCHAR(10), größe DOUBLE",
    ],
)
def test_schemas_of_spark_are_accepted(ddl: str) -> None:
    check_ddl(ddl)


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("id BIGNUM", "'BIGNUM' is not a type; did you mean BIGINT?"),
        ("id BIGINT, name", "it ends too early"),
        ("a ARRAY<INTT>", "'INTT' is not a type; did you mean INT?"),
        ("a ARRAY<INT", "it ends too early"),
        ("a MAP<INT>", "'>' is not expected there"),
        ("a STRUCT<b: QQQ>", "'QQQ' is not a type"),
        ("a INT>", "'>' is not expected there"),
        ("a INT,, b INT", "',' is not expected there"),
        ("a ARRAY", "it ends too early"),
    ],
)
def test_schemas_that_spark_would_refuse_are_refused_before_it_starts(ddl: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_ddl(ddl)
    assert str(raised.value) == f"--value json: {ddl!r} is not valid: {problem}"
