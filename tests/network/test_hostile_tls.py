"""TLS with sides that stall, send other bytes, close too soon, or use TLS in unusual ways."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import socket
import ssl
import struct
import subprocess
import termios
from collections.abc import Iterator
from selectors import EVENT_READ
from typing import Any

import pytest

from kcli.network.tls_transport import TlsTransport
from kcli.network.transport import TransportFactory
from tests.certificates import Certificates
from tests.limits import read_line
from tests.needs import skip_or_fail
from tests.network.harness import SocketPeer
from tests.network.test_tls_transport import TlsHarness


@pytest.fixture
def harness(certificates: Certificates) -> Iterator[TlsHarness]:
    harness = TlsHarness(certificates)
    yield harness
    harness.close()


class Server:
    """The TLS of a server in memory: the test decides which of its bytes reach the client, step by step."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)

    def step(self) -> bytes:
        """Take what the client has sent, continue the handshake, and return the bytes to answer."""
        with contextlib.suppress(OSError):
            self._in.write(self.sock.recv(100_000))
        with contextlib.suppress(ssl.SSLError):
            self.tls.do_handshake()
        return self._out.read()

    def encrypted(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._out.read()


def begin(harness: TlsHarness, server: ssl.SSLContext, client: TransportFactory) -> Server:
    """Connect, and return the server before it has seen a byte."""
    harness.connect_client(client)
    accepted, _ = harness.listener.accept()
    harness.accepted.append(accepted)
    return Server(server, accepted)


def complete(harness: TlsHarness, server: Server) -> None:
    """Complete the handshake of both sides."""

    def ready() -> bool:
        server.sock.send(server.step())
        return bool(harness.connected)

    harness.poll_until(ready)
    server.step()


def flight(harness: TlsHarness, server: Server) -> bytes:
    """Return the bytes of the server's first answer."""
    answers: list[bytes] = []

    def answered() -> bool:
        answers.append(server.step())
        return bool(answers[-1])

    harness.poll_until(answered)
    return answers[-1]


@pytest.mark.parametrize("received", [0, 1, 5, 40, 200])
def test_a_handshake_that_stalls_waits_without_work_until_it_is_closed(harness: TlsHarness, received: int) -> None:
    server = begin(harness, harness.server(), harness.client())
    server.sock.send(flight(harness, server)[:received])
    for _ in range(3):
        harness.poll(1)
    channel = harness.selector.channel("1")
    assert channel is not None, harness.disconnected
    assert channel.interest() == EVENT_READ
    assert not harness.connected
    assert not harness.disconnected
    harness.selector.close("1")
    assert harness.selector.channel("1") is None


def test_a_stalled_handshake_ends_as_an_idle_connection(certificates: Certificates) -> None:
    harness = TlsHarness(certificates, idle_ms=1000)
    begin(harness, harness.server(), harness.client())
    harness.poll()
    harness.advance(1001)
    harness.poll_until(lambda: harness.disconnected)
    assert "closed after 1 s without traffic" in harness.disconnected["1"]
    harness.close()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_handshake_with_any_byte_changed_never_completes(harness: TlsHarness, version: str) -> None:
    """A man in the middle who changes one byte of the server's first answer."""
    context, client = harness.server(), harness.client(ssl_enabled_protocols=version)
    size = 1500
    for position in range(0, size, 23):
        server = begin(harness, context, client)
        answer = bytearray(flight(harness, server))
        answer[position % len(answer)] ^= 0x41
        server.sock.send(answer)
        for _ in range(3):
            harness.poll(1)
            with contextlib.suppress(OSError):
                server.sock.send(server.step())
        assert harness.connected == []
        harness.selector.close("1")
        harness.disconnected.clear()
        server.sock.close()


@pytest.mark.parametrize("received", [1, 6, 60, 600])
def test_a_connection_closed_in_the_handshake_says_so(harness: TlsHarness, received: int) -> None:
    server = begin(harness, harness.server(), harness.client())
    server.sock.send(flight(harness, server)[:received])
    server.sock.close()
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].endswith(" failed: the connection was closed in the middle of the handshake")
    assert not harness.selector.refused


