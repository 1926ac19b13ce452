"""Frames: headers as written by Kafka's RequestHeaderData and ResponseHeaderData (4.3.1), then a body."""

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.codec import encode
from kcli.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    peek_correlation_id,
)
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.registry import ApiKey, request_type, response_type
from tests.protocol.golden import table

JAVA_REQUEST_HEADERS = [
    (11, "kcli-ü", "0001000b0000004d00076b636c692dc3bc"),
    (11, None, "0001000b0000004dffff"),
    (12, "kcli", "0001000c0000004d00046b636c6900"),
    (12, None, "0001000c0000004dffff00"),
]
SPOKEN = [row for row in table("header") if int(row[0]) in set(ApiKey)]


@pytest.mark.parametrize(("version", "client_id", "header"), JAVA_REQUEST_HEADERS)
def test_a_request_frame_is_javas_header_and_the_body(version: int, client_id: str | None, header: str) -> None:
    request = FetchRequest(max_wait_ms=500)

    frame = encode_request(request, version, 77, client_id)

    assert frame == bytes.fromhex(header) + encode(request, version)
    assert decode_request_header(frame) == (RequestHeader(1, version, 77, client_id), len(header) // 2)


@pytest.mark.parametrize(("version", "header"), [(11, "0000004d"), (12, "0000004d00")])
def test_a_response_frame_is_javas_header_and_the_body(version: int, header: str) -> None:
    response = FetchResponse(throttle_time_ms=5)

    frame = encode_response(response, version, 77)

    assert frame == bytes.fromhex(header) + encode(response, version)
    assert decode_response(FetchResponse, version, frame) == (77, response)
    assert peek_correlation_id(frame) == 77


@pytest.mark.parametrize("row", SPOKEN, ids=lambda row: f"{row[1]} v{row[2]}")
def test_every_version_has_kafkas_header_version(row: list[str]) -> None:
    key, version, request_header, response_header = int(row[0]), *map(int, row[2:])

    if version <= request_type(key).VERSIONS[1]:  # Kafka's table has unstable ones too
        request, response = request_type(key)(), response_type(key)()
        request_length = len(encode_request(request, version, 1, "")) - len(encode(request, version))
        response_length = len(encode_response(response, version, 1)) - len(encode(response, version))
        assert request_length == {1: 10, 2: 11}[request_header]
        assert response_length == {0: 4, 1: 5}[response_header]


def test_tags_in_headers_are_skipped() -> None:
    tags = bytes.fromhex("02 05 03 aabbcc 63 00".replace(" ", ""))
    body = encode(HeartbeatResponse(error_code=27), 4)

    response = decode_response(HeartbeatResponse, 4, b"\0\0\0\x4d" + tags + body)
    _, start = decode_request_header(bytes.fromhex("0001000c0000004dffff") + tags + b"body")

    assert response == (77, HeartbeatResponse(error_code=27))
    assert start == 10 + len(tags)


def test_an_unsupported_api_versions_response_is_decoded_as_v0() -> None:
    # As Kafka 2.3 answers v4: correlation id, error 35, then the versions it does speak (KIP-511).
    frame = bytes.fromhex("0000004d 0023 00000001 0012 0000 0002".replace(" ", ""))

    correlation_id, response = decode_response(ApiVersionsResponse, 4, frame)

    assert correlation_id == 77
    assert response.error_code == 35
    assert response.api_keys == [ApiVersion(api_key=18, min_version=0, max_version=2)]


def test_api_versions_responses_have_no_tags_in_their_header() -> None:
    answer = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])

    assert encode_response(answer, 4, 77) == b"\0\0\0\x4d" + encode(answer, 4)
    assert decode_response(ApiVersionsResponse, 4, encode_response(answer, 4, 77)) == (77, answer)


def test_the_header_of_an_unsupported_version_is_decoded() -> None:
    frame = encode_request(ApiVersionsRequest(), 4, 77, "me")
    future = frame[:2] + b"\0\x63" + frame[4:]

    header, start = decode_request_header(future)

    assert header == RequestHeader(18, 99, 77, "me")
    assert start == 13


def test_frames_truncated_in_the_header_are_a_protocol_error() -> None:
    request = encode_request(FetchRequest(), 12, 77, "kcli")
    for length in range(15):
        with pytest.raises(ProtocolError):
            decode_request_header(request[:length])
    response = encode_response(FetchResponse(), 12, 77)
    for length in range(5):
        with pytest.raises(ProtocolError):
            decode_response(FetchResponse, 12, response[:length])


def test_a_request_for_an_unknown_api_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="kcli does not support API 999"):
        decode_request_header(bytes.fromhex("03e700000000004dffff"))
