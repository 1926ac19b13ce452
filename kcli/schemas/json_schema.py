"""JSON that a JSON Schema describes: values are validated before they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from kcli.schemas.contracts import EncodeError, missing_extra
from kcli.schemas.simple_formats import plain_serde

_MAX_SHOWN = 200


def validated(text: str, referred: Mapping[str, str]) -> Callable[[Any], bytes]:
    """Return the function from a value to its JSON, which raises EncodeError if the schema does not allow the value.

    `referred` has the texts of other schemas by the URI that names them; nothing is fetched from elsewhere. Raise
    ValueError if it is not a valid schema, ConfigError without the library.
    """
    if find_spec("jsonschema") is None:
        raise missing_extra("json-schema", "jsonschema")
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError, best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7

    schema = _parsed(text)
    kind = validator_for(schema, default=Draft7Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"it is not valid at {error.json_path}: {_short(error.message)}") from None
    registry = Registry().with_resources(
        (name, DRAFT7.create_resource(_parsed(other))) for name, other in referred.items()
    )
    validator = kind(schema, registry=registry)
    write_json = plain_serde("json")

    def write(value: Any) -> bytes:
        data = write_json.encode("", value)  # first: it bounds the depth of the value
        try:
            error = best_match(validator.iter_errors(value))
        except Unresolvable as missing:
            raise EncodeError(f"the schema refers to {missing.ref!r}, which is not among its references") from None
        except RecursionError:
            raise EncodeError("the schema refers to itself without end") from None
        if error is not None:
            raise EncodeError(f"value{error.json_path[1:]}: {_short(error.message)}")
        return data

    return write


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
