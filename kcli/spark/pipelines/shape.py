"""Shape of exported rows: keys and values as bytes, text or decoded JSON; columns of partition directories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.record_schema import ALL, CONNECTOR, HEADERS, project
from kcli.text import closest_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

ALL_COLUMNS = (*(name for name, _ in CONNECTOR), HEADERS[0])
#: Partition columns from the record's timestamp, always in UTC.
OF_TIME = {
    "dt": "string(date_from_unix_date(int(floor(unix_seconds(timestamp) / 86400))))",
    "hour": "lpad(string(pmod(floor(unix_seconds(timestamp) / 3600), 24)), 2, '0')",
}
#: Formats without bytes and nested columns.
FLAT = {"csv", "text"}
#: Formats in which bytes are written as text by default.
TEXTUAL = FLAT | {"json", "xml"}
#: Formats of Spark's file sink, which keeps a list of its files.
FILES = {"avro", "csv", "json", "orc", "parquet", "text", "xml"}
ERROR_COLUMN = "value_error"
#: Whether the row has invalid UTF-8; not written.
NOT_UTF8 = "_not_utf8"
_CORRUPT = "_unread"
#: Tokens of a variant schema: names (quoted, or followed by a colon), and types that DDL does not have.
_NAME_OR_TYPE = re.compile(
    r"`(?:[^`]|``)*`|\w+:|\b(?:(?P<object>OBJECT)(?=<[^>])|(?P<decimal>DECIMAL\(\d+,\s*\d+\))|(?P<other>(?:VARIANT|VOID)\b|OBJECT<>))"
)
_DDL = {"object": "STRUCT", "decimal": "DOUBLE", "other": "STRING"}


#: The names of Spark's types without fields. Source: "Data Types" in Spark's SQL reference.
_TYPES = {
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint", "float", "real", "double"),
    *("decimal", "dec", "numeric", "string", "char", "character", "varchar", "binary", "date", "time", "timestamp"),
    *("timestamp_ntz", "timestamp_ltz", "interval", "variant", "void", "geometry", "geography"),
}
_DDL_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S")


class Shape(NamedTuple):
    """Columns and encoding of exported rows. `value` is raw, string or json; `schema` is the DDL of JSON values, None
    until it is inferred.
    """

    format: str = "parquet"
    columns: tuple[str, ...] = ALL_COLUMNS
    value: str = "raw"
    schema: str | None = None
    partition_by: tuple[str, ...] = ()

    def written(self) -> list[str]:
        """Return the columns of a written row, including those of directories."""
        names = [*self.columns, *(name for name in self.partition_by if name not in self.columns)]
        if self.value == "json" and "value" in names:
            names.insert(names.index("value") + 1, ERROR_COLUMN)
        return [f"`{name}`" for name in names]

    def text(self, columns: Iterable[str]) -> list[str]:
        """Return the columns whose bytes are written as text; other bytes are binary or base64."""
        if self.value == "raw":
            return []
        return [name for name in columns if name in ("key", "value") or (name == "headers" and self.format in FLAT)]


def parse_shape(form: str, columns: str | None, value: str | None, partition_by: Sequence[str]) -> Shape:
    """Parse the options. ConfigError for unknown columns, or JSON values in a flat format."""
    names = ALL_COLUMNS if columns is None else tuple(name.strip() for name in columns.split(",") if name.strip())
    project(ALL, names)
    by = tuple(name.strip() for text in partition_by for name in text.split(",") if name.strip())
    project([*ALL, *((name, "string") for name in OF_TIME)], by or ("dt",))
    if set(by) >= set(names):
        raise ConfigError("--partition-by must not name all columns: the files would be empty")
    kind, colon, schema = (value or ("string" if form in TEXTUAL else "raw")).partition(":")
    if kind not in ("raw", "string", "json") or (colon and (kind != "json" or not schema.strip())):
        raise ConfigError(
            f"--value: {value!r} is not valid; use raw, string, json, or json:DDL like 'json:id BIGINT, name STRING'"
        )
    if schema:
        check_ddl(schema)
    if kind == "json" and form in FLAT:
        raise ConfigError(f"--value json: the format {form} has no nested columns; use another --format")
    if form == "text" and names != ("value",):
        raise ConfigError("--format text has a single column; use --columns value")
    return Shape(form, names, kind, schema.strip() or None, by)


def check_ddl(schema: str) -> None:
    """Raise ConfigError for a schema with an unknown type or without balanced brackets, before Spark starts.

    What follows a type (NOT NULL, COMMENT, COLLATE) is left to Spark.
    """
    tokens = _DDL_TOKEN.findall(_fields(schema))
    at = _check_fields(schema, tokens, 0)
    if at < len(tokens):
        raise _invalid_ddl(schema, tokens, at)


def _check_fields(schema: str, tokens: Sequence[str], at: int) -> int:
    """Check `name type, name: type` from a token on; return the index after them."""
    while True:
        if not re.fullmatch(r"\w+|`.*`", _token(tokens, at), re.DOTALL):
            raise _invalid_ddl(schema, tokens, at)
        at += 1 + (_token(tokens, at + 1) == ":")
        at = _check_type(schema, tokens, at)
        if _token(tokens, at) != ",":
            return at
        at += 1


def _check_type(schema: str, tokens: Sequence[str], at: int) -> int:
    """Check a type, and skip what follows it up to a comma or bracket."""
    name = _token(tokens, at).lower()
    if name in ("array", "map", "struct"):
        at = _check_elements(schema, tokens, name, at)
    elif name in _TYPES:
        at += 1
    else:
        raise _invalid_ddl(schema, tokens, at)
    while re.match(r"[\w'\"(]", _token(tokens, at)):
        at = tokens.index(")", at) + 1 if tokens[at] == "(" and ")" in tokens[at:] else at + 1
    return at


def _check_elements(schema: str, tokens: Sequence[str], name: str, at: int) -> int:
    if _token(tokens, at + 1) != "<":
        raise _invalid_ddl(schema, tokens, at + 1)
    at += 2
    if name == "struct":
        at = at if _token(tokens, at) == ">" else _check_fields(schema, tokens, at)
    else:
        at = _check_type(schema, tokens, at)
        if name == "map":
            if _token(tokens, at) != ",":
                raise _invalid_ddl(schema, tokens, at)
            at = _check_type(schema, tokens, at + 1)
    if _token(tokens, at) != ">":
        raise _invalid_ddl(schema, tokens, at)
    return at + 1


def _token(tokens: Sequence[str], at: int) -> str:
    return tokens[at] if at < len(tokens) else ""


def _invalid_ddl(schema: str, tokens: Sequence[str], at: int) -> ConfigError:
    token = _token(tokens, at)
    if not token:
        problem = "it ends too early"
    elif re.fullmatch(r"\w+", token):
        close = closest_name(token, (*_TYPES, "array", "map", "struct"))
        problem = f"{token!r} is not a type{f'; did you mean {close.upper()}?' if close else ''}"
    else:
        problem = f"{token!r} is not expected there"
    return ConfigError(f"--value json: {schema.strip()!r} is not valid: {problem}")


def columns_to_read(shape: Shape, where: str | None) -> list[str]:
    """Return the source's columns that the shape and the condition need."""
    from kcli.spark.pipelines.source import columns_in

    wanted = list(shape.columns)
    wanted += [name for name in shape.partition_by if name not in OF_TIME]
    if set(shape.partition_by) & OF_TIME.keys():
        wanted.append("timestamp")
    if where is not None:
        wanted += columns_in(where, ALL)
    return list(dict.fromkeys(wanted))


