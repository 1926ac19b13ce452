"""Records of __cluster_metadata, compared with bytes of Kafka's own classes (tests/vectors/metadata_records.txt)."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kcli.errors import ProtocolError
from kcli.protocol import metadata_records
from kcli.protocol.metadata_records import (
    CONTROL_TYPES,
    RECORD_TYPES,
    LeaderChangeMessage,
    NoOpRecord,
    decode_control_record,
    decode_record,
    encode_control_record,
    encode_record,
)
from tests.protocol.golden import struct_as_json

FILE = Path(__file__).parent.parent / "vectors" / "metadata_records.txt"


class Line(NamedTuple):
    cls: type
    version: int
    data: bytes
    json: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.cls.__name__} v{self.version}"

    @property
    def key(self) -> bytes:
        """The key of a control record."""
        return bytes((0, 0, 0, CONTROL_TYPES[self.cls][0]))


def lines() -> list[Line]:
    found = []
    for line in FILE.read_text().splitlines():
        if not line.startswith("#"):
            name, version, data, text = line.split(" ", 3)
            found.append(Line(getattr(metadata_records, name), int(version), bytes.fromhex(data), json.loads(text)))
    return found


METADATA = pytest.mark.parametrize("line", [line for line in lines() if line.cls in RECORD_TYPES], ids=str)
CONTROL = pytest.mark.parametrize("line", [line for line in lines() if line.cls in CONTROL_TYPES], ids=str)


def test_there_are_two_lines_for_every_record_in_every_version() -> None:
    newest = {cls: version for cls, (_, version) in {**RECORD_TYPES, **CONTROL_TYPES}.items()}

    wanted = {(cls, version) for cls in newest for version in range(newest[cls] + 1)}
    assert Counter((line.cls, line.version) for line in lines()) == dict.fromkeys(wanted, 2)


@METADATA
def test_a_metadata_record_of_kafka_is_decoded_and_encoded_to_the_same_bytes(line: Line) -> None:
    record = decode_record(line.data)

    assert type(record) is line.cls
    assert struct_as_json(record, line.version, flexible=True) == line.json
    assert encode_record(record, line.version) == line.data
    assert encode_record(record)[2] == RECORD_TYPES[line.cls][1]


@CONTROL
def test_a_control_record_of_kafka_is_decoded_and_encoded_to_the_same_bytes(line: Line) -> None:
    record = decode_control_record(line.key, line.data)

    assert type(record) is line.cls
    shown = struct_as_json(record, line.version, flexible=True)
    assert _renamed(shown) == line.json
    assert encode_control_record(record) == (line.key, line.data)


def _renamed(value: Any) -> Any:
    """Return the JSON with Kafka's names where camel case of ours differs."""
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if isinstance(value, dict):
        return {name.replace("kraft", "kRaft", 1): _renamed(item) for name, item in value.items()}
    return value


@METADATA
def test_a_truncated_metadata_record_is_a_protocol_error(line: Line) -> None:
    for length in range(len(line.data)):
        with pytest.raises(ProtocolError):
            decode_record(line.data[:length])


@CONTROL
def test_a_truncated_control_record_is_a_protocol_error(line: Line) -> None:
    for length in range(len(line.data)):
        with pytest.raises(ProtocolError):
            decode_control_record(line.key, line.data[:length])


def test_a_record_of_an_unknown_kind_version_or_frame_is_a_protocol_error() -> None:
    for value in (b"\x02\x14\x00\x00", b"\x01\x7e\x00\x00", b"\x01\x14\x01\x00"):
        with pytest.raises(ProtocolError):
            decode_record(value)


def test_a_transaction_marker_is_not_a_record_of_the_metadata_log() -> None:
    assert decode_control_record(bytes((0, 0, 0, 1)), b"\0\0\0\0\0\0") is None


def test_damaged_bytes_are_decoded_or_are_a_protocol_error() -> None:
    for line in lines():
        for position in range(len(line.data)):
            damaged = line.data[:position] + b"\xff" + line.data[position + 1 :]
            with contextlib.suppress(ProtocolError):
                decode_record(damaged) if line.cls in RECORD_TYPES else decode_control_record(line.key, damaged)


def test_the_smallest_records_have_their_known_bytes() -> None:
    assert encode_record(NoOpRecord()) == b"\x01\x14\x00\x00"
    assert encode_control_record(LeaderChangeMessage(leader_id=1))[0] == b"\x00\x00\x00\x02"
