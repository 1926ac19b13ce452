"""TLS connections of a selector with Python's own TLS server."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.network.file_slice import FileSlice
from kcli.network.tls_transport import TlsTransport
from kcli.network.transport import TransportFactory
from kcli.security.security_settings import SecuritySettings
from kcli.security.tls import client_context, server_context
from tests.certificates import Certificates
from tests.limits import join
from tests.network.harness import BytesFile, SocketHarness, SocketPeer


class TlsHarness(SocketHarness):
    """A client's selector, and servers that the test drives from a thread."""

    def __init__(self, certificates: Certificates, **options: Any) -> None:
        super().__init__(**options)
        self.certificates = certificates
        self.threads: list[threading.Thread] = []

    def client(self, host: str = "localhost", **properties: str) -> TransportFactory:
        properties = {"ssl_truststore_location": str(self.certificates.authority()), **properties}
        context = client_context(settings(properties))
        return lambda sock: TlsTransport(sock, context, server_hostname=host)

    def server(self, name: str = "server", client_auth: str = "none", **properties: str) -> ssl.SSLContext:
        properties = {
            "ssl_keystore_location": str(self.certificates.pem(name)),
            "ssl_truststore_location": str(self.certificates.authority()),
            **properties,
        }
        return server_context(settings(properties), client_auth)

    def serve(self, context: ssl.SSLContext, talk: Callable[[SocketPeer], object]) -> None:
        """Accept one connection in a thread, and let `talk` use it after the handshake."""

        def handshake(peer: SocketPeer) -> None:
            try:
                tls = context.wrap_socket(peer.sock, server_side=True)
                self.accepted.append(tls)
                talk(SocketPeer(tls))
            except (OSError, AssertionError):  # the client ended it; the test looks at the client's side
                peer.hang_up()

        self.serve_plain(handshake)

    def serve_plain(self, talk: Callable[[SocketPeer], object]) -> None:
        """Accept one connection in a thread, and let `talk` use it without TLS."""
        self.threads.append(threading.Thread(target=lambda: talk(self.accept())))
        self.threads[-1].start()

    def connect_client(self, transport: TransportFactory) -> None:
        self.selector.connect("1", self.address, transport=transport)

    def open(self, transport: TransportFactory) -> None:
        self.connect_client(transport)
        self.poll_until(lambda: self.connected or self.disconnected)
        assert self.connected == ["1"], self.disconnected

    def accept_failure(self, context: ssl.SSLContext, data: bytes | None = None, **properties: str) -> str:
        """Return why a connection failed at our listener: with our client, or with a client that sends `data`."""
        plain = None
        if data is None:
            self.connect_client(self.client(**properties))
        else:
            plain = socket.create_connection(self.address[1])
            plain.sendall(data)
            self.accepted.append(plain)
        accepted, _ = self.listener.accept()
        self.listener.close()  # the client cannot fetch the certificate
        self.selector.register("2", accepted, transport=lambda sock: TlsTransport(sock, context, server_side=True))
        self.poll_until(lambda: "2" in self.disconnected)
        return self.disconnected["2"].partition(" failed: ")[2]

    def close(self) -> None:
        super().close()
        for thread in self.threads:
            thread.join(10)


def settings(properties: dict[str, str]) -> SecuritySettings:
    return SecuritySettings.from_properties({name.replace("_", "."): value for name, value in properties.items()})


@pytest.fixture
def harness(certificates: Certificates) -> Iterator[TlsHarness]:
    harness = TlsHarness(certificates)
    yield harness
    harness.close()


def echo(peer: SocketPeer) -> None:
    peer.deliver(peer.take_frame())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_frames_travel_in_both_directions(harness: TlsHarness, version: str) -> None:
    harness.serve(harness.server(), echo)
    harness.open(harness.client(ssl_enabled_protocols=version))
    body = bytes(range(256)) * 8000
    harness.selector.send("1", [b"head", body, b"a", b"b"])
    harness.poll_until(lambda: harness.receives, polls=5000)
    assert harness.receives == [("1", b"head" + body + b"ab")]


def test_slices_of_files_are_encrypted(harness: TlsHarness) -> None:
    data = bytes(range(256)) * 12_000
    harness.serve(harness.server(), echo)
    harness.open(harness.client())
    harness.selector.send("1", [b"head", FileSlice(BytesFile(data), 7, 3_000_000), b"tail"])
    harness.poll_until(lambda: harness.receives, polls=5000)
    assert harness.receives == [("1", b"head" + data[7:3_000_007] + b"tail")]


def test_two_selectors_talk_over_tls_as_client_and_server(harness: TlsHarness) -> None:
    server = harness.server(client_auth="required")
    harness.selector.connect(
        "1", harness.address, transport=harness.client(ssl_keystore_location=str(harness.certificates.pem("client")))
    )
    accepted, _ = harness.listener.accept()
    harness.selector.register("2", accepted, transport=lambda sock: TlsTransport(sock, server, server_side=True))
    harness.poll_until(lambda: {"1", "2"} <= set(harness.connected))
    harness.selector.send("1", [b"a question"])
    harness.poll_until(lambda: ("2", b"a question") in harness.receives)
    channel = harness.selector.channel("2")
    assert channel is not None
    assert isinstance(channel.transport, TlsTransport)
    certificate = channel.transport.peer_certificate
    assert certificate is not None
    assert ssl.DER_cert_to_PEM_cert(certificate).strip() == harness.certificates.chain_pem("client").strip()
    harness.selector.send("2", [b"an answer"])
    harness.poll_until(lambda: ("1", b"an answer") in harness.receives)


def test_a_refused_tcp_connection_is_not_a_tls_failure(harness: TlsHarness) -> None:
    harness.selector.connect("1", harness.closed_address, transport=harness.client())
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].startswith("connection refused by 127.0.0.1:")
    assert harness.selector.refused == set()


def test_sockets_are_closed_with_the_selector(harness: TlsHarness) -> None:
    ended: list[bool] = []
    harness.serve(harness.server(), lambda peer: ended.append(peer.is_hung_up()))
    harness.open(harness.client())
    harness.selector.close("1")
    join(harness.threads[0])
    assert ended == [True]
    assert isinstance(harness.accepted[0], socket.socket)
