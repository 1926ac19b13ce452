"""Fields of decoded values without a JVM: paths, names of columns, and the types of Spark they come from."""

from __future__ import annotations

import pytest

from kcli.errors import ConfigError
from kcli.spark.pipelines.files.shape import Shape, columns_to_read, parse_shape
from kcli.spark.pipelines.files.value_fields import Field, json_path, leaf_fields, parse_fields, type_of_field

types = pytest.importorskip("pyspark.sql.types")


def _struct(text: str) -> object:
    """Return a struct of `name` (text) and `name(...)` (nested) fields."""
    fields, depth, start = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            name, bracket, inner = text[start:at].partition("(")
            fields.append(types.StructField(name, _struct(inner[:-1]) if bracket else types.StringType()))
            start = at + 1
    return types.StructType(fields)


def test_paths_and_names() -> None:
    assert parse_fields("--fields", "id, note.by ,note.by=author,`a.b`.c=x,offset") == (
        Field(("id",), "id"),
        Field(("note", "by"), "note_by"),
        Field(("note", "by"), "author"),
        Field(("a.b", "c"), "x"),
        Field(("offset",), "value_offset"),
    )
    assert json_path(Field(("a.b", "it's"), "x")) == "$['a.b']['it\\'s']"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "--fields must not be empty"),
        ("a.", "'a.' is not valid; use a path like note.by"),
        ("a=", "'a=' is not valid; use a path"),
        (".a", "'.a' is not valid"),
        ("a=Offset", "Offset is a column of every record"),
        ("a_b,a.B", "a_b and a.B would both be the column a_B"),
    ],
)
def test_malformed_fields_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_fields("--fields", text)
    assert problem in str(raised.value)


def test_leaves_of_a_struct_are_columns() -> None:
    fields = leaf_fields(_struct("id,note(by,tags(first)),key,value_error"))
    assert [(str(field), field.column) for field in fields] == [
        ("id", "id"),
        ("note.by", "note_by"),
        ("note.tags.first", "note_tags_first"),
        ("key", "value_key"),
        ("value_error", "value_value_error"),
    ]
    with pytest.raises(ConfigError, match=r"a_b and a\.b would both be the column a_b"):
        leaf_fields(_struct("a_b,a(b)"))
    with pytest.raises(ConfigError, match="the values have no fields"):
        leaf_fields(types.StringType())


def test_a_missing_field_is_named_with_the_nearest() -> None:
    value = _struct("customer(country,city)")
    assert type_of_field("--fields", value, Field(("customer", "city"), "city")) == types.StringType()
    with pytest.raises(ConfigError) as raised:
        type_of_field("--partition-by", value, Field(("customer", "contry"), "x"))
    assert str(raised.value) == "--partition-by: the value has no field customer.contry; did you mean country?"
    with pytest.raises(ConfigError, match=r"no field customer\.city\.x$"):
        type_of_field("--fields", value, Field(("customer", "city", "x"), "x"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"flatten": True}, "--flatten requires --value json, avro, protobuf or json-schema"),
        ({"fields": "id", "value": "string"}, "--fields requires --value json"),
        ({"fields": "id", "value": "json", "columns": "key"}, "--fields requires the column value"),
        ({"dead_letter": True}, "--dead-letter requires --value json"),
        ({"value": "avro", "form": "csv"}, "the format csv has no nested columns; use another --format, or --flatten"),
        ({"partition_by": ["dt,value.dt"], "value": "json"}, None),
        ({"partition_by": ["contry"]}, "'contry' is not a column"),
        ({"value": "avr"}, "'avr' is not valid; use raw, string, json, json:DDL"),
    ],
)
def test_shapes_that_cannot_be_written_are_refused(words: dict[str, object], problem: str | None) -> None:
    given = {"form": "parquet", "columns": None, "value": None, "partition_by": [], **words}
    if problem is None:
        assert parse_shape(**given).partition_by == ("dt", "value_dt")  # type: ignore[arg-type]
        return
    with pytest.raises(ConfigError) as raised:
        parse_shape(**given)  # type: ignore[arg-type]
    assert problem in str(raised.value)


def test_the_source_reads_what_fields_and_errors_need() -> None:
    shape = parse_shape("parquet", "offset", None, ["value.country"])
    assert columns_to_read(shape, None) == ["offset", "value"]
    assert columns_to_read(Shape("parquet", ("value",), "avro"), None) == ["value", "value_error", "value_raw"]
    assert set(columns_to_read(Shape(columns=("value",), value="json", dead_letter=True), None)) >= {"key", "headers"}
