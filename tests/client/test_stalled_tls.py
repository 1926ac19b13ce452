"""Servers that stall within TLS: the setup timeout and the deadline of the call end it, over real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.errors import AuthenticationError, KcliError
from tests.certificates import Certificates

DEADLINE_MS = 700


class Listener:
    """A listener that runs `talk` in a thread for each connection, with its number."""

    def __init__(self, talk: Callable[[socket.socket, int], object]) -> None:
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._talk = talk
        self._accepted: list[socket.socket] = []
        self.ended = threading.Event()
        self.port = self._sock.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                accepted, _ = self._sock.accept()
            except OSError:
                return
            self._accepted.append(accepted)
            threading.Thread(target=self._run, args=(accepted, len(self._accepted)), daemon=True).start()

    def _run(self, accepted: socket.socket, number: int) -> None:
        try:
            self._talk(accepted, number)
        except OSError:  # the client has closed it
            accepted.close()

    def close(self) -> None:
        self.ended.set()
        for sock in (self._sock, *self._accepted):
            sock.close()


@pytest.fixture
def failure(certificates: Certificates) -> Iterator[Callable[..., tuple[KcliError, float, str]]]:
    """Connect to a listener with this behaviour; return the error, the time it took in ms, and the address."""
    listeners: list[Listener] = []

    def run(
        talk: Callable[[socket.socket, int, threading.Event], object], setup_ms: int = 200
    ) -> tuple[KcliError, float, str]:
        listener = Listener(lambda sock, number: talk(sock, number, listener.ended))
        listeners.append(listener)
        properties = {
            "bootstrap.servers": f"localhost:{listener.port}",
            "security.protocol": "SSL",
            "ssl.truststore.location": str(certificates.authority()),
            "socket.connection.setup.timeout.ms": str(setup_ms),
        }
        client = connect(ClientConfig.from_properties(properties))
        start_ms = client.clock.now_ms()
        with pytest.raises(KcliError) as raised:
            client.ensure_fresh_metadata(start_ms + DEADLINE_MS)
        elapsed_ms = client.clock.now_ms() - start_ms
        client.close()
        return raised.value, elapsed_ms, f"localhost:{listener.port}"

    yield run
    for listener in listeners:
        listener.close()


def silent(sock: socket.socket, number: int, ended: threading.Event) -> None:
    sock.recv(10_000)
    ended.wait(10)


def slow(sock: socket.socket, number: int, ended: threading.Event) -> None:
    """Send a handshake record of 4 KiB, one byte at a time, so that the connection is never idle."""
    sock.recv(10_000)
    sock.sendall(b"\x16\x03\x03\x10\x00")
    while not ended.wait(0.02):
        sock.sendall(b"\x02")


@pytest.mark.parametrize("talk", [silent, slow])
@pytest.mark.parametrize("setup_ms", [200, 10_000])
def test_a_handshake_that_stalls_ends_with_the_deadline_and_says_so(
    failure: Callable[..., tuple[KcliError, float, str]], talk: Callable[..., object], setup_ms: int
) -> None:
    error, elapsed_ms, address = failure(talk, setup_ms)
    assert str(error).startswith(f"no broker answered at {address}: connected, but TLS is not complete after ")
    assert not isinstance(error, AuthenticationError)
    assert DEADLINE_MS <= elapsed_ms < DEADLINE_MS + 5_000


def test_a_server_that_stalls_when_its_certificate_is_fetched_delays_the_error_by_a_second(
    failure: Callable[..., tuple[KcliError, float, str]], certificates: Certificates
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.pem("expired"))

    def talk(sock: socket.socket, number: int, ended: threading.Event) -> None:
        if number == 1:
            context.wrap_socket(sock, server_side=True)
        else:
            slow(sock, number, ended)

    error, elapsed_ms, address = failure(talk)
    assert isinstance(error, AuthenticationError)
    assert str(error).startswith(f"{address}: TLS ")
    assert str(error).endswith(" failed: the broker's certificate has expired; renew it on the broker")
    assert elapsed_ms < 8_000
