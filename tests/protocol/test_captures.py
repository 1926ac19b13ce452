"""Captured frames of foreign clients and a real broker: decoded, and encoded to the same bytes.

tests/vectors/captures/ names the client and the broker of every line; tests/vectors/capture.py made them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.protocol.codec import decode
from kcli.protocol.headers import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    peek_correlation_id,
)
from kcli.protocol.registry import ApiKey, request_type, response_type

CAPTURES = Path(__file__).parent.parent / "vectors" / "captures"


class Capture(NamedTuple):
    name: str
    request: bytes
    response: bytes


def captures() -> list[Capture]:
    found = []
    for file in sorted(CAPTURES.glob("*.jsonl")):
        for number, text in enumerate(file.read_text().splitlines(), 1):
            line = json.loads(text)
            name = f"{line['client']}: {line['api']} (line {number})"
            found.append(Capture(name, bytes.fromhex(line["request"]), bytes.fromhex(line["response"])))
    return found


ALL = captures()


@pytest.mark.parametrize("capture", ALL, ids=lambda capture: capture.name)
def test_a_foreign_clients_request_is_decoded_and_encoded_to_the_same_bytes(capture: Capture) -> None:
    header, body = decode_request_header(capture.request)
    message = decode(request_type(header.api_key), capture.request, header.api_version, body)
    written = encode_request(message, header.api_version, header.correlation_id, header.client_id)
    assert written == capture.request


@pytest.mark.parametrize("capture", ALL, ids=lambda capture: capture.name)
def test_a_real_brokers_response_is_decoded_and_encoded_to_the_same_bytes(capture: Capture) -> None:
    header, _ = decode_request_header(capture.request)
    correlation_id, message = decode_response(response_type(header.api_key), header.api_version, capture.response)
    assert correlation_id == peek_correlation_id(capture.request[4:]) == header.correlation_id
    assert encode_response(message, header.api_version, correlation_id) == capture.response


def test_every_supported_api_has_a_capture() -> None:
    captured = {decode_request_header(capture.request)[0].api_key for capture in ALL}
    assert {key.name for key in ApiKey if key not in captured} == set()
