"""The table of error codes, equal to Kafka's (tests/vectors/tables.txt); properties of a code."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from kcli import error_codes
from kcli.error_codes import ErrorCode
from tests.protocol.golden import table


def test_codes_equal_those_of_kafka_with_their_retry_behaviour() -> None:
    expected = [(int(code), name, retriable, refresh) for code, name, retriable, refresh in table("error")]

    codes = [(int(c), c.name, _java(c.retriable), _java(c.refresh_metadata)) for c in ErrorCode.all()]
    assert codes == expected


def test_attributes_that_python_gives_a_class_are_not_codes() -> None:
    """Python 3.13 adds a tuple __static_attributes__, and 3.14 one more: kcli did not start there."""
    source = Path(error_codes.__file__).read_text()
    newer = source.replace("    name: str\n", "    name: str\n    __static_attributes__ = ()\n", 1)
    assert newer != source
    module: dict[str, Any] = {"__name__": "newer"}
    exec(newer, module)
    assert len(module["ErrorCode"].all()) == len(ErrorCode.all())


def _java(value: bool) -> str:
    return "true" if value else "false"


def test_every_code_has_a_distinct_text() -> None:
    texts = [code.text for code in ErrorCode.all()]

    assert len(set(texts)) == len(texts)
    assert all(len(text.split()) > 1 and not text.endswith(".") for text in texts)


def test_a_code_is_one_object_and_its_number() -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code == 3
    assert code.value == 3
    assert f"{code}" == "3"
    assert repr(code) == "<ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 3>"
    assert pickle.loads(pickle.dumps(code)) is code
    assert copy.deepcopy(code) is code
    assert {3: "found"}[code] == "found"


def test_a_code_of_a_newer_kafka_is_an_unknown_server_error() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ValueError, match="9999 is not an error code"):
        ErrorCode(9999)
