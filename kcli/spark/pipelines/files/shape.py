"""Shape of exported rows: keys and values as bytes, text or decoded JSON; columns of partition directories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines import columns as f
from kcli.spark.pipelines.files.value_fields import (
    ERROR_COLUMN,
    OWN_PREFIX,
    RAW_COLUMN,
    Field,
    check_distinct,
    field_column,
    json_path,
    leaf_fields,
    parse_field,
    parse_fields,
    type_of_field,
)
from kcli.spark.record_schema import ALL, CONNECTOR, HEADERS, project
from kcli.text import closest_name, format_alternatives

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
#: Decoders of the source, whose types come from a schema.
DECODED = ("avro", "protobuf", "json-schema")
_OF_VALUE = "value."
_UNSHAPED = f"{OWN_PREFIX}unshaped_"
#: Spark's default cuts times to milliseconds, which suffice for those of records, not for those within values.
MICROSECONDS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
#: Whether the row has invalid UTF-8; not written.
NOT_UTF8 = f"{OWN_PREFIX}not_utf8"


class Shape(NamedTuple):
    """Columns and encoding of exported rows.

    `value` is raw, string, json, or one of DECODED; `schema` is the DDL of JSON values, None until it is inferred.
    `flatten`: the fields of the value are columns; `fields`: these of them. `partition_fields` are the fields among
    `partition_by`. `dead_letter`: values that do not decode are written elsewhere.
    """

    format: str = "parquet"
    columns: tuple[str, ...] = ALL_COLUMNS
    value: str = "raw"
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    flatten: bool = False
    fields: tuple[Field, ...] = ()
    partition_fields: tuple[Field, ...] = ()
    dead_letter: bool = False

    @property
    def has_fields(self) -> bool:
        """True if values are decoded to fields, so that some may fail."""
        return self.value == "json" or self.value in DECODED

    def errors(self) -> list[str]:
        """Return the columns about a value that does not decode."""
        return [ERROR_COLUMN, RAW_COLUMN] if self.value in DECODED else [ERROR_COLUMN] if self.has_fields else []

    def text(self, columns: Iterable[str]) -> list[str]:
        """Return the columns whose bytes are written as text; other bytes are binary or base64."""
        if self.value == "raw" or (self.value in DECODED and self.format not in TEXTUAL):
            return []
        wanted = ("key",) if self.value in DECODED else ("key", "value")
        return [name for name in columns if name in wanted or (name == "headers" and self.format in FLAT)]


class Shaped(NamedTuple):
    """Rows in the written form, with all columns that were read; `columns` are those to write."""

    frame: DataFrame
    columns: list[str]


def parse_shape(
    form: str,
    columns: str | None,
    value: str | None,
    partition_by: Sequence[str],
    *,
    flatten: bool = False,
    fields: str | None = None,
    dead_letter: bool = False,
) -> Shape:
    """Parse the options. ConfigError for unknown columns, or nested columns in a flat format."""
    names = ALL_COLUMNS if columns is None else tuple(name.strip() for name in columns.split(",") if name.strip())
    project(ALL, names)
    by, by_fields = _parse_partition_by(partition_by)
    if set(by) >= set(names):
        raise ConfigError("--partition-by must not name all columns: the files would be empty")
    kind, colon, schema = (value or ("string" if form in TEXTUAL else "raw")).partition(":")
    if kind not in ("raw", "string", "json", *DECODED) or (colon and (kind != "json" or not schema.strip())):
        raise ConfigError(
            f"--value: {value!r} is not valid; use raw, string, json, json:DDL like 'json:id BIGINT, name STRING', "
            f"{format_alternatives(DECODED)}"
        )
    if schema:
        check_ddl(schema)
    flatten = flatten or fields is not None
    shape = Shape(form, names, kind, schema.strip() or None, by, flatten, dead_letter=dead_letter)
    shape = shape._replace(fields=parse_fields("--fields", fields) if fields is not None else ())
    _check_fields(shape, "--fields" if fields is not None else "--flatten")
    if form == "text" and names != ("value",):
        raise ConfigError("--format text has a single column; use --columns value")
    return shape._replace(partition_fields=by_fields)


def _parse_partition_by(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[Field, ...]]:
    """Return the names of the columns of folders, and those of them that are fields of the value."""
    names: list[str] = []
    fields: list[Field] = []
    for text in (part.strip() for given in texts for part in given.split(",") if part.strip()):
        if text.startswith(_OF_VALUE):
            field = parse_field("--partition-by", text.removeprefix(_OF_VALUE))
            fields.append(field)
            names.append(field.column)
        else:
            names.append(text)
    check_distinct("--partition-by", fields)
    own = [name for name in names if name not in {field.column for field in fields}]
    project([*ALL, *((name, "string") for name in OF_TIME)], own or ("dt",))
    return tuple(names), tuple(fields)


def _check_fields(shape: Shape, option: str) -> None:
    if shape.flatten and not shape.has_fields:
        raise ConfigError(f"{option} requires --value json, avro, protobuf or json-schema")
    if shape.flatten and "value" not in shape.columns:
        raise ConfigError(f"{option} requires the column value; add it to --columns")
    if shape.dead_letter and not shape.has_fields:
        raise ConfigError("--dead-letter requires --value json, avro, protobuf or json-schema")
    if shape.has_fields and shape.format in FLAT and not shape.flatten:
        raise ConfigError(
            f"--value {shape.value}: the format {shape.format} has no nested columns; use another --format, "
            "or --flatten"
        )


def columns_to_read(shape: Shape, where: str | None) -> list[str]:
    """Return the source's columns that the shape and the condition need."""
    from kcli.spark.pipelines.source import columns_in

    wanted = list(shape.columns)
    fields = {field.column for field in shape.partition_fields}
    wanted += [name for name in shape.partition_by if name not in OF_TIME and name not in fields]
    if fields:
        wanted.append("value")
    if set(shape.partition_by) & OF_TIME.keys():
        wanted.append("timestamp")
    if where is not None:
        wanted += columns_in(where, ALL)
    if shape.dead_letter:
        wanted += ALL_COLUMNS
    if shape.value in DECODED and "value" in wanted:
        wanted += [ERROR_COLUMN, RAW_COLUMN]
    return list(dict.fromkeys(wanted))


