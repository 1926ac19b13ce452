"""kcli ends whatever answers on the port: one line on stderr, the right status, no traceback, little memory.

The cases are those that a real Kafka was tested with from the other side (huge, negative and zero lengths, count bombs,
partial frames, silence), and common wrong ports: web servers, TLS listeners.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from kcli.protocol.headers import RequestHeader
from kcli.protocol.registry import ApiKey
from tests.interop.fake_broker import (
    FakeBroker,
    GoodBroker,
    Mischief,
    frames,
    scripted,
    send_frame,
    wait_for_hang_up,
)
from tests.interop.process import Finished, kcli

pytestmark = pytest.mark.slow

TIMEOUT_S = 1
LARGEST_MB = 200


def ended_well(run: Finished, *statuses: int) -> str:
    """Check status, empty stdout and memory of a failed run, and return its only line on stderr."""
    assert "Traceback" not in run.err
    assert run.status in statuses, run.err
    assert run.out == b""
    assert run.peak_mb < LARGEST_MB
    lines = run.err.splitlines()
    assert len(lines) == 1, run.err
    assert lines[0].startswith("kcli: ")
    return lines[0]


def list_topics(broker: FakeBroker) -> Finished:
    return kcli("topic", "list", "-b", broker.address, "--timeout", str(TIMEOUT_S), timeout_s=TIMEOUT_S + 15)


def consume(broker: FakeBroker) -> Finished:
    at = ("-b", broker.address, "--timeout", str(TIMEOUT_S))
    return kcli("consume", "topic", "t", "-o", "start", "-e", *at, timeout_s=TIMEOUT_S + 15)


# ---- what comes instead of the first answer ----


def sends(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        next(frames(connection))
        connection.sendall(data)
        wait_for_hang_up(connection)

    return serve


def sends_and_hangs_up(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        next(frames(connection))
        connection.sendall(data)

    return serve


def resets(connection: socket.socket) -> None:
    next(frames(connection))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def length(size: int) -> bytes:
    return struct.pack(">i", size)


HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request"
TLS_LISTENER = sends_and_hangs_up(bytes.fromhex("15030300020246"))

FIRST_ANSWERS = {
    "a length of 2 GiB": sends(length(0x7FFFFFFF) + b"x" * 1000),
    "a negative length": sends(length(-1)),
    "the most negative length": sends(length(-(2**31))),
    "a length of zero": sends(length(0)),
    "zero lengths without end": sends(length(0) * 10_000),
    "a length above any broker's limit": sends(length(200 << 20)),
    "an allowed length and then silence": sends(length(90 << 20) + b"x"),
    "half a frame and then silence": sends(length(100) + b"x" * 50),
    "half a frame and then goodbye": sends_and_hangs_up(length(100) + b"x" * 50),
    "half a length and then goodbye": sends_and_hangs_up(b"\0\0"),
    "nothing": sends(b""),
    "goodbye at once": sends_and_hangs_up(b""),
    "a reset": resets,
    "a web server": sends_and_hangs_up(HTTP),
    "a TLS listener": TLS_LISTENER,
    "a frame of noise": sends(length(64) + bytes(range(100, 164))),
    "an answer to another request": sends(length(10) + struct.pack(">ihi", 77, 0, 0)),
}


@pytest.mark.parametrize("serve", FIRST_ANSWERS.values(), ids=FIRST_ANSWERS.keys())
def test_an_invalid_first_answer_is_one_line(serve: Callable[[socket.socket], None]) -> None:
    with FakeBroker(serve) as broker:
        line = ended_well(list_topics(broker), *((4,) if serve is TLS_LISTENER else (1, 5)))
    assert broker.address in line


def test_consume_times_out_if_the_broker_never_answers() -> None:
    with FakeBroker(sends(b"")) as broker:
        ended_well(consume(broker), 5)


# ---- a broker that goes bad later ----


def body_instead(body: bytes) -> Mischief:
    """Return a frame with the right correlation id and this body."""

    def spoil(connection: socket.socket, header: RequestHeader, response: bytes) -> None:
        send_frame(connection, struct.pack(">i", header.correlation_id) + body)

    return spoil


def cut_to(fraction: float) -> Mischief:
    def spoil(connection: socket.socket, header: RequestHeader, response: bytes) -> None:
        send_frame(connection, response[: int(len(response) * fraction)])

    return spoil


def silence(connection: socket.socket, header: RequestHeader, response: bytes) -> None:
    wait_for_hang_up(connection)


def hang_up(connection: socket.socket, header: RequestHeader, response: bytes) -> None:
    connection.shutdown(socket.SHUT_RDWR)


LARGEST_COUNT = b"\xff\xff\xff\xff\x07"  # 2^31 - 1 as an unsigned varint
MISCHIEF = {
    "a count of two thousand million": body_instead(b"\0\0\x7f\xff\xff\xff" + b"\0" * 50),
    "a compact count of two thousand million": body_instead(b"\0\0\0\0\0" + LARGEST_COUNT + b"\0" * 50),
    "a varint without end": body_instead(b"\xff" * 500),
    "noise": body_instead(bytes(range(7, 250)) * 20),
    "nothing but the correlation id": body_instead(b""),
    "half of the answer": cut_to(0.5),
    "all but the last bytes": cut_to(0.9),
    "silence": silence,
    "goodbye": hang_up,
}


@pytest.mark.parametrize("spoil", MISCHIEF.values(), ids=MISCHIEF.keys())
@pytest.mark.parametrize("api", [ApiKey.API_VERSIONS, ApiKey.METADATA], ids=lambda key: key.name)
def test_topic_list_survives_an_invalid_answer(api: ApiKey, spoil: Mischief) -> None:
    with scripted(GoodBroker(), {api: spoil}) as broker:
        # A listener with SASL closes each connection at the first request, so this is a refusal.
        ended_well(list_topics(broker), 4 if (api, spoil) == (ApiKey.METADATA, hang_up) else 5)


def once(spoil: Mischief) -> Mischief:
    """Spoil the first answer only."""
    spoiled: list[RequestHeader] = []

    def first(connection: socket.socket, header: RequestHeader, response: bytes) -> None:
        if spoiled:
            return send_frame(connection, response)
        spoiled.append(header)
        return spoil(connection, header, response)

    return first


def of_another_request(connection: socket.socket, header: RequestHeader, response: bytes) -> None:
    send_frame(connection, struct.pack(">i", header.correlation_id + 7) + response[4:])


@pytest.mark.parametrize("spoil", [cut_to(0.5), of_another_request, hang_up], ids=["short", "wrong id", "goodbye"])
def test_one_invalid_answer_of_each_api_does_not_end_a_command(spoil: Mischief) -> None:
    """A malformed answer is survived as a cut connection is: a new connection, and the request again."""
    apis = ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH
    with scripted(GoodBroker(), {api: once(spoil) for api in apis}) as broker:
        at = ("-b", broker.address, "--timeout", "10")
        assert kcli("consume", "topic", "t", "-o", "start", "-e", *at).status == 0
    with scripted(GoodBroker(), {api: once(spoil) for api in apis}) as broker:
        assert list_topics(broker).lines == [b"t"]


@pytest.mark.parametrize("spoil", MISCHIEF.values(), ids=MISCHIEF.keys())
@pytest.mark.parametrize("api", [ApiKey.LIST_OFFSETS, ApiKey.FETCH], ids=lambda key: key.name)
def test_consume_survives_an_invalid_answer(api: ApiKey, spoil: Mischief) -> None:
    with scripted(GoodBroker(end=5), {api: spoil}) as broker:
        run = consume(broker)
    assert "Traceback" not in run.err
    assert run.status in (1, 5), run.err
    assert run.out == b""
    assert run.peak_mb < LARGEST_MB
    assert len(run.err.splitlines()) <= 3, run.err  # the error, and the coverage report


def test_the_scripted_broker_without_faults_is_a_good_broker() -> None:
    with scripted(GoodBroker()) as broker:
        assert list_topics(broker).lines == [b"t"]
        assert consume(broker).status == 0
