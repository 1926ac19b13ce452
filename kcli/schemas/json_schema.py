"""JSON that a JSON Schema describes: values are validated before they are written, and after they are read.

**Non-obvious**

- The patterns of a schema are those of strangers, and so are the texts that they are matched with. Python's `re` could
  occupy the process for ever, so google-re2 matches them, which lacks look-ahead and back references.
- A schema of a few lines can refer to its parts so often that a check never ends. Therefore the steps of a check are
  counted; their limit grows with the size of the value.
- `format` is not checked, as the specification allows.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import urljoin

from kcli.schemas.contracts import EncodeError, missing_extra
from kcli.schemas.simple_formats import plain_serde, read_json

_MAX_SHOWN = 200
_LEAST_STEPS = 100_000
_STEPS_PER_BYTE = 20


def validated(text: str, referred: Mapping[str, str]) -> Callable[[Any], bytes]:
    """Return the function from a value to its JSON, which raises EncodeError if the schema does not allow the value.

    `referred` has the texts of other schemas by the URI that names them; nothing is fetched from elsewhere. Raise
    ValueError if it is not a valid schema, ConfigError without the library.
    """
    check = _validator(text, referred)
    write_json = plain_serde("json")

    def write(value: Any) -> bytes:
        data = write_json.encode("", value)  # first: it bounds the depth of the value
        try:
            check(value, len(data))
        except ValueError as error:
            raise EncodeError(str(error)) from None
        return data

    return write


def validating_reader(text: str, referred: Mapping[str, str], start: int) -> Callable[[bytes], Any]:
    """Return the function from JSON after a frame of `start` bytes to its value.

    It raises ValueError if the schema does not allow the value. Arguments and errors are those of `validated`.
    """
    check = _validator(text, referred)

    def read(payload: bytes) -> Any:
        value = read_json(payload[start:])
        check(value, len(payload))
        return value

    return read


def _validator(text: str, referred: Mapping[str, str]) -> Callable[[Any, int], None]:
    """Return the function that raises ValueError for a value, of so many bytes, that the schema does not allow."""
    if find_spec("jsonschema") is None:
        raise missing_extra("json-schema", "jsonschema")
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError, best_match
    from jsonschema.validators import extend, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7

    schema = _parsed(text)
    others = {name: _parsed(other) for name, other in referred.items()}
    kind = validator_for(schema, default=Draft7Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"it is not valid at {error.json_path}: {_short(error.message)}") from None
    _check_patterns([schema, *others.values()])
    base = schema.get("$id", "") if isinstance(schema, dict) else ""
    resources = {name: DRAFT7.create_resource(other) for name, other in others.items()}
    # A name of a reference may be relative to the schema's own URI, as $ref is.
    resources = {urljoin(str(base), name): resource for name, resource in resources.items()} | resources
    registry = Registry().with_resources(resources.items())
    steps = _Steps()
    keywords = {name: steps.counted(check) for name, check in {**kind.VALIDATORS, **_KEYWORDS}.items()}
    validator = extend(kind, keywords)(schema, registry=registry)

    def check(value: Any, size: int) -> None:
        steps.left = _LEAST_STEPS + _STEPS_PER_BYTE * size
        try:
            error = best_match(validator.iter_errors(value))
        except Unresolvable as missing:
            raise ValueError(f"the schema refers to {missing.ref!r}, which is not among its references") from None
        except RecursionError:
            raise ValueError("the schema refers to itself without end") from None
        if error is not None:
            raise ValueError(f"value{error.json_path[1:]}: {_short(error.message)}")

    return check


def _parsed(text: str) -> Any:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(schema, (dict, bool)):
        raise ValueError("it must be an object")
    if isinstance(schema, dict) and not isinstance(schema.get("$schema", ""), str):
        raise ValueError("it is not valid at $.$schema: it must be a text")
    return schema


def _short(message: str) -> str:
    return message if len(message) <= _MAX_SHOWN else f"{message[:_MAX_SHOWN]}..."


class _Steps(threading.local):
    """The steps that are left for the check of a value: each thread checks one at a time."""

    left = 0

    def counted(self, keyword: Callable[..., Any]) -> Callable[..., Any]:
        """Return the check of a keyword that takes a step."""

        def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise ValueError("the check takes too many steps: the schema refers to its parts too often")
            return keyword(validator, wanted, value, schema)

        return check


def _unique_items(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check that no two elements are equal. The library compares each pair of objects, which takes quadratic time."""
    from jsonschema.exceptions import ValidationError

    if wanted and validator.is_type(value, "array") and len(set(map(_hashable, value))) < len(value):
        yield ValidationError(f"{_short(repr(value))} has non-unique elements")


def _hashable(value: Any) -> Any:
    """Return a value that is equal to that of another if both are equal in JSON, where 1 is 1.0, and true is not 1."""
    if isinstance(value, dict):
        return dict, frozenset((name, _hashable(part)) for name, part in value.items())
    if isinstance(value, list):
        return list, tuple(map(_hashable, value))
    return (bool, value) if isinstance(value, bool) else value


# Patterns


def _check_patterns(documents: list[Any]) -> None:
    """Raise ValueError for a pattern that cannot be matched, ConfigError without the library.

    Members may also be data, such as those of `default`: a pattern there is checked for nothing.
    """
    waiting = list(documents)
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict):
            continue
        waiting += part.values()
        if isinstance(part.get("pattern"), str):
            _search(part["pattern"])
        if isinstance(part.get("patternProperties"), dict):
            if "unevaluatedProperties" in part:
                raise ValueError("unevaluatedProperties beside patternProperties is not supported")
            for pattern in part["patternProperties"]:
                _search(pattern)


@lru_cache(maxsize=1000)
def _search(pattern: str) -> Callable[[str], bool]:
    """Return the search for a pattern of ECMA 262 in a text. Raise ValueError, ConfigError."""
    from kcli.patterns import InvalidRegex, LibraryMissing, compile_regex

    try:
        regex = compile_regex(re.sub(r"(\\\\)|\\u([0-9A-Fa-f]{4})", _as_re2, pattern))
    except LibraryMissing:
        raise missing_extra("a pattern of JSON Schema", "google-re2") from None
    except InvalidRegex:
        raise ValueError(
            f"its pattern {_short(repr(pattern))} is not supported: patterns have the syntax of RE2, without "
            "look-ahead and back references"
        ) from None
    return lambda text: regex.matches_part(text.encode("utf-8", "replace").decode())


def _as_re2(match: re.Match[str]) -> str:
    return match[1] or f"\\x{{{match[2]}}}"


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not _search(pattern)(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "object"):
        for pattern, inner in patterns.items():
            search = _search(pattern)
            for name in filter(search, value):
                yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, additional: Any, value: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(value, "object"):
        return
    searches = [_search(pattern) for pattern in schema.get("patternProperties", ())]
    known = schema.get("properties", ())
    others = [name for name in value if name not in known and not any(search(name) for search in searches)]
    if validator.is_type(additional, "object"):
        for name in others:
            yield from validator.descend(value[name], additional, path=name)
    elif not additional and others:
        names = ", ".join(map(repr, others))
        verb = "was" if len(others) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({names} {verb} unexpected)")


_KEYWORDS = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
