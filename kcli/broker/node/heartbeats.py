"""Requests to the controller outside the loop: the thread of the heartbeats, and the cluster id before the start."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kcli.broker.node.lifecycle import Lifecycle, State
from kcli.broker.node.peers import Address, PeerError, common_version, served_versions
from kcli.clock import Clock
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError, ProtocolError
from kcli.host_names import connect
from kcli.protocol.headers import decode_response, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.wire import Message, Request

R = TypeVar("R", bound=Message)

_LENGTH = struct.Struct(">i")
_MAX_ANSWER_BYTES = 16 << 20
_CONTROLLERS = 2
_ASK_AGAIN_S = 0.1


class BlockingConnection:
    """A connection that waits for each answer; PeerError for every failure, after which it is not used again."""

    def __init__(self, address: Address, timeout_s: float, client_id: str) -> None:
        self._where = f"{address[0]}:{address[1]}"
        self._client_id = client_id
        self._correlation_id = 0
        try:
            self._socket = connect(*address, timeout_s)
        except OSError as error:
            raise PeerError(f"cannot connect to the controller {self._where}: {error.strerror or error}") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            versions = self._exchange(
                ApiVersionsRequest(client_software_name="kcli-broker", client_software_version="1"), 3
            )
            self._versions = served_versions(versions)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, request: Request[R]) -> R:
        """Return the answer, in the newest version that both sides know."""
        response: R = self._exchange(request, common_version(type(request), self._versions))
        return response

    def close(self) -> None:
        """Close the connection; a thread that waits for an answer stops waiting."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exchange(self, request: Request[Any], version: int) -> Any:
        self._correlation_id += 1
        try:
            frame = encode_request(request, version, self._correlation_id, self._client_id)
            self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            (size,) = _LENGTH.unpack(self._receive(4))
            if not 0 < size <= _MAX_ANSWER_BYTES:
                raise ProtocolError(f"an answer of {size} bytes")
            correlation_id, response = decode_response(request.RESPONSE, version, self._receive(size))
            if correlation_id != self._correlation_id:
                raise ProtocolError(f"an answer has correlation id {correlation_id}, not {self._correlation_id}")
        except (OSError, ProtocolError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error
            raise PeerError(f"the controller {self._where}: {reason}") from None
        return response

    def _receive(self, count: int) -> bytearray:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            received = self._socket.recv_into(view[at:])
            if not received:
                raise ConnectionResetError("it closed the connection")
            at += received
        return data


class HeartbeatThread:
    """Sends what the lifecycle decides.

    `find_controller` returns the address of the controller. `on_change` is called in this thread after each answer that
    changed the lifecycle, and `on_fault` after each new kind of failure.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        clock: Clock,
        find_controller: Callable[[], Address],
        on_change: Callable[[], None],
        on_fault: Callable[[str], None],
        *,
        timeout_s: float,
        client_id: str,
    ) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._find_controller = find_controller
        self._on_change = on_change
        self._on_fault = on_fault
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._connection: tuple[Address, BlockingConnection] | None = None
        self._wakeup = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="kcli-heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wakeup(self) -> None:
        """Look again for the next request: the lifecycle has news."""
        self._wakeup.set()

    def stop(self) -> None:
        """End the thread; a request in flight is abandoned."""
        self._stopping = True
        self._wakeup.set()
        connection = self._connection
        if connection is not None:
            connection[1].close()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        lifecycle = self._lifecycle
        while not self._stopping:
            wait_ms = lifecycle.due_ms() - self._clock.now_ms()
            if wait_ms > 0:
                self._wakeup.wait(None if wait_ms == float("inf") else wait_ms / 1000)
                self._wakeup.clear()
                continue
            before = self._facts()
            fault = lifecycle.fault
            try:
                self._exchange()
            except PeerError as error:
                self._disconnect()
                lifecycle.on_failure(str(error), self._clock.now_ms())
            if lifecycle.fault is not None and lifecycle.fault != fault and not self._stopping:
                self._on_fault(lifecycle.fault)
            if self._facts() != before and not self._stopping:
                self._on_change()
        self._disconnect()

    def _facts(self) -> tuple[State, int, bool, bool]:
        lifecycle = self._lifecycle
        return lifecycle.state, lifecycle.epoch, lifecycle.is_fenced, lifecycle.fault is None

    def _exchange(self) -> None:
        address = self._find_controller()
        if self._connection is not None and self._connection[0] != address:
            self._disconnect()
        if self._connection is None:
            self._connection = address, BlockingConnection(address, self._timeout_s, self._client_id)
        response = self._connection[1].ask(self._lifecycle.next_request())
        self._lifecycle.on_response(response, self._clock.now_ms())
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection[1].close()


def ask_cluster_id(
    controllers: Sequence[Address],
    node_id: int,
    timeout_s: float,
    log: Callable[[str], None],
) -> str:
    """Return the cluster id that a controller says. KcliError if none answers within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    reported = ""
    while True:
        for address in controllers:
            try:
                connection = BlockingConnection(address, min(timeout_s, 5.0), f"kcli-node-{node_id}")
                try:
                    answer = connection.ask(DescribeClusterRequest(endpoint_type=_CONTROLLERS))
                finally:
                    connection.close()
                if not answer.error_code and answer.cluster_id:
                    return answer.cluster_id
                reason = f"DescribeCluster: {ErrorCode.of(answer.error_code).name}"
            except PeerError as error:
                reason = str(error)
            if reason != reported:
                reported = reason
                log(f"waiting for the controller: {reason}")
        if time.monotonic() > deadline:
            raise KcliError(f"no controller has answered within {timeout_s:g} s: {reported}")
        time.sleep(_ASK_AGAIN_S)
