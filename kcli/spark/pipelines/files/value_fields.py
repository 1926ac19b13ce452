"""Fields of decoded values as columns: chosen ones, all of them, and those of partition folders.

A path is written `note.by`, its column is called `note_by` unless `note.by=NAME` names it. A column whose name a
record has as well (offset, timestamp, ...), or that begins as those of a pipeline do, gets the prefix `value_`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.spark.pipelines import columns as f
from kcli.spark.record_schema import ALL
from kcli.text import closest_name

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Columns beside the decoded value: its error, and the bytes of a value with an error.
ERROR_COLUMN, RAW_COLUMN = "value_error", "value_raw"
#: The beginning of the names of columns that a pipeline adds for itself.
OWN_PREFIX = "_kcli_"
#: Names of columns that are not available to fields, in lower case: Spark ignores case.
_TAKEN = {name.lower() for name, _ in ALL} | {"dt", "hour", ERROR_COLUMN, RAW_COLUMN}
_STEP = re.compile(r"`((?:[^`]|``)+)`|([^.`=\s][^.`=]*)")


class Field(NamedTuple):
    """A field of the value, by its path, and the name of its column."""

    path: tuple[str, ...]
    column: str

    def __str__(self) -> str:
        return ".".join(self.path)


def parse_field(option: str, text: str) -> Field:
    """Parse `a.b` or `a.b=NAME`; a name with a dot is written in backticks. ConfigError."""
    steps: list[str] = []
    at = 0
    while True:
        match = _STEP.match(text, at)
        if match is None:
            raise ConfigError(f"{option}: {text!r} is not valid; use a path like note.by, or note.by=NAME")
        steps.append((match[1] or match[2]).replace("``", "`").strip())
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    equals, name = text[at : at + 1], text[at + 1 :].strip()
    if not equals:
        return Field(tuple(steps), column_name(steps))
    if equals != "=" or not name:
        raise ConfigError(f"{option}: {text!r} is not valid; use a path like note.by, or note.by=NAME")
    if _is_taken(name):
        raise ConfigError(f"{option}: {text!r} is not valid: {name} is a column of every record")
    return Field(tuple(steps), name)


def parse_fields(option: str, text: str) -> tuple[Field, ...]:
    """Parse `a.b,c=NAME`. ConfigError also for a column that occurs twice."""
    fields = tuple(parse_field(option, part.strip()) for part in text.split(",") if part.strip())
    if not fields:
        raise ConfigError(f"{option} must not be empty")
    check_distinct(option, fields)
    return fields


def column_name(path: Sequence[str]) -> str:
    """Return the name of a field's column."""
    name = "_".join(path)
    return f"value_{name}" if _is_taken(name) else name


def _is_taken(name: str) -> bool:
    return name.lower() in _TAKEN or name.lower().startswith(OWN_PREFIX)


def check_distinct(option: str, fields: Iterable[Field]) -> None:
    """Raise ConfigError for two fields with the same column; Spark ignores case."""
    by_name: dict[str, Field] = {}
    for field in fields:
        other = by_name.setdefault(field.column.lower(), field)
        if other != field:
            raise ConfigError(
                f"{option}: {other} and {field} would both be the column {field.column}; "
                "choose fields and names with --fields PATH=NAME,..."
            )


def leaf_fields(value_type: Any) -> tuple[Field, ...]:
    """Return the fields of a struct type that are no structs themselves, in order. ConfigError for other types."""
    if not _is_struct(value_type):
        raise ConfigError("--flatten: the values have no fields; use --value json, avro, protobuf or json-schema")
    fields = tuple(Field(path, column_name(path)) for path in _leaves(value_type, ()))
    check_distinct("--flatten", fields)
    return fields


def _leaves(struct: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        path = (*above, field.name)
        if _is_struct(field.dataType):
            yield from _leaves(field.dataType, path)
        else:
            yield path


def _is_struct(data_type: Any) -> bool:
    return hasattr(data_type, "fields")


def type_of_field(option: str, value_type: Any, field: Field) -> Any:
    """Return the type of a field. ConfigError if the value does not have it."""
    found = value_type
    for depth, step in enumerate(field.path):
        inside = {field.name: field.dataType for field in found.fields} if _is_struct(found) else {}
        if step not in inside:
            raise ConfigError(
                f"{option}: the value has no field {_shown(field.path[: depth + 1])}{_hint(step, inside)}"
            )
        found = inside[step]
    return found


def _shown(path: Sequence[str]) -> str:
    return ".".join(path)


def _hint(step: str, inside: Collection[str]) -> str:
    close = closest_name(step, inside)
    if close:
        return f"; did you mean {close}?"
    return f"; its fields are {', '.join(list(inside)[:20])}" if inside else ""


def field_column(field: Field) -> Column:
    """Return the column of a field of the decoded value."""
    column = f.col("value")
    for step in field.path:
        column = column.getField(step)
    return column


def json_path(field: Field) -> str:
    """Return the path of a field in JSON text, for Spark's get_json_object."""
    return "$" + "".join("['" + step.replace("'", "\\'") + "']" for step in field.path)
