"""Clients that stall, flood or skip the handshakes of secured listeners: others are served, nothing is left open."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.protocol.headers import encode_request
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.wire import PATIENCE_S, Wire

PASSWORD = "secret of alice"
SERVED_S = 2.0
ALERT = bytes.fromhex("15030300020250")
CLIENT_HELLO_BEGIN = bytes.fromhex("16030100f8010000f40303") + bytes(100)


@contextmanager
def broker(security: str = "SASL_PLAINTEXT", **settings: Any) -> Iterator[EmbeddedBroker]:
    quick = {"connection_failed_authentication_delay_ms": 0, **settings}
    with EmbeddedBroker(security=security, users={"alice": PASSWORD}, **quick) as made:
        yield made


class TlsWire(Wire):
    """A connection with TLS that trusts the broker."""

    def __init__(self, made: EmbeddedBroker) -> None:
        super().__init__(made.address)
        trusted = made.client_properties("librdkafka")["ssl.ca.pem"]
        context = ssl.create_default_context(cadata=trusted)
        self.sock = context.wrap_socket(self.sock, server_hostname="localhost")


def connect(made: EmbeddedBroker) -> Wire:
    return TlsWire(made) if "ssl.ca.pem" in made.client_properties("librdkafka") else Wire(made.address)


def log_in(wire: Wire, password: str = PASSWORD) -> int:
    """Return the error code of the authentication."""
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    message = f"\0alice\0{password}".encode()
    return int(wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2).error_code)


def seconds_to_be_served(made: EmbeddedBroker) -> float:
    started = time.monotonic()
    with connect(made) as wire:
        assert log_in(wire) == 0
        assert wire.ask(MetadataRequest(topics=[]), 9).brokers
    return time.monotonic() - started


def open_connections(made: EmbeddedBroker) -> int:
    return made.call(lambda inner: len(inner.server.quotas))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("begin", [b"", b"\0\0", CLIENT_HELLO_BEGIN, struct.pack(">i", 500_000) + b"\0\x11\0\x01"])
def test_clients_that_stall_block_nobody_and_are_closed_when_idle(security: str, begin: bytes) -> None:
    with broker(security) as made, ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(Wire(made.address)).raw(begin)
        assert seconds_to_be_served(made) < SERVED_S
    with broker(security, connections_max_idle_ms=200) as made, ExitStack() as stack:
        wires = [stack.enter_context(Wire(made.address)).raw(begin) for _ in range(5)]
        for wire in wires:
            with suppress(ConnectionResetError):
                received = wire.sock.recv(100)
                assert received in (b"", ALERT), "an alert for bytes that are not TLS"
                assert not received or wire.sock.recv(100) == b""
        until(lambda: open_connections(made) == 0)


@pytest.mark.parametrize("step", ["handshake", "authenticate"])
def test_clients_that_stall_within_sasl_are_closed_when_idle(step: str) -> None:
    with broker(connections_max_idle_ms=200) as made, Wire(made.address) as wire:
        wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        if step == "authenticate":
            assert wire.ask(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2).error_code == 0
        assert wire.seconds_until_closed() < PATIENCE_S
        until(lambda: open_connections(made) == 0)


def test_client_without_tls_is_disconnected_from_a_tls_port() -> None:
    with broker("SASL_SSL") as made:
        with Wire(made.address) as wire:
            wire.request(MetadataRequest(topics=[]), 9)
            with pytest.raises((AssertionError, ConnectionError)):  # an alert of TLS at most
                wire.read(100)
        assert seconds_to_be_served(made) < SERVED_S
        until(lambda: open_connections(made) == 0)


def test_client_with_tls_is_disconnected_from_a_port_without_it() -> None:
    with broker() as made:
        with Wire(made.address) as wire:
            wire.raw(CLIENT_HELLO_BEGIN + bytes(500))
            assert wire.seconds_until_closed() < SERVED_S
        assert seconds_to_be_served(made) < SERVED_S


@pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("length", [524_289, 100 << 20, -1, 0x7FFFFFFF])
def test_long_request_before_the_authentication_closes_the_connection(security: str, length: int) -> None:
    with broker(security) as made:
        with connect(made) as wire:
            wire.raw(struct.pack(">i", length))
            assert wire.seconds_until_closed() < SERVED_S
        with connect(made) as wire:  # after the authentication, socket.request.max.bytes applies
            assert log_in(wire) == 0
            wire.frame(encode_request(MetadataRequest(topics=[]), 9, 99, "c" * 30_000) + bytes(600_000))
            assert wire.read_frame()[:4] == struct.pack(">i", 99)


def test_megabyte_before_the_authentication_closes_the_connection() -> None:
    with broker() as made, Wire(made.address) as wire:
        wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        is_closed = False
        for _ in range(1000):
            try:
                wire.raw(struct.pack(">i", 1_000_000) + bytes(1_000_000))
            except ConnectionError:
                is_closed = True
                break
        assert is_closed
        until(lambda: open_connections(made) == 0)


def test_unauthenticated_requests_do_not_reach_their_handlers() -> None:
    with broker() as made:
        seen: list[Any] = []
        made.intercept("Metadata", lambda request, context: seen.append(context.principal))
        with Wire(made.address) as wire:
            wire.request(MetadataRequest(topics=None), 9)
            assert wire.seconds_until_closed() < SERVED_S
        with Wire(made.address) as wire:
            wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            wire.request(MetadataRequest(topics=None), 9)
            assert wire.seconds_until_closed() < SERVED_S
        with Wire(made.address) as wire:
            assert log_in(wire, "wrong") == 58
            with pytest.raises((AssertionError, OSError)):
                wire.ask(MetadataRequest(topics=None), 9)
        assert seconds_to_be_served(made) < SERVED_S
        assert set(seen) == {"User:alice"}


def test_requests_pipelined_behind_a_wrong_password_are_not_answered() -> None:
    with broker(connection_failed_authentication_delay_ms=100) as made, Wire(made.address) as wire:
        seen: list[Any] = []
        made.intercept("Metadata", lambda request, context: seen.append(context))
        wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        for _ in range(5):
            wire.request(MetadataRequest(topics=None), 9)
        wire.read_frame()
        wire.read_frame()
        with pytest.raises((AssertionError, OSError)):
            wire.read_frame()
        assert seen == []


@pytest.mark.parametrize("security", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_pipelined_requests_of_an_authenticated_client_are_answered(security: str) -> None:
    with broker(security) as made, connect(made) as wire:
        wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.request(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2)
        last = [wire.request(MetadataRequest(topics=None), 9) for _ in range(50)][-1]
        frames = [wire.read_frame() for _ in range(52)]
        assert struct.unpack(">i", frames[-1][:4]) == (last,)


def test_connections_per_address_count_before_the_authentication() -> None:
    with broker(max_connections_per_ip=3) as made, ExitStack() as stack:
        wires = [stack.enter_context(Wire(made.address)) for _ in range(3)]
        until(lambda: open_connections(made) == 3)
        with suppress(ConnectionResetError), Wire(made.address) as fourth:
            assert fourth.seconds_until_closed() < SERVED_S
        assert open_connections(made) == 3
        wires[0].sock.close()
        until(lambda: open_connections(made) == 2)
        assert seconds_to_be_served(made) < SERVED_S


def test_refused_clients_release_their_connections() -> None:
    with broker() as made, ExitStack() as stack:
        for _ in range(20):
            assert log_in(stack.enter_context(Wire(made.address)), "wrong") == 58
        until(lambda: open_connections(made) == 0)


def test_client_that_leaves_before_it_is_refused_is_forgotten() -> None:
    with broker(connection_failed_authentication_delay_ms=100) as made:
        for _ in range(5):
            with Wire(made.address) as wire:
                wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                wire.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
                wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        until(lambda: open_connections(made) == 0)
        assert seconds_to_be_served(made) < SERVED_S


def test_session_that_has_ended_closes_the_connection_at_the_next_request() -> None:
    with broker(connections_max_reauth_ms=100) as made, Wire(made.address) as wire:
        assert log_in(wire) == 0
        ended = time.monotonic() + 0.15
        until(lambda: time.monotonic() > ended)
        wire.request(MetadataRequest(topics=[]), 9)
        assert wire.seconds_until_closed() < SERVED_S


def test_many_requests_in_one_tls_record_are_answered_in_order() -> None:
    with broker("SASL_SSL") as made, connect(made) as wire:
        assert log_in(wire) == 0
        requests = [encode_request(MetadataRequest(topics=[]), 9, number, "c") for number in range(100)]
        wire.raw(b"".join(struct.pack(">i", len(request)) + request for request in requests))
        assert [struct.unpack(">i", wire.read_frame()[:4])[0] for _ in requests] == list(range(100))
