"""The columns of exported rows: keys and values as bytes, text or decoded JSON; columns to partition directories by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.record_schema import ALL, CONNECTOR, HEADERS, project

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.pipelines.source import KafkaSource

ALL_COLUMNS = (*(name for name, _ in CONNECTOR), HEADERS[0])
#: Partition columns made from the record's timestamp, in UTC whatever the session's time zone is.
OF_TIME = {
    "dt": "string(date_from_unix_date(int(floor(unix_seconds(timestamp) / 86400))))",
    "hour": "lpad(string(pmod(floor(unix_seconds(timestamp) / 3600), 24)), 2, '0')",
}
#: Formats that have neither bytes nor nested columns.
FLAT = {"csv", "text"}
#: Formats in which bytes are not what people want.
TEXTUAL = FLAT | {"json", "xml"}
#: Formats of Spark's file sink, which lists what it has written.
FILES = {"avro", "csv", "json", "orc", "parquet", "text", "xml"}
ERROR_COLUMN = "value_error"
#: Whether a row's text stands for bytes that are no UTF-8; never written.
NOT_UTF8 = "_not_utf8"
_UNREAD = "_unread"
#: What stands in a schema of variants: names, quoted or followed by a colon, and types that are not DDL's.
_NAME_OR_TYPE = re.compile(
    r"`(?:[^`]|``)*`|\w+:|\b(?:(?P<object>OBJECT)(?=<[^>])|(?P<decimal>DECIMAL\(\d+,\s*\d+\))|(?P<other>(?:VARIANT|VOID)\b|OBJECT<>))"
)
_DDL = {"object": "STRUCT", "decimal": "DOUBLE", "other": "STRING"}


class Shape(NamedTuple):
    """`value` is raw, string or json; `schema` the DDL of JSON values, None until it is found out."""

    format: str = "parquet"
    columns: tuple[str, ...] = ALL_COLUMNS
    value: str = "raw"
    schema: str | None = None
    partition_by: tuple[str, ...] = ()

    def written(self) -> list[str]:
        """The columns of a written row, those of directories included."""
        names = [*self.columns, *(name for name in self.partition_by if name not in self.columns)]
        if self.value == "json" and "value" in names:
            names.insert(names.index("value") + 1, ERROR_COLUMN)
        return [f"`{name}`" for name in names]

    def text(self, columns: Iterable[str]) -> list[str]:
        """Those of the columns whose bytes are taken for text; other bytes stay so, or are base64."""
        if self.value == "raw":
            return []
        return [name for name in columns if name in ("key", "value") or (name == "headers" and self.format in FLAT)]


def parse_shape(form: str, columns: str | None, value: str | None, partition_by: Sequence[str]) -> Shape:
    """What the options say. ConfigError: no such column; JSON values where none can be written."""
    names = ALL_COLUMNS if columns is None else tuple(name.strip() for name in columns.split(",") if name.strip())
    project(ALL, names)
    by = tuple(name.strip() for text in partition_by for name in text.split(",") if name.strip())
    project([*ALL, *((name, "string") for name in OF_TIME)], by or ("dt",))
    if set(by) >= set(names):
        raise ConfigError("--partition-by takes all columns: nothing is left to write into the files")
    kind, colon, schema = (value or ("string" if form in TEXTUAL else "raw")).partition(":")
    if kind not in ("raw", "string", "json") or (colon and (kind != "json" or not schema.strip())):
        raise ConfigError(f"--value is raw, string, json, or json:DDL like 'json:id BIGINT, name STRING', not {value}")
    if kind == "json" and form in FLAT:
        raise ConfigError(f"{form} has no nested columns: --value json needs another --format")
    if form == "text" and names != ("value",):
        raise ConfigError("text has one column: say --columns value")
    return Shape(form, names, kind, schema.strip() or None, by)


def columns_to_read(shape: Shape, where: str | None) -> list[str]:
    """The source's columns that the shape is made of, and those that a condition speaks of."""
    from kcli.spark.pipelines.source import mentioned

    wanted = list(shape.columns)
    wanted += [name for name in shape.partition_by if name not in OF_TIME]
    if set(shape.partition_by) & OF_TIME.keys():
        wanted.append("timestamp")
    if where is not None:
        wanted += mentioned(where, ALL)
    return list(dict.fromkeys(wanted))