def apply_shape(frame: DataFrame, shape: Shape) -> DataFrame:
    """Return the frame's rows in the written form, with all columns that were read."""
    from pyspark.sql import functions as f

    frame = frame.withColumn(NOT_UTF8, _not_utf8(frame, shape))
    for name, expression in OF_TIME.items():
        if name in shape.partition_by:
            frame = frame.withColumn(name, f.expr(expression))
    if shape.value == "json" and "value" in frame.columns:
        frame = _decode_json(frame, shape)
    for name in {"key", "value"} & set(frame.columns):
        if shape.value == "string" or (shape.value == "json" and name == "key"):
            frame = frame.withColumn(name, _as_text(f.col(name)))
        elif shape.value == "raw" and shape.format in FLAT:
            frame = frame.withColumn(name, _as_base64(f.col(name)))
    if shape.format in FLAT and "headers" in frame.columns:
        frame = frame.withColumn("headers", f.to_json(_headers_as_text(shape)))
    return frame


def _not_utf8(frame: DataFrame, shape: Shape) -> Column:
    from pyspark.sql import functions as f

    is_invalid = f.lit(False)
    for name in shape.text(frame.columns):
        if name == "headers":
            is_invalid |= f.exists(name, lambda header: ~f.is_valid_utf8(header["value"]))
        else:
            is_invalid |= ~f.is_valid_utf8(name)
    return f.coalesce(is_invalid, f.lit(False))


