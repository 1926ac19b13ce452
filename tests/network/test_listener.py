"""Connections accepted by a listening socket, and a lack of file descriptors."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import pytest

from kcli.clock import SystemClock
from kcli.network.listener import Listener, bind_socket
from kcli.network.selector import Selector


@pytest.fixture
def selector() -> Iterator[Selector]:
    selector = Selector(SystemClock())
    yield selector
    selector.close_all()


def come(selector: Selector, sock: socket.socket) -> list[socket.socket]:
    there: list[socket.socket] = []
    for _ in range(100):
        selector.poll(10)
        there += [sock for sock, _ in selector.accepted]
        if there:
            break
    return there


def test_connections_are_accepted_by_poll(selector: Selector) -> None:
    listening = bind_socket("127.0.0.1", 0)
    selector.listen_on(listening)
    with socket.create_connection(listening.getsockname()) as client:
        (accepted,) = come(selector, listening)
        selector.register("1", accepted)
        client.sendall(b"\0\0\0\x02hi")
        for _ in range(100):
            selector.poll(10)
            if selector.completed_receives:
                break
        assert [(id, bytes(frame)) for id, frame in selector.completed_receives] == [("1", b"hi")]


def test_a_paused_listener_leaves_connections_in_the_queue(selector: Selector) -> None:
    listening = bind_socket("127.0.0.1", 0)
    selector.listen_on(listening)
    selector.pause_accepting()
    with socket.create_connection(listening.getsockname()):
        selector.poll(50)
        assert selector.accepted == []
        selector.pause_accepting(False)
        (accepted,) = come(selector, listening)
        accepted.close()


def test_a_closed_listener_refuses_connections(selector: Selector) -> None:
    listening = bind_socket("127.0.0.1", 0)
    address = listening.getsockname()
    selector.listen_on(listening)
    selector.stop_accepting()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


class FailingSocket:
    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def setblocking(self, _: bool) -> None: ...

    def accept(self) -> tuple[socket.socket, object]:
        if not self.codes:
            raise BlockingIOError
        raise OSError(self.codes.pop(0), "no")


def test_too_many_open_files_is_reported_and_an_aborted_connection_is_not() -> None:
    listener = Listener(FailingSocket(errno.ECONNABORTED, errno.EMFILE))  # type: ignore[arg-type]
    taken, error = listener.accept()
    assert taken == []
    assert error is not None
    assert error.errno == errno.EMFILE
    assert listener.accept() == ([], None)


def test_a_port_in_use_is_an_error_and_leaks_no_socket() -> None:
    listening = bind_socket("localhost", 0)
    listening.listen()
    with listening, pytest.raises(OSError, match="in use"):
        bind_socket("localhost", listening.getsockname()[1])


@pytest.mark.parametrize("name", ["a..b", "a" * 64])
def test_a_name_that_dns_cannot_have_is_an_os_error(name: str) -> None:
    with pytest.raises(OSError, match="Name or service not known"):
        bind_socket(name, 0)
