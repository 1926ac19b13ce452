"""Bodies written by Kafka's own classes (tests/vectors/messages.txt): decoded to their values and encoded again."""

import contextlib
import tracemalloc
from collections import Counter

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.codec import decode, encode, is_flexible
from kcli.protocol.wire import Message
from tests.protocol.audit import our_messages
from tests.protocol.golden import Golden, as_json, goldens, goldens_of

pytestmark = pytest.mark.slow

every_message = pytest.mark.parametrize("cls", our_messages(), ids=lambda cls: cls.__name__)


def test_there_are_two_goldens_for_every_message_in_every_version() -> None:
    counts = Counter((golden.cls, golden.version) for golden in goldens())

    wanted = {(cls, version) for cls in our_messages() for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)}
    assert counts == dict.fromkeys(wanted, 2)


@every_message
def test_golden_bytes_are_decoded_to_their_values(cls: type[Message]) -> None:
    for golden in goldens_of(cls):
        message = decode(cls, golden.body, golden.version)
        assert as_json(message, golden.version) == golden.json, golden


@every_message
def test_golden_values_are_encoded_to_their_bytes(cls: type[Message]) -> None:
    for golden in goldens_of(cls):
        assert encode(decode(cls, golden.body, golden.version), golden.version) == golden.body, golden


@every_message
def test_truncated_golden_bytes_are_a_protocol_error(cls: type[Message]) -> None:
    for golden in goldens_of(cls):
        view = memoryview(golden.body)
        for length in range(len(view)):
            error = _refusal(cls, view[:length], golden.version)
            assert error.evidence["message"] == str(golden)
            assert error.evidence["field"]
            assert 0 <= error.evidence["position"] <= length


def _refusal(cls: type[Message], body: memoryview, version: int) -> ProtocolError:
    try:
        decode(cls, body, version)
    except ProtocolError as error:
        return error
    raise AssertionError(f"{len(body)} bytes were taken for a {cls.__name__} v{version}")


@every_message
def test_bytes_before_and_after_a_body_are_ignored(cls: type[Message]) -> None:
    for golden in goldens_of(cls):
        message = decode(cls, b"\xff" * 7 + golden.body + b"\xff" * 9, golden.version, offset=7)
        assert message == decode(cls, golden.body, golden.version)


CLASSIC_HUGE = [b"\x7f\xff\xff\xff"]
COMPACT_HUGE = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"]


@every_message
def test_a_huge_number_at_any_position_allocates_little(cls: type[Message]) -> None:
    oldest, newest = goldens_of(cls)[0], goldens_of(cls)[-2]  # those with every field set

    for golden in (oldest, newest) if oldest != newest else (oldest,):
        huge_numbers = COMPACT_HUGE if is_flexible(cls, golden.version) else CLASSIC_HUGE
        _try_everywhere(golden, huge_numbers)  # compiles decoders, which is not counted
        tracemalloc.start()
        try:
            _try_everywhere(golden, huge_numbers)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 200_000, golden


def _try_everywhere(golden: Golden, huge_numbers: list[bytes]) -> None:
    """Decode; a ProtocolError is as good as a message, because the number may have replaced a value."""
    for huge in huge_numbers:
        for position in range(len(golden.body)):
            body = golden.body[:position] + huge + golden.body[position + len(huge) :]
            with contextlib.suppress(ProtocolError):
                decode(golden.cls, body, golden.version)