def apply_shape(frame: DataFrame, shape: Shape) -> Shaped:
    """Return the frame's rows in the written form."""
    names = list(dict.fromkeys([*shape.columns, *shape.partition_by]))
    frame = frame.withColumn(NOT_UTF8, _not_utf8(frame, shape))
    for name, expression in OF_TIME.items():
        if name in shape.partition_by:
            frame = frame.withColumn(name, f.expr(expression))
    if shape.dead_letter:
        frame = frame.withColumns({_UNSHAPED + name: f.col(name) for name in ("key", "value", "headers")})
    if shape.value == "json" and "value" in frame.columns:
        frame = _decode_json(frame, shape)
    frame, flat = _with_fields(frame, shape)
    for name in {"key", "value"} & set(frame.columns):
        if dict(frame.dtypes)[name] != "binary":
            continue
        if name in shape.text(("key", "value")):
            frame = frame.withColumn(name, _as_text(f.col(name)))
        elif shape.format in FLAT:
            frame = frame.withColumn(name, _as_base64(f.col(name)))
    if shape.format in FLAT and RAW_COLUMN in frame.columns and not shape.dead_letter:
        frame = frame.withColumn(RAW_COLUMN, _as_base64(f.col(RAW_COLUMN)))
    if shape.format in FLAT and "headers" in frame.columns:
        frame = frame.withColumn("headers", f.to_json(_headers_as_text(shape)))
    if "value" in names and shape.has_fields:
        at = names.index("value")
        names[at : at + 1] = [*(flat if shape.flatten else ["value"]), *([] if shape.dead_letter else shape.errors())]
    return Shaped(frame, list(dict.fromkeys(names)))


def _with_fields(frame: DataFrame, shape: Shape) -> tuple[DataFrame, list[str]]:
    """Return the frame with columns of the value's fields, and the names of those that replace the value."""
    columns: dict[str, Column] = {}
    flat: Sequence[Field] = ()
    if shape.flatten:
        value_type = frame.schema["value"].dataType
        flat = shape.fields or leaf_fields(value_type)
        for field in flat:
            kind = type_of_field("--fields", value_type, field)
            column = field_column(field)
            columns[field.column] = column
            if shape.format in FLAT and kind.typeName() in ("struct", "array", "map"):
                columns[field.column] = f.to_json(column, MICROSECONDS)
            elif shape.format in FLAT and kind.typeName() == "binary":
                columns[field.column] = _as_base64(column)
    check_distinct("--partition-by", (*flat, *shape.partition_fields))
    for field in shape.partition_fields:
        if shape.has_fields:
            _check_folder_type(field, type_of_field("--partition-by", frame.schema["value"].dataType, field))
            columns[field.column] = field_column(field)
        else:
            columns[field.column] = f.get_json_object(f.col("value").cast("string"), json_path(field))
    return (frame.withColumns(columns) if columns else frame), [field.column for field in flat]


def _check_folder_type(field: Field, kind: Any) -> None:
    """Raise ConfigError for a type whose values are not names of folders."""
    if kind.typeName() in ("struct", "array", "map", "binary"):
        raise ConfigError(
            f"--partition-by: the field {field} is of type {kind.typeName()}; "
            "use a field with a text, a number or a time"
        )