def shaped(frame: DataFrame, shape: Shape) -> DataFrame:
    """The frame's rows as they will be written, with all columns that were read."""
    from pyspark.sql import functions as f

    frame = frame.withColumn(NOT_UTF8, _not_utf8(frame, shape))
    for name, expression in OF_TIME.items():
        if name in shape.partition_by:
            frame = frame.withColumn(name, f.expr(expression))
    if shape.value == "json" and "value" in frame.columns:
        frame = _decoded(frame, shape)
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

    found = f.lit(False)
    for name in shape.text(frame.columns):
        if name == "headers":
            found |= f.exists(name, lambda header: ~f.is_valid_utf8(header["value"]))
        else:
            found |= ~f.is_valid_utf8(name)
    return f.coalesce(found, f.lit(False))


def _decoded(frame: DataFrame, shape: Shape) -> DataFrame:
    """`value` by its schema, and what is not like that as text in a column of its own: nothing is lost in silence."""
    from pyspark.sql import functions as f

    if shape.schema is None:
        raise ConfigError("--value json needs the DDL of the values")
    schema = f"STRUCT<{_fields(shape.schema)}, {_UNREAD}: STRING>"
    text = f.col("value")
    frame = frame.withColumn("value", _as_text(text))
    frame = frame.withColumn(_UNREAD, f.from_json(text, schema, {"columnNameOfCorruptRecord": _UNREAD}))
    # What follows an object is passed over by from_json, unless an array goes on there. Counting is the faster way to
    # look, but does not know NaN.
    array = f.concat(f.lit("["), text, f.lit(",{}]"))
    is_alone = (f.json_array_length(array) == 2) | (f.size(f.from_json(array, "ARRAY<STRUCT<>>")) == 2)
    is_read = f.coalesce(f.col(_UNREAD).isNotNull() & f.col(f"{_UNREAD}.{_UNREAD}").isNull() & is_alone, f.lit(False))
    frame = frame.withColumn(ERROR_COLUMN, f.when(~is_read, text))
    read = f.when(f.col(ERROR_COLUMN).isNull(), f.col(_UNREAD).dropFields(_UNREAD))
    return frame.withColumn("value", read).drop(_UNREAD)


def _fields(schema: str) -> str:
    """What stands between the brackets of `STRUCT<a: BIGINT, b: STRING>`, which need not be there."""
    inner = re.fullmatch(r"(?is)\s*struct\s*<(.*)>\s*", schema)
    return inner[1] if inner else schema


def _as_text(bytes_: Column) -> Column:
    """What is no UTF-8 becomes U+FFFD, in files whose readers would stumble over it, too."""
    from pyspark.sql import functions as f

    return f.make_valid_utf8(bytes_.cast("string"))


def _as_base64(bytes_: Column) -> Column:
    """In one line, as in JSON: Spark makes lines of 76 characters."""
    from pyspark.sql import functions as f

    return f.translate(f.base64(bytes_), "\r\n", "")


def _headers_as_text(shape: Shape) -> Column:
    from pyspark.sql import functions as f

    def one(header: Column) -> Column:
        value = (_as_base64 if shape.value == "raw" else _as_text)(header["value"])
        return f.struct(header["key"].alias("key"), value.alias("value"))

    return f.transform("headers", one)


def find_schema(spark: SparkSession, source: KafkaSource, *, rows: int = 1000) -> str:
    """The DDL that the first values of each partition have in common. ConfigError if there is no JSON object there."""
    from pyspark.sql import functions as f

    from kcli.spark.pipelines.source import load

    sample = source._replace(where=None, more={**source.more, "rowLimitPerPartition": str(rows)})
    text = f.try_parse_json(f.col("value").cast("string"))
    found = load(spark, sample, columns=["value"]).select(f.schema_of_variant_agg(text)).first()
    return ddl_of_variant(str(found[0]) if found is not None else "")


def ddl_of_variant(schema: str) -> str:
    """A schema as `schema_of_variant_agg` tells it, as DDL: of numbers seen so far the widest kind, else text; so are
    objects without fields, which most formats do not have.
    """
    if not schema.startswith("OBJECT<") or schema == "OBJECT<>":
        raise ConfigError("the values are no JSON objects: say their columns with --value json:DDL, or --value string")
    return _NAME_OR_TYPE.sub(lambda found: _DDL.get(found.lastgroup or "", found[0]), schema)