def _decode_json(frame: DataFrame, shape: Shape) -> DataFrame:
    """Decode `value` by its schema; a value that does not match goes as text into a column of its own, so nothing is
    lost.
    """
    from pyspark.sql import functions as f

    if shape.schema is None:
        raise ConfigError("--value json needs the DDL of the values")
    schema = f"STRUCT<{_fields(shape.schema)}, {_CORRUPT}: STRING>"
    text = f.col("value")
    frame = frame.withColumn("value", _as_text(text))
    frame = frame.withColumn(_CORRUPT, f.from_json(text, schema, {"columnNameOfCorruptRecord": _CORRUPT}))
    # from_json ignores text after an object, except an array. Counting array elements is faster, but rejects NaN.
    array = f.concat(f.lit("["), text, f.lit(",{}]"))
    is_alone = (f.json_array_length(array) == 2) | (f.size(f.from_json(array, "ARRAY<STRUCT<>>")) == 2)
    is_read = f.coalesce(
        f.col(_CORRUPT).isNotNull() & f.col(f"{_CORRUPT}.{_CORRUPT}").isNull() & is_alone, f.lit(False)
    )
    frame = frame.withColumn(ERROR_COLUMN, f.when(~is_read, text))
    read = f.when(f.col(ERROR_COLUMN).isNull(), f.col(_CORRUPT).dropFields(_CORRUPT))
    return frame.withColumn("value", read).drop(_CORRUPT)


def _fields(schema: str) -> str:
    """Return the fields of a DDL, without the optional `STRUCT<...>`."""
    inner = re.fullmatch(r"(?is)\s*struct\s*<(.*)>\s*", schema)
    return inner[1] if inner else schema


def _as_text(bytes_: Column) -> Column:
    """Return text; invalid UTF-8 becomes U+FFFD, because readers may fail on it."""
    from pyspark.sql import functions as f

    return f.make_valid_utf8(bytes_.cast("string"))


def _as_base64(bytes_: Column) -> Column:
    """Return base64 in one line, as in JSON; Spark breaks lines after 76 characters."""
    from pyspark.sql import functions as f

    return f.translate(f.base64(bytes_), "\r\n", "")


def _headers_as_text(shape: Shape) -> Column:
    from pyspark.sql import functions as f

    def one(header: Column) -> Column:
        value = (_as_base64 if shape.value == "raw" else _as_text)(header["value"])
        return f.struct(header["key"].alias("key"), value.alias("value"))

    return f.transform("headers", one)


def find_schema(spark: SparkSession, source: KafkaSource, *, rows: int = 1000) -> str:
    """Return the DDL of the first values of each partition. ConfigError if there is no JSON object."""
    from pyspark.sql import functions as f

    from kcli.spark.pipelines.source import load

    sample = source._replace(where=None, more={**source.more, "rowLimitPerPartition": str(rows)})
    text = f.try_parse_json(f.col("value").cast("string"))
    row = load(spark, sample, columns=["value"]).select(f.schema_of_variant_agg(text)).first()
    return ddl_of_variant(str(row[0]) if row is not None else "")


def ddl_of_variant(schema: str) -> str:
    """Convert a schema of `schema_of_variant_agg` to DDL.

    Numbers become the widest type seen; other types become text, also objects without fields, which most formats do not
    support.
    """
    if not schema.startswith("OBJECT<") or schema == "OBJECT<>":
        raise ConfigError("the values are not JSON objects; use --value json:DDL or --value string")
    return _NAME_OR_TYPE.sub(lambda match: _DDL.get(match.lastgroup or "", match[0]), schema)
