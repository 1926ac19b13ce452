"""Records of KIP-848 groups in __consumer_offsets, compared with bytes of Kafka's own classes."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.consumer_group_records import RECORD_KINDS, decode_group_record, encode_group_record
from tests.protocol.golden import RecordLine, record_lines, struct_as_json

KEYS = {key.__name__: kind for kind, (key, _) in RECORD_KINDS.items()}
VALUES = {value.__name__: kind for kind, (_, value) in RECORD_KINDS.items()}

every_key = pytest.mark.parametrize("line", record_lines(*KEYS), ids=str)
every_value = pytest.mark.parametrize("line", record_lines(*VALUES), ids=str)


def key_of(value: RecordLine) -> bytes:
    """Return a key of the kind that this value belongs to."""
    return next(line.data for line in record_lines(*KEYS) if KEYS[line.name] == VALUES[value.name])


def test_every_kind_of_record_was_written_by_kafka() -> None:
    assert {line.name for line in record_lines(*KEYS, *VALUES)} == KEYS.keys() | VALUES.keys()


@every_key
def test_a_key_is_decoded_and_encoded_as_kafka_writes_it(line: RecordLine) -> None:
    decoded = decode_group_record(line.data, None)

    assert decoded is not None
    key, value = decoded
    assert value is None
    assert struct_as_json(key, 0, flexible=False) == line.json
    assert encode_group_record(key, None) == (line.data, None)


@every_value
def test_a_value_is_decoded_and_encoded_as_kafka_writes_it(line: RecordLine) -> None:
    decoded = decode_group_record(key_of(line), line.data)

    assert decoded is not None
    key, value = decoded
    assert struct_as_json(value, 0, flexible=True) == line.json
    assert encode_group_record(key, value) == (key_of(line), line.data)


@every_key
def test_a_truncated_key_is_a_protocol_error(line: RecordLine) -> None:
    for length in range(len(line.data)):
        with pytest.raises(ProtocolError):
            decode_group_record(line.data[:length], None)


@every_value
def test_a_truncated_value_is_a_protocol_error(line: RecordLine) -> None:
    for length in range(len(line.data)):
        with pytest.raises(ProtocolError):
            decode_group_record(key_of(line), line.data[:length])


@every_value
def test_a_huge_number_at_any_position_allocates_little(line: RecordLine) -> None:
    key = key_of(line)
    decode_group_record(key, line.data)  # what is compiled now is not counted
    tracemalloc.start()
    try:
        for at in range(2, len(line.data) - 4):
            with contextlib.suppress(ProtocolError):
                decode_group_record(key, line.data[:at] + b"\xff\xff\xff\xff\x07" + line.data[at + 5 :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("kind", [0, 2, 4, 9, 17, -1])
def test_keys_of_other_kinds_are_ignored(kind: int) -> None:
    assert decode_group_record(kind.to_bytes(2, "big", signed=True) + b"\0\1g", None) is None


def test_a_newer_value_is_an_error() -> None:
    line = record_lines("ConsumerGroupMetadataValue")[0]

    with pytest.raises(ProtocolError, match="version 1"):
        decode_group_record(key_of(line), b"\0\1" + line.data[2:])