@pytest.mark.parametrize(
    "data",
    [
        bytes([22, 3, 3, 0xFF, 0xFF]) + bytes(70_000),  # a record that is longer than TLS allows
        bytes([22, 3, 3, 0, 4, 2, 0xFF, 0xFF, 0xFF]) + bytes(1000),  # a handshake message of 16 MB
        bytes([22, 3, 3, 0, 0]) * 1000,  # records without content
        bytes([21, 3, 3, 0, 2, 1, 0]) * 1000,  # alerts of the kind warning
        bytes([22, 9, 9, 9, 9]) + bytes(100_000),
    ],
)
def test_malformed_records_end_the_handshake(harness: TlsHarness, data: bytes) -> None:
    def talk(peer: SocketPeer) -> None:
        peer.sock.recv(10_000)
        with contextlib.suppress(OSError):
            peer.deliver_bytes(data)
            peer.hang_up()

    harness.serve_plain(talk)
    harness.connect_client(harness.client())
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].startswith("TLS with 127.0.0.1:")
    assert harness.connected == []


@pytest.mark.parametrize(
    "record", [bytes([23, 3, 3, 0, 100]) + bytes(100), bytes([23, 3, 3, 0xFF, 0xFF]), b"plain text"]
)
def test_malformed_records_end_an_open_connection(harness: TlsHarness, record: bytes) -> None:
    server = begin(harness, harness.server(), harness.client())
    complete(harness, server)
    server.sock.send(server.encrypted(struct.pack(">i", 3) + b"abc") + record)
    harness.poll_until(lambda: harness.disconnected)
    assert harness.receives == [("1", b"abc")]
    assert harness.disconnected["1"].startswith("TLS with 127.0.0.1:")
    assert not harness.selector.refused


def test_no_request_can_be_sent_to_a_server_whose_certificate_failed(harness: TlsHarness) -> None:
    server = begin(harness, harness.server("foreign"), harness.client())
    answer = flight(harness, server)
    with pytest.raises(ValueError, match="not ready to send"):
        harness.selector.send("1", [b"a secret"])
    harness.listener.close()
    server.sock.send(answer)
    harness.poll_until(lambda: harness.disconnected)
    assert harness.connected == []
    server.sock.setblocking(True)
    received = server.sock.recv(10_000)
    server._in.write(received)
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        server.tls.do_handshake()


def test_a_connection_closed_within_a_frame_says_how_far_it_came(harness: TlsHarness) -> None:
    server = begin(harness, harness.server(), harness.client())
    complete(harness, server)
    server.sock.send(server.encrypted(struct.pack(">i", 100) + b"abc"))
    server.sock.close()
    harness.poll_until(lambda: harness.disconnected)
    assert "closed by 127.0.0.1:" in harness.disconnected["1"]
    assert harness.disconnected["1"].endswith("in the middle of a frame, 3 of 100 bytes read")


def test_a_frame_in_records_of_one_byte_is_complete(harness: TlsHarness) -> None:
    server = begin(harness, harness.server(), harness.client())
    complete(harness, server)
    frame = struct.pack(">i", 3000) + bytes(n % 251 for n in range(3000))
    server.sock.setblocking(True)
    server.sock.sendall(b"".join(server.encrypted(bytes([byte])) for byte in frame))
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("1", frame[4:])]


def test_frames_in_one_record_are_all_received_though_the_socket_is_empty(harness: TlsHarness) -> None:
    server = begin(harness, harness.server(), harness.client())
    complete(harness, server)
    frames = [bytes([n]) * n for n in range(1, 60)]
    server.sock.send(server.encrypted(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)))
    harness.poll_until(lambda: len(harness.receives) == len(frames), polls=100)
    assert [frame for _, frame in harness.receives] == frames


def test_a_muted_connection_continues_with_what_tls_has_buffered(harness: TlsHarness) -> None:
    server = begin(harness, harness.server(), harness.client())
    complete(harness, server)
    server.sock.send(server.encrypted((struct.pack(">i", 3) + b"abc") * 3))
    harness.poll_until(lambda: harness.receives)
    harness.selector.mute("1")
    harness.poll(1)
    harness.poll(1)
    assert len(harness.receives) == 1
    harness.selector.unmute("1")
    harness.poll_until(lambda: len(harness.receives) == 3, polls=10)


