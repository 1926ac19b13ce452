"""Generated messages in every version: decoded as encoded, and encoded to the same bytes again."""

import functools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.codec import decode, encode
from kcli.protocol.wire import Field, FieldType, Message, fields_of
from tests.protocol.audit import our_messages

NUMBERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}
SCALARS = NUMBERS | {
    "bool": st.booleans(),
    "string": st.text(max_size=200),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.uuids(),
    "float64": st.floats(allow_nan=False),
}
CASES = [(cls, version) for cls in our_messages() for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]


@functools.cache
def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy of messages or structs with values in the fields of the version."""
    return st.builds(cls, **{f.name: _values(f, version) for f in fields_of(cls) if f.is_in(version)})


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _of_type(field.type, version)
    return st.none() | values if field.may_be_null(version) else values


@functools.cache
def _of_type(type: FieldType, version: int) -> st.SearchStrategy[Any]:
    if type.element is not None:
        return st.lists(_of_type(type.element, version), max_size=3)
    return SCALARS[type.wire.name] if type.struct is None else messages(type.struct, version)


@pytest.mark.parametrize(("cls", "version"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_generated_messages_are_decoded_as_encoded(cls: type[Message], version: int) -> None:
    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(messages(cls, version))
    def holds(message: Message) -> None:
        body = encode(message, version)
        again = decode(cls, body, version)
        assert again == message
        assert encode(again, version) == body

    holds()
