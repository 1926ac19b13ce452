"""`EmbeddedBroker.refusals`: connections that the broker has refused, with the client's address and the reason."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kcli.broker.testing.control import RefusedConnection
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.wire import Wire
from tests.needs import needs_cryptography

USERS = {"alice": "a secret"}
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE


@contextmanager
def secured(security: str) -> Iterator[EmbeddedBroker]:
    if "SSL" in security:
        needs_cryptography()
    with EmbeddedBroker(security=security, users=None if security == "PLAINTEXT" else USERS) as broker:
        yield broker


def connected(broker: EmbeddedBroker) -> socket.socket:
    host, _, port = broker.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def until_closed(sock: socket.socket) -> str:
    """Read until the broker closes the connection, and return the client's own address."""
    address = "{}:{}".format(*sock.getsockname())
    with suppress(ConnectionError):
        while sock.recv(4096):
            pass
    return address


def send(data: bytes) -> Callable[[EmbeddedBroker], str]:
    def act(broker: EmbeddedBroker) -> str:
        with connected(broker) as sock:
            sock.sendall(data)
            return until_closed(sock)

    return act


def start_tls(broker: EmbeddedBroker) -> str:
    with connected(broker) as sock:
        address = "{}:{}".format(*sock.getsockname())
        with suppress(OSError):
            ANY.wrap_socket(sock).recv(1)  # under TLS 1.3 the refusal of a certificate comes after the handshake
        return address


def ask(request: Any, version: int, *, first: bool = False) -> Callable[[EmbeddedBroker], str]:
    def act(broker: EmbeddedBroker) -> str:
        wire = Wire(broker.address)
        if first:
            wire.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
            wire.read_frame()
        wire.request(request, version)
        return until_closed(wire.sock)

    return act


@pytest.mark.parametrize(
    ("security", "act", "reason"),
    [
        ("PLAINTEXT", start_tls, "TLS on a listener without TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", start_tls, "TLS on a listener without TLS; set security.protocol to PLAINTEXT or SASL_PLAI"),
        ("PLAINTEXT", send(b"GET / HTTP/1.1\r\n\r\n"), "an HTTP request came instead of a frame, so the other side is"),
        ("PLAINTEXT", send(b"POST /topics HTTP/1.1\r\n\r\n"), "an HTTP request came instead of a frame"),
        ("PLAINTEXT", send(b"\xff\xff\xff\xff"), "a frame length of -1 is not valid"),
        ("PLAINTEXT", send(b"\0\0\0\x0a\0\x03\0\x63\0\0\0\1\0\0"), "Metadata v99 is not served; this broker serves v"),
        ("PLAINTEXT", send(b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\1\0\0"), "API 999 v0 is not served"),
        (
            "SSL",
            ask(MetadataRequest(topics=None), 8),
            "the client does not use TLS; it must set security.protocol",
        ),
        ("SSL", start_tls, "the client sent no certificate, and ssl.client.auth is required"),
        (
            "SASL_PLAINTEXT",
            ask(MetadataRequest(topics=None), 8, first=True),
            "Metadata without authentication on a listener with SASL; set security.protocol to SASL_PLAINTEXT or SASL_",
        ),
        (
            "SASL_PLAINTEXT",
            ask(SaslHandshakeRequest(mechanism="GSSAPI\x1b[2J"), 1),
            "SASL mechanism GSSAPI\x1b[2J is not enabled on this listener; use SCRAM-SHA-256, SCRAM-SHA-512",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_refused_connection_has_the_address_of_the_client_and_the_reason(
    security: str, act: Callable[[EmbeddedBroker], str], reason: str
) -> None:
    with secured(security) as broker:
        address = act(broker)
        (refusal,) = broker.refusals
        assert (refusal.peer, refusal.listener) == (address, security)
        assert refusal.reason.startswith(reason)
        assert str(refusal).isprintable()
        assert str(refusal).startswith(f"connection from {address} refused: ")
        broker.forget_seen()
        assert broker.refusals == []


def test_sasl_on_a_listener_without_it_is_a_refusal() -> None:
    with secured("PLAINTEXT") as broker:
        wire = Wire(broker.address)
        wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.read_frame()
        assert [refusal.reason for refusal in broker.refusals] == [
            "SASL on a listener without SASL; set security.protocol to PLAINTEXT or SSL"
        ]


def test_a_wrong_password_is_a_refusal() -> None:
    with secured("SASL_PLAINTEXT") as broker:
        properties = {**broker.client_properties("confluent-kafka"), "sasl.password": "wrong", "log_level": 0}
        client = AdminClient(properties)
        for _ in range(300):
            client.poll(0.1)
            if broker.refusals:
                break
        assert broker.refusals[0].reason == (
            "SCRAM-SHA-256: Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-256"
        )


@pytest.mark.parametrize("security", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_client_that_is_served_leaves_no_refusal(security: str) -> None:
    with secured(security) as broker:
        client = AdminClient({**broker.client_properties("confluent-kafka"), "log_level": 0})
        assert client.list_topics(timeout=30).topics == {}
        assert broker.refusals == []


def test_a_restart_keeps_the_refusals() -> None:
    with secured("PLAINTEXT") as broker:
        send(b"GET / HTTP/1.1\r\n\r\n")(broker)
        before = broker.refusals
        broker.restart()
        assert broker.refusals == before
        assert isinstance(before[0], RefusedConnection)