def test_a_write_that_is_resumed_is_complete(harness: TlsHarness) -> None:
    """The other side reads slowly, so that writes stop in the middle of a record."""
    harness.selector.connect("1", harness.address, transport=harness.client(), send_buffer_bytes=131_072)
    accepted, _ = harness.listener.accept()
    harness.accepted.append(accepted)
    server = Server(harness.server(), accepted)
    complete(harness, server)
    body = bytes(range(256)) * 40_000
    harness.selector.send("1", [b"head", body[:500], body[500:], b"tail"])
    expected, taken = 4 + 4 + len(body) + 4, bytearray()

    def read_a_little() -> bool:
        with contextlib.suppress(BlockingIOError):
            server._in.write(accepted.recv(150_000))
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                taken.extend(server.tls.read(20_000))
        return len(taken) == expected

    harness.poll_until(read_a_little, polls=5000)
    assert taken[4:] == b"head" + body + b"tail"


class OpensslServer:
    """`openssl s_server`: its standard input is sent to the client, with single letters as commands."""

    def __init__(self, certificates: Certificates, *options: str) -> None:
        openssl = shutil.which("openssl") or skip_or_fail("there is no `openssl` on the PATH")
        path = str(certificates.pem("server"))
        command = [openssl, "s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-cert", path, "-key", path]
        self.process = subprocess.Popen(
            [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        line = b""
        while not line.startswith(b"ACCEPT"):
            line = read_line(self.process, "the address of openssl s_server")
            assert line, "openssl s_server did not start"
        self.address = (socket.AF_INET, ("127.0.0.1", int(line.rpartition(b":")[2])))

    def type(self, data: bytes) -> None:
        """Write to its standard input; it takes what it reads at once for one command or for data."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def has_read(self) -> bool:
        """True if nothing typed is unread."""
        assert self.process.stdin is not None
        (unread,) = struct.unpack("i", fcntl.ioctl(self.process.stdin, termios.FIONREAD, bytes(4)))
        return bool(unread == 0)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def openssl_server(certificates: Certificates) -> Iterator[Any]:
    servers: list[OpensslServer] = []

    def start(*options: str) -> OpensslServer:
        servers.append(OpensslServer(certificates, *options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


FRAME = struct.pack(">i", 4) + b"abc\n"


def exchange(harness: TlsHarness, server: OpensslServer, command: bytes, client: TransportFactory) -> None:
    """Receive and send frames before and after a command of the server."""
    harness.selector.connect("1", server.address, transport=client)
    harness.poll_until(lambda: harness.connected)
    for count in (1, 2):
        server.type(FRAME)
        harness.poll_until(lambda count=count: len(harness.receives) == count or harness.disconnected)
        assert len(harness.receives) == count, harness.disconnected
        harness.selector.send("1", [b"a request"])
        harness.poll_until(lambda count=count: len(harness.sends) == count)
        if count == 1:
            server.type(command)
            harness.poll_until(server.has_read)


def test_new_keys_of_tls_13_do_not_disturb_a_connection(harness: TlsHarness, openssl_server: Any) -> None:
    exchange(harness, openssl_server("-tls1_3"), b"K\n", harness.client())


def test_a_renegotiation_of_tls_12_is_declined_as_kafka_does(harness: TlsHarness, openssl_server: Any) -> None:
    server = openssl_server("-tls1_2")
    harness.selector.connect("1", server.address, transport=harness.client())
    harness.poll_until(lambda: harness.connected)
    server.type(b"r\n")
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].endswith("failed: the other side ended TLS with the alert 'handshake failure'")


def test_a_listener_with_a_client_that_sends_a_hello_byte_by_byte_is_not_disturbed(harness: TlsHarness) -> None:
    context = harness.server()
    sock = socket.create_connection(harness.address[1])
    harness.accepted.append(sock)
    accepted, _ = harness.listener.accept()
    harness.selector.register("2", accepted, transport=lambda sock: TlsTransport(sock, context, server_side=True))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(harness.certificates.authority())
    client = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    for byte in outgoing.read():
        sock.send(bytes([byte]))
        harness.poll(0)
    sock.settimeout(0.01)

    def ready() -> bool:
        with contextlib.suppress(TimeoutError):
            incoming.write(sock.recv(10_000))
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        sock.send(outgoing.read())
        return "2" in harness.connected

    harness.poll_until(ready)
