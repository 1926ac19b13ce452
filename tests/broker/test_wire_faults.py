"""Malformed input on raw sockets: the embedded broker must behave as Apache Kafka does."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.wire import Wire, fetch
from tests.real_kafka import Kafka, OwnBroker

LIMIT = 104_857_600
AT_ONCE_S = 2.0  # far below the idle timeout of 10 minutes, but enough for a busy machine


@pytest.fixture
def wire(any_kafka: Kafka) -> Iterator[Wire]:
    with Wire(any_kafka.bootstrap_servers) as wire:
        yield wire


def header(key: int, version: int, client_id: str | None = "wire", *, tags: bytes = b"") -> bytes:
    named = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return struct.pack(">hhi", key, version, 7) + named + tags


def still_serves(kafka: Kafka) -> bool:
    with Wire(kafka.bootstrap_servers) as other:
        return other.ask(ApiVersionsRequest(), 2).error_code == 0


@pytest.mark.parametrize("length", [0x7FFFFFFF, -1, -0x80000000, LIMIT + 1, 0])
def test_invalid_frame_length_closes_the_connection(wire: Wire, any_kafka: Kafka, length: int) -> None:
    wire.raw(struct.pack(">i", length))
    assert wire.seconds_until_closed() < AT_ONCE_S
    assert still_serves(any_kafka)


def test_frame_length_at_the_limit_is_accepted(wire: Wire) -> None:
    wire.raw(struct.pack(">i", LIMIT) + b"some")
    assert wire.is_open()


def test_half_closed_connection_within_a_frame_is_closed(wire: Wire) -> None:
    wire.raw(struct.pack(">i", 100) + b"half")
    wire.sock.shutdown(1)
    assert wire.seconds_until_closed() < AT_ONCE_S


@pytest.mark.parametrize(
    ("key", "version"),
    [(999, 0), (-1, 0), (3, 99), (3, -1), (1, 3), (0, 2), (11, 10), (4, 0), (67, 0)],
    ids=["no-such-api", "negative", "too-high", "below-zero", "removed", "produce-2", "join-10", "leader-isr", "inner"],
)
def test_unserved_api_or_version_closes_the_connection(wire: Wire, key: int, version: int) -> None:
    wire.frame(header(key, version, tags=b"\0") + bytes(100))
    assert wire.seconds_until_closed() < AT_ONCE_S


def test_unknown_api_versions_version_is_answered_in_v0(wire: Wire) -> None:
    body = header(18, 99, tags=b"\0") + b"\x05kcli\x040.1\0"
    wire.frame(body)
    assert wire.read_frame().hex(" ") == "00 00 00 07 00 23 00 00 00 01 00 12 00 00 00 04"
    wire.frame(header(18, 2))  # the connection remains open
    assert wire.read_frame()[4:6] == b"\0\0"


def test_unknown_api_versions_version_with_an_old_header_closes_the_connection(wire: Wire) -> None:
    wire.frame(header(18, 99))
    assert wire.seconds_until_closed() < AT_ONCE_S


@pytest.mark.parametrize("name", ["", "-kcli", "kcli-", "k cli", "kcli!", "ключ"])
def test_malformed_software_name_is_refused(wire: Wire, name: str) -> None:
    answer = wire.ask(ApiVersionsRequest(client_software_name=name, client_software_version="0.1"), 3)
    assert (answer.error_code, answer.api_keys) == (42, [])


def test_software_name_may_have_dots_and_dashes_inside(wire: Wire) -> None:
    answer = wire.ask(ApiVersionsRequest(client_software_name="a-b.c", client_software_version="1"), 3)
    assert answer.error_code == 0


def test_produce_is_advertised_from_v0(wire: Wire) -> None:
    """Old librdkafka requires it, although the broker closes the connection on requests below v3."""
    (produce,) = [one for one in wire.ask(ApiVersionsRequest(), 0).api_keys if one.api_key == 0]
    assert (produce.min_version, produce.max_version) == (0, 13)


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_truncated_body_closes_the_connection(wire: Wire, cut: int) -> None:
    frame = encode_request(FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])]), 11, 7, "wire")
    wire.frame(frame[:-cut])
    assert wire.seconds_until_closed() < AT_ONCE_S


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (3, 1, b"\x7f\xff\xff\xff"),
        (1, 11, struct.pack(">iiiibiii", -1, 100, 1, 1000, 0, 0, -1, 0x7FFFFFFF)),
        (2, 1, struct.pack(">ii", -1, 0x7FFFFFFF)),
        (3, 9, b"\xff\xff\xff\xff\x0f"),
    ],
    ids=["metadata", "fetch", "list-offsets", "metadata-compact"],
)
def test_count_beyond_the_body_closes_the_connection(
    wire: Wire, any_kafka: Kafka, key: int, version: int, body: bytes
) -> None:
    wire.frame(header(key, version, tags=b"\0" if version == 9 else b"") + body)
    assert wire.seconds_until_closed() < AT_ONCE_S
    assert still_serves(any_kafka)


def test_count_of_minus_two_is_null(wire: Wire, any_kafka: Kafka) -> None:
    """In Metadata, null requests all topics."""
    topic = any_kafka.new_topic()
    wire.frame(header(3, 1) + struct.pack(">i", -2))
    _, answer = decode_response(MetadataResponse, 1, wire.read_frame())
    assert topic in [one.name for one in answer.topics]


def test_bytes_after_the_body_are_ignored(wire: Wire) -> None:
    wire.frame(header(3, 1) + struct.pack(">i", 0) + b"garbage")
    _, answer = decode_response(MetadataResponse, 1, wire.read_frame())
    assert (len(answer.brokers), answer.topics) == (1, [])


@pytest.mark.parametrize(
    "hello",
    [bytes.fromhex("16030100a5010000a10303") + bytes(160), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["tls", "http"],
)
def test_other_protocols_close_the_connection(wire: Wire, hello: bytes) -> None:
    wire.raw(hello)
    assert wire.seconds_until_closed() < AT_ONCE_S


@pytest.mark.parametrize("version", [0, 1])
def test_sasl_is_refused_on_a_plain_listener(wire: Wire, version: int) -> None:
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert wire.ask(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_null_client_id_is_accepted(wire: Wire) -> None:
    assert wire.ask(MetadataRequest(topics=[]), 9, client_id=None).topics == []


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    sent = [wire.request(ApiVersionsRequest(), 0), wire.request(MetadataRequest(topics=[]), 9)]
    sent.append(wire.request(ApiVersionsRequest(), 2))
    assert [struct.unpack(">i", wire.read_frame()[:4])[0] for _ in sent] == sent


def test_request_after_a_waiting_fetch_waits(wire: Wire, any_kafka: Kafka) -> None:
    """A connection has one request in process at a time."""
    topic = any_kafka.new_topic()
    started = time.monotonic()
    sent = [wire.request(fetch(topic, max_wait_ms=600), 11), wire.request(ApiVersionsRequest(), 0)]
    assert [struct.unpack(">i", wire.read_frame()[:4])[0] for _ in sent] == sent
    assert time.monotonic() - started >= 0.6


def test_half_closed_client_gets_its_answer(wire: Wire, any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    wire.request(fetch(topic, max_wait_ms=300), 11)
    wire.sock.shutdown(1)
    assert wire.read_frame()
    assert wire.seconds_until_closed() < AT_ONCE_S


@pytest.fixture
def limited_broker(any_own_kafka: Callable[..., OwnBroker]) -> OwnBroker:
    """A broker with an idle timeout of 1.5 s and at most five connections per address."""
    return any_own_kafka(connections_max_idle_ms="1500", max_connections_per_ip="5")


def test_idle_timeout_and_connection_limits(limited_broker: OwnBroker) -> None:
    topic = limited_broker.new_topic()
    address = limited_broker.bootstrap_servers

    with Wire(address) as silent, Wire(address) as half:
        half.raw(struct.pack(">i", 100) + b"half a frame, then silence")
        for one in (silent, half):
            assert 0.5 < one.seconds_until_closed() + 0.7 < 10

    with Wire(address) as waiting:  # a connection that waits for an answer counts as idle
        waiting.request(fetch(topic, max_wait_ms=8000), 11)
        assert 1.0 < waiting.seconds_until_closed() < 6

    accepted: list[Wire] = []
    try:
        _open_five(address, accepted)
        with contextlib.suppress(ConnectionResetError), Wire(address) as refused:  # reset during or after the connect
            refused.seconds_until_closed()
        accepted.pop().sock.close()
        deadline = time.monotonic() + 20
        while not _is_accepted(address):
            assert time.monotonic() < deadline
    finally:
        for one in accepted:
            one.sock.close()


def _open_five(address: str, wires: list[Wire]) -> None:
    """Open five connections that all answer. Earlier connections may still count, and open ones may time out."""
    deadline = time.monotonic() + 20
    while len(wires) < 5:
        assert time.monotonic() < deadline, f"only {len(wires)} connections are accepted"
        wires.append(Wire(address))
        for one in [one for one in wires if not _answers(one)]:
            one.sock.close()
            wires.remove(one)


def _is_accepted(address: str) -> bool:
    try:
        with Wire(address) as wire:
            return _answers(wire)
    except ConnectionError:
        return False


def _answers(wire: Wire) -> bool:
    try:
        return bool(wire.ask(ApiVersionsRequest(), 0).error_code == 0)
    except (ConnectionError, AssertionError):
        return False