def dead_letters(shaped: Shaped, shape: Shape) -> DataFrame:
    """Return the records whose values do not decode, as they were, with the reason in a column `error`.

    Its name is not ERROR_COLUMN, from which `load` sees that a file does not have the bytes of the records.
    """
    value = RAW_COLUMN if shape.value in DECODED else f"{_UNSHAPED}value"
    as_they_were = {"key": f"{_UNSHAPED}key", "value": value, "headers": f"{_UNSHAPED}headers"}
    columns = [f.col(as_they_were.get(name, name)).alias(name) for name in ALL_COLUMNS]
    reason = f.col(ERROR_COLUMN) if shape.value in DECODED else f.lit("the value does not match the columns")
    return shaped.frame.where(f.col(ERROR_COLUMN).isNotNull()).select(*columns, reason.alias("error"))


def _not_utf8(frame: DataFrame, shape: Shape) -> Column:
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
    if shape.schema is None:
        raise ConfigError("--value json needs the DDL of the values")
    unread = f"{OWN_PREFIX}unread"
    while unread in shape.schema.lower():  # from_json sets it beside the fields of the values
        unread += "_"
    schema = f"STRUCT<{ddl_fields(shape.schema)}, {unread}: STRING>"
    text = f.col("value")
    frame = frame.withColumn("value", _as_text(text))
    frame = frame.withColumn(unread, f.from_json(text, schema, {"columnNameOfCorruptRecord": unread}))
    # from_json ignores text after an object, except an array. Counting array elements is faster, but rejects NaN.
    array = f.concat(f.lit("["), text, f.lit(",{}]"))
    is_alone = (f.json_array_length(array) == 2) | (f.size(f.from_json(array, "ARRAY<STRUCT<>>")) == 2)
    is_read = f.coalesce(f.col(unread).isNotNull() & f.col(f"{unread}.{unread}").isNull() & is_alone, f.lit(False))
    frame = frame.withColumn(ERROR_COLUMN, f.when(~is_read, text))
    read = f.when(f.col(ERROR_COLUMN).isNull(), f.col(unread).dropFields(unread))
    return frame.withColumn("value", read).drop(unread)


def _as_text(bytes_: Column) -> Column:
    """Return text; invalid UTF-8 becomes U+FFFD, because readers may fail on it."""
    return f.make_valid_utf8(bytes_.cast("string"))


def _as_base64(bytes_: Column) -> Column:
    """Return base64 in one line, as in JSON; Spark breaks lines after 76 characters."""
    return f.translate(f.base64(bytes_), "\r\n", "")


def _headers_as_text(shape: Shape) -> Column:
    def one(header: Column) -> Column:
        value = (_as_base64 if shape.value == "raw" else _as_text)(header["value"])
        return f.struct(header["key"].alias("key"), value.alias("value"))

    return f.transform("headers", one)


def find_schema(spark: SparkSession, source: KafkaSource, *, rows: int = 1000) -> str:
    """Return the DDL of the first values of each partition. ConfigError if there is no JSON object."""
    from kcli.spark.pipelines.source import load

    sample = source._replace(where=None, more={**source.more, "rowLimitPerPartition": str(rows)})
    text = f.try_parse_json(f.col("value").cast("string"))
    row = load(spark, sample, columns=["value"]).select(f.schema_of_variant_agg(text)).first()
    return ddl_of_variant(str(row[0]) if row is not None else "")


# DDL of JSON values: the check of a given one before Spark starts, and the conversion of an inferred one

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


def check_ddl(schema: str) -> None:
    """Raise ConfigError for a schema with an unknown type or without balanced brackets, before Spark starts.

    What follows a type (NOT NULL, COMMENT, COLLATE) is left to Spark.
    """
    tokens = _DDL_TOKEN.findall(ddl_fields(schema))
    at = _check_ddl_fields(schema, tokens, 0)
    if at < len(tokens):
        raise _invalid_ddl(schema, tokens, at)


def _check_ddl_fields(schema: str, tokens: Sequence[str], at: int) -> int:
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
        at = at if _token(tokens, at) == ">" else _check_ddl_fields(schema, tokens, at)
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


def ddl_fields(schema: str) -> str:
    """Return the fields of a DDL, without the optional `STRUCT<...>`."""
    inner = re.fullmatch(r"(?is)\s*struct\s*<(.*)>\s*", schema)
    return inner[1] if inner else schema


def ddl_of_variant(schema: str) -> str:
    """Convert a schema of `schema_of_variant_agg` to DDL.

    Numbers become the widest type seen; other types become text, also objects without fields, which most formats do not
    support.
    """
    if not schema.startswith("OBJECT<") or schema == "OBJECT<>":
        raise ConfigError("the values are not JSON objects; use --value json:DDL or --value string")
    return _NAME_OR_TYPE.sub(lambda match: _DDL.get(match.lastgroup or "", match[0]), schema)
