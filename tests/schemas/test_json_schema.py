"""JSON Schema: what is read is validated as what is written, and patterns of strangers end in bounded time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ConfigError
from kcli.schemas.serdes import DecodeError, make_decoder, make_encoder
from tests.needs import needs_package
from tests.schemas.known_registry import KnownRegistry

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "to": {"$ref": "address.json"}},
}
FRAME = b"\0\0\0\0\1"


@pytest.fixture(autouse=True)
def libraries() -> None:
    needs_package("jsonschema")
    needs_package("re2")


def registry_of(schema: Any) -> KnownRegistry:
    reference = {"name": "address.json", "subject": "address", "version": 1}
    address = {"type": "object", "required": ["street"]}
    return KnownRegistry(
        {
            "/schemas/ids/1": {"schema": json.dumps(schema), "schemaType": "JSON", "references": [reference]},
            "/subjects/address/versions/1": {"schema": json.dumps(address), "schemaType": "JSON"},
        }
    )


def texts(values: list[Any]) -> list[Any]:
    return [str(value) if isinstance(value, DecodeError) else value for value in values]


@pytest.mark.parametrize("name", ["json-schema", "auto"])
def test_a_value_that_its_schema_does_not_allow_does_not_decode(name: str):
    values = [{"id": 1}, {"id": 1.0, "to": {"street": "s"}}, {}, {"id": True}, {"id": 1, "to": {}}, []]
    decoder = make_decoder(name, "value", registry=registry_of(ORDER))
    decoded = decoder.decode("t", [FRAME + json.dumps(value).encode() for value in values])
    reasons = [
        "value: 'id' is a required property",
        "value.id: True is not of type 'integer'",
        "value.to: 'street' is a required property",
        "value: [] is not of type 'object'",
    ]
    assert texts(decoded) == [*values[:2], *(f"{name} with schema 1: {reason}" for reason in reasons)]


@pytest.mark.parametrize("base", [None, "http://shop.example/order.json", "order.json", "urn:order", 5])
def test_names_of_references_may_be_relative_to_the_schema(base: Any):
    schema = ORDER if base is None else {**ORDER, "$id": base}
    decoder = make_decoder("json-schema", "value", registry=registry_of(schema))
    values = decoder.decode("t", [FRAME + b'{"id": 1, "to": {"street": "s"}}', FRAME + b'{"id": 1, "to": {}}'])
    if base == 5:
        assert "the schema is not valid: it is not valid at $" in str(values[0])
        return
    assert values[0] == {"id": 1, "to": {"street": "s"}}
    assert "'street' is a required property" in str(values[1])


def test_the_schema_of_a_file_is_that_of_the_reader(tmp_path: Path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({**ORDER, "properties": {"id": {"minimum": 5}}}))
    for registry in (None, registry_of(ORDER)):
        decoder = make_decoder("json-schema", "value", registry=registry, schema_file=str(path))
        payloads = [b'{"id": 5}', b'{"id": 4}', b"null"]
        values = texts(decoder.decode("t", [FRAME + it if registry else it for it in payloads]))
        assert values[0] == {"id": 5}
        assert all(text in value for text, value in zip(("4 is less than", "None is not of"), values[1:], strict=True))
    path.write_text('{"type": 5}')
    with pytest.raises(ConfigError, match=r"s.json: it is not a valid schema: it is not valid at \$.type"):
        make_decoder("json-schema", "value", schema_file=str(path))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"patternProperties": {"^(a+)+$": {"type": "null"}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
        ({"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": {"type": "null"}}, {"a" * 60 + "!": 1}),
        ({"propertyNames": {"pattern": "^(a|aa)+$"}}, {"a" * 60 + "!": 1}),
    ],
)
def test_a_pattern_of_exponential_time_ends(schema: Any, value: Any, tmp_path: Path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(schema))
    (decoded,) = make_decoder("json-schema", "value", schema_file=str(path)).decode("t", [json.dumps(value).encode()])
    assert isinstance(decoded, DecodeError)


def test_a_schema_that_doubles_itself_ends():
    definitions: dict[str, Any] = {"n0": {"type": "integer"}}
    for level in range(1, 60):
        definitions[f"n{level}"] = {"allOf": [{"$ref": f"#/definitions/n{level - 1}"}] * 2}
    schema = {"$ref": "#/definitions/n59", "definitions": definitions}
    decoder = make_decoder("json-schema", "value", registry=registry_of(schema))
    (value,) = decoder.decode("t", [FRAME + b"5"])
    assert "the check takes too many steps" in str(value)
    # Many steps for a large value are no fault.
    wide = make_decoder("json-schema", "value", registry=registry_of({"items": {"type": "integer", "minimum": 0}}))
    numbers = list(range(60_000))
    assert wide.decode("t", [FRAME + json.dumps(numbers).encode()]) == [numbers]


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 2.0],
        [1, True, "1", None, 0, False],
        [{"a": [1]}, {"a": [1.0]}],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{"a": True}, {"a": 1}],
        [[], {}],
        [[0], [False]],
        [{"a": number} for number in range(20_000)],
    ],
)
def test_unique_items_are_those_of_the_library_and_found_in_linear_time(value: Any):
    from jsonschema import Draft7Validator

    schema = {"uniqueItems": True}
    decoder = make_decoder("json-schema", "value", registry=registry_of(schema))
    (decoded,) = decoder.decode("t", [FRAME + json.dumps(value).encode()])
    wanted = len(value) > 1000 or Draft7Validator(schema).is_valid(value)
    assert isinstance(decoded, DecodeError) == (not wanted)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"pattern": "b"}, ["abc", 5], ["ac"]),
        ({"pattern": "^\\d+$"}, ["12"], ["12\n", "\u0661"]),  # as ECMA 262, not as Python
        ({"pattern": "^\\u00e4\\\\u$"}, ["\u00e4\\u"], ["\u00e4"]),
        ({"patternProperties": {"^n": {"type": "integer"}}}, [{"n1": 1, "x": "x"}, []], [{"n1": "x"}]),
        (
            {"patternProperties": {"^n": {}}, "properties": {"p": {}}, "additionalProperties": False},
            [{"p": 1}],
            [{"q": 1}],
        ),
        ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}]),
        ({"pattern": "x"}, ["x\ud800"], ["\ud800"]),
    ],
)
def test_patterns(schema: Any, good: list[Any], bad: list[Any], tmp_path: Path):
    from jsonschema import Draft7Validator

    path = tmp_path / "s.json"
    path.write_text(json.dumps(schema))
    decoder = make_decoder("json-schema", "value", schema_file=str(path))
    for value in (*good, *bad):
        (decoded,) = decoder.decode("t", [json.dumps(value).encode()])
        assert isinstance(decoded, DecodeError) == (value in bad)
        if value not in ("12\n", "\u0661"):
            assert Draft7Validator(schema).is_valid(value) == (value in good)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "(?=a)b"}, "its pattern '(?=a)b' is not supported: patterns have the syntax of RE2"),
        ({"items": [{"patternProperties": {"(a)\\1": {}}}]}, "its pattern '(a)\\\\1' is not supported"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "beside patternProperties is not supported"),
    ],
)
def test_a_pattern_that_cannot_be_matched_in_bounded_time_is_refused(schema: Any, text: str, tmp_path: Path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps(schema))
    for make in (make_decoder, make_encoder):
        with pytest.raises(ConfigError) as failed:
            make("json-schema", "value", schema_file=str(path))
        assert text in str(failed.value)
    (decoded,) = make_decoder("json-schema", "value", registry=registry_of(schema)).decode("t", [FRAME + b'"a"'])
    assert text in str(decoded)
