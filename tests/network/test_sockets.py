"""Behavior of real sockets only: partial writes, immediate connections, threads, and unusual transports."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import pytest

from kcli.clock import SystemClock
from kcli.network.channel import explain_os_error
from kcli.network.selector import Selector
from kcli.network.transport import PlainTransport, format_address
from tests.limits import join
from tests.network.harness import SocketHarness, SocketPeer


@pytest.fixture
def harness() -> Iterator[SocketHarness]:
    harness = SocketHarness()
    yield harness
    harness.close()


def test_a_frame_larger_than_the_socket_buffers_is_written_completely(harness: SocketHarness) -> None:
    harness.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    harness.selector.connect("1", harness.address, send_buffer_bytes=4096)
    peer = harness.accept()
    harness.poll_until(lambda: harness.connected)
    body = bytes(range(256)) * 8192
    harness.selector.send("1", [body[: 1 << 20], body[1 << 20 :]])
    harness.poll()
    harness.poll()
    assert harness.sends == []
    assert "sending=" in repr(harness.selector.channel("1"))
    taken: list[bytes] = []
    reader = threading.Thread(target=lambda: taken.append(peer.take_frame()))
    reader.start()
    harness.poll_until(lambda: harness.sends, polls=20_000)
    join(reader)
    assert taken == [body]


def test_many_small_parts_make_one_frame(harness: SocketHarness) -> None:
    peer = harness.connect("1")
    harness.selector.send("1", [bytes([n % 256]) for n in range(3000)])
    harness.poll_until(lambda: harness.sends)
    assert peer.take_frame() == bytes(n % 256 for n in range(3000))


def test_a_connection_lost_while_sending_fails_the_send_and_reports_the_bytes_written(harness: SocketHarness) -> None:
    peer = harness.connect("1")
    harness.selector.send("1", [bytes(50_000_000)])
    harness.poll()
    peer.reset()
    harness.poll_until(lambda: harness.disconnected)
    assert harness.failed == ["1"]
    assert harness.sends == []
    assert " of 50000004 bytes written" in harness.disconnected["1"]


def test_a_large_frame_arrives_complete(harness: SocketHarness) -> None:
    peer = harness.connect("1")
    body = bytes(range(256)) * 20_000
    sender = threading.Thread(target=lambda: peer.deliver(body))
    sender.start()
    harness.poll_until(lambda: harness.receives, polls=5000)
    join(sender)
    assert harness.receives == [("1", body)]


def test_a_large_frame_arrives_complete_through_a_small_buffer(harness: SocketHarness) -> None:
    harness.selector.connect("1", harness.address, receive_buffer_bytes=4096)
    peer = harness.accept()
    harness.poll_until(lambda: harness.connected)
    body = bytes(range(256)) * 4096
    sender = threading.Thread(target=lambda: peer.deliver(body, b"next"))
    sender.start()
    harness.poll_until(lambda: len(harness.receives) == 2, polls=20_000)
    join(sender)
    assert [frame for _, frame in harness.receives] == [body, b"next"]


def test_a_close_within_a_large_frame_reports_the_bytes_read(harness: SocketHarness) -> None:
    peer = harness.connect("1")
    peer.deliver_bytes(struct.pack(">i", 1 << 20) + bytes(1000))
    harness.poll(timeout_ms=5000)
    peer.hang_up()
    harness.poll(timeout_ms=5000)
    assert harness.disconnected["1"].endswith(" in the middle of a frame, 1000 of 1048576 bytes read")


def test_wakeup_from_another_thread_ends_a_long_poll(harness: SocketHarness) -> None:
    harness.connect("1")
    waker = threading.Timer(0.05, harness.selector.wakeup)
    waker.start()
    harness.poll(timeout_ms=60_000)
    waker.join()
    assert harness.receives == []


def test_many_wakeups_end_one_poll(harness: SocketHarness) -> None:
    for _ in range(100_000):
        harness.selector.wakeup()
    harness.poll(timeout_ms=60_000)
    harness.connect("1").deliver(b"x")
    harness.poll(timeout_ms=60_000)
    assert harness.receives == [("1", b"x")]


def test_an_immediate_connection_is_reported_by_the_next_poll(tmp_path: Any) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        selector = Selector(SystemClock())
        selector.connect("1", (socket.AF_UNIX, path))
        assert not selector.is_connected("1")
        selector.poll(60_000)
        assert selector.connected == ["1"]
        selector.close_all()


def test_an_accepted_socket_sends_and_receives(harness: SocketHarness) -> None:
    ours, theirs = socket.socketpair()
    peer = SocketPeer(theirs)
    harness.selector.register("accepted", ours)  # type: ignore[attr-defined]
    harness.poll_until(lambda: harness.connected == ["accepted"])
    peer.deliver(b"request")
    harness.poll_until(lambda: harness.receives)
    harness.selector.send("accepted", [b"response"])
    harness.poll_until(lambda: harness.sends)
    assert peer.take_frame() == b"response"
    theirs.close()


def test_a_host_without_a_route_is_reported_with_the_system_error(harness: SocketHarness) -> None:
    harness.selector.connect("1", (socket.AF_INET, ("255.255.255.255", 9092)))
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].startswith("cannot connect to 255.255.255.255:9092: ")


@pytest.mark.parametrize(
    ("code", "connecting", "sentence"),
    [
        (errno.ECONNREFUSED, True, "connection refused by kafka:9092"),
        (errno.EPIPE, False, "connection reset by kafka:9092"),
        (errno.ETIMEDOUT, True, "connection with kafka:9092 timed out"),
        (errno.EHOSTUNREACH, True, "cannot connect to kafka:9092: No route to host"),
        (errno.EHOSTUNREACH, False, "connection with kafka:9092 failed: No route to host"),
    ],
)
def test_system_errors_become_sentences(code: int, connecting: bool, sentence: str) -> None:
    assert explain_os_error(OSError(code, "?"), "kafka:9092", connecting=connecting) == sentence


def test_addresses_are_formatted_as_host_and_port() -> None:
    assert format_address((socket.AF_INET6, ("::1", 9092, 0, 0))) == "[::1]:9092"
    assert format_address((socket.AF_INET, ("10.0.0.1", 9092))) == "10.0.0.1:9092"


def test_ipv6_loopback(harness: SocketHarness) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        harness.selector.connect("6", (socket.AF_INET6, listener.getsockname()))
        harness.poll_until(lambda: "6" in harness.connected)
    assert repr(harness.selector.channel("6")).startswith("<KafkaChannel id=6 [::1]:")


class ContraryTransport(PlainTransport):
    """A transport that behaves as TLS may.

    Its handshake has two steps, it writes one byte at a time, a read waits for writing, and it holds received bytes
    that the operating system no longer reports.
    """

    name = "CONTRARY"

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._greeted = False
        self._inside = bytearray()
        self._sulks = 2

    def handshake(self) -> int:
        if self._greeted:
            return 0
        if super().recv_into(memoryview(bytearray(5))) != 5:
            return EVENT_READ
        self._greeted = True
        return EVENT_WRITE

    def recv_into(self, space: memoryview) -> int | None:
        if not self._inside:
            if self._sulks:
                self._sulks -= 1
                self.read_needs = EVENT_WRITE
                return None
            self.read_needs = EVENT_READ
            chunk = bytearray(1000)
            count = super().recv_into(memoryview(chunk))
            if not count:
                return count
            self._inside += chunk[:count]
        count = min(len(space), len(self._inside))
        space[:count] = self._inside[:count]
        del self._inside[:count]
        return count

    def send(self, parts: Sequence[memoryview]) -> int:
        return super().send([parts[0][:1]])

    def has_buffered(self) -> bool:
        return bool(self._inside)


def test_a_transport_with_a_handshake_and_inverted_needs_sends_and_receives(harness: SocketHarness) -> None:
    harness.selector.connect("1", harness.address, transport=ContraryTransport)
    peer = harness.accept()
    harness.poll()
    harness.poll()
    assert harness.connected == []
    assert " CONTRARY handshaking" in repr(harness.selector.channel("1"))
    peer.deliver_bytes(b"hello")
    harness.poll_until(lambda: harness.connected)
    peer.deliver(b"one", b"two", b"three")
    harness.poll_until(lambda: len(harness.receives) == 3)
    assert [frame for _, frame in harness.receives] == [b"one", b"two", b"three"]
    harness.selector.send("1", [b"bye"])
    harness.poll_until(lambda: harness.sends)
    assert peer.take_frame() == b"bye"


def test_a_close_during_the_handshake_is_reported(harness: SocketHarness) -> None:
    class Unlucky(PlainTransport):
        def handshake(self) -> int:
            raise ConnectionResetError(errno.ECONNRESET, "reset")

    harness.selector.connect("1", harness.address, transport=Unlucky)
    harness.accept()
    harness.poll_until(lambda: harness.disconnected)
    assert harness.disconnected["1"].endswith(" during the handshake")
    assert harness.connected == []


def test_a_socket_connected_to_itself_counts_as_refused(harness: SocketHarness) -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.connect(sock.getsockname())
    with sock, pytest.raises(ConnectionRefusedError):
        PlainTransport(sock).finish_connect()


def test_hostile_frames_on_forty_connections_do_not_affect_others(harness: SocketHarness) -> None:
    good = harness.connect("good")
    lengths = [-1, 0, 0x7FFFFFFF, 104_857_601, struct.unpack(">i", b"GET ")[0]]
    for n in range(40):
        harness.connect(f"evil-{n}").deliver_bytes(struct.pack(">i", lengths[n % 5]) + b"garbage")
    for n in range(20):
        harness.connect(f"half-{n}").deliver_bytes(struct.pack(">i", 104_857_600) + b"few")
    harness.poll_until(lambda: len(harness.disconnected) == 40)
    good.deliver(b"fine")
    harness.poll_until(lambda: harness.receives)
    assert harness.receives == [("good", b"fine")]
    assert all(id.startswith("evil") for id in harness.disconnected)
