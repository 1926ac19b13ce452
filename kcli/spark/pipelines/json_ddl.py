"""DDL of JSON values: the check of a given one before Spark starts, and the conversion of an inferred one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kcli.errors import ConfigError
from kcli.text import closest_name

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
