"""TLS over TCP as a transport: handshake, reads and writes of a non-blocking socket, for clients and servers.

Imports `ssl`, so import this module only where a connection with TLS is made.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, cast

from kcli.network.file_slice import FileSlice
from kcli.network.framing import UnsentPart
from kcli.network.tls_errors import (
    closed_in_handshake,
    foreign_protocol,
    plain_listener,
    refused_certificate,
    tls_error,
)
from kcli.network.transport import SocketAddress, TlsError, finish_connect

_RECORD_BYTES = 16 << 10  # the most that one TLS record carries
_SEND_BYTES = 256 << 10  # per call, before encryption
_RECEIVE_BYTES = 128 << 10  # per system call, and what one connection then keeps allocated
_UNEXPECTED_MESSAGE = bytes.fromhex("15030300020250")
_RECORD_TYPES = (b"\x14", b"\x15", b"\x16", b"\x17")  # RFC 8446, section 5.1
# A frame with API key 18, version 0, a correlation id, and no client id.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 0x6B636C69, -1)

#: Bound of each step of a second connection that finds the cause of an error, in seconds.
FETCH_TIMEOUT_S = 1.0


class _Received(threading.local):
    """The buffer of each thread for encrypted bytes, which OpenSSL copies."""

    def __init__(self) -> None:
        self.buffer = bytearray(_RECEIVE_BYTES)


_received = _Received()


class TlsTransport:
    """One TLS connection. `server_hostname` is sent as SNI and compared with the certificate, if the context does so.

    A failed handshake raises `TlsError`. Under TLS 1.3 a server reports a missing or refused client certificate only
    after the handshake, so reads raise it, too.

    OpenSSL works on memory here, because it would read each record of the socket with two system calls.
    """

    name = "SSL"
    write_needs = EVENT_WRITE

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        server_side: bool = False,
    ) -> None:
        self.read_needs = EVENT_READ
        self._sock = sock
        self.fileno = sock.fileno
        self.close_descriptor = sock.close
        self._context = context
        self._server_hostname = server_hostname
        self._server_side = server_side
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._peer: Any = None
        self._answered = False  # the other side has sent bytes of TLS
        self._is_open = False
        self._unsent = memoryview(b"")  # encrypted
        self._encrypted_bytes = 0  # of the frame being sent, encrypted but not yet sent
        self._is_drained = False  # the socket was empty, and what is left is a part of a record
        self._ended = False
        self._ending: OSError | None = None  # an error after received bytes, to raise once these are taken

    def finish_connect(self) -> None:
        finish_connect(self._sock)

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the other side in DER; None if it has sent none."""
        return self._tls.getpeercert(binary_form=True) if self._is_open and self._tls else None

    @property
    def protection(self) -> str:
        """TLS version and cipher suite, for people; `TLS` before the handshake."""
        cipher = self._tls.cipher() if self._tls is not None else None
        return f"{self._tls.version()}, {cipher[0]}" if self._tls is not None and cipher else "TLS"

    def handshake(self) -> int:
        try:
            tls = self._tls or self._begin()
            while True:
                self._is_open = self._step(tls)
                if not self._flush():
                    return EVENT_WRITE
                if self._is_open:
                    return 0
                received = self._receive()
                if received is None:
                    return EVENT_READ
                if not received:
                    raise self._closed("closed")
        except (ConnectionResetError, BrokenPipeError):
            raise self._last_alert() or self._closed("reset") from None

    def recv_into(self, space: memoryview) -> int | None:
        tls = self._tls
        assert tls is not None
        if self._ending is not None:
            raise self._ending
        count, size = 0, len(space)
        self._is_drained = False
        try:
            while count < size and not self._ended:
                try:
                    taken = _read_into(tls, space[count:] if count else space)
                    self._ended = not taken
                    count += taken
                except ssl.SSLWantReadError:
                    received = self._receive()
                    if received is None:
                        self._is_drained = True
                        self._answer()
                        return count or None
                    self._ended = not received
        except OSError as error:
            self._ending = self._explain(error) if isinstance(error, ssl.SSLError) else error
            if not count:
                raise self._ending from None
        return count

    def send(self, parts: Sequence[UnsentPart]) -> int:
        tls = self._tls
        assert tls is not None
        try:
            if not self._encrypted_bytes:
                data = _leading_bytes(parts)
                while self._encrypted_bytes < len(data):
                    self._encrypted_bytes += tls.write(data[self._encrypted_bytes :])  # one record at most
            if not self._flush():
                return 0
        except ssl.SSLError as error:
            raise self._explain(error) from None
        except (ConnectionResetError, BrokenPipeError) as error:
            raise self._last_alert() or error from None
        sent, self._encrypted_bytes = self._encrypted_bytes, 0
        return sent

    def has_buffered(self) -> bool:
        if self._tls is None or not self._is_open:
            return False
        if self._ended or self._ending is not None:
            return True
        return not self._is_drained and (self._incoming.pending > 0 or self._tls.pending() > 0)

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._tls is not None and self._is_open:
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()  # the closing alert; do not wait for that of the other side
            self._flush()
            # Bytes that are not read would make the system reset the connection, and the other side would not get the
            # alert that says why the handshake failed.
            self._sock.recv(_RECEIVE_BYTES, socket.MSG_DONTWAIT)
        self._sock.close()

    def _begin(self) -> ssl.SSLObject:
        self._peer = self._sock.getpeername()  # not known any more after the connection is reset
        try:
            self._tls = self._context.wrap_bio(
                self._incoming, self._outgoing, server_side=self._server_side, server_hostname=self._server_hostname
            )
        except ValueError:
            raise TlsError(f"{self._server_hostname!r} is not a host name that a certificate can have") from None
        return self._tls

    def _step(self, tls: ssl.SSLObject) -> bool:
        """Continue the handshake with what was received; True when it is complete."""
        try:
            tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):
                self._flush()  # tell the other side
            if isinstance(error, ssl.SSLCertVerificationError) and not self._server_side:
                der = fetch_certificate((self._sock.family, self._peer), self._server_hostname)
                raise refused_certificate(error, der, self._server_hostname, datetime.now(timezone.utc)) from None
            raise tls_error(error, server_side=self._server_side) from None

    def _receive(self) -> int | None:
        """Give received bytes to OpenSSL; return their number, None if there are none yet, 0 at the end."""
        buffer = _received.buffer
        try:
            count = self._sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None
        data = memoryview(buffer)[:count]
        if count and not self._answered:
            if bytes(data[:1]) not in _RECORD_TYPES:
                self._alert()
                raise foreign_protocol(bytes(data[:5]), server_side=self._server_side)
            self._answered = True
        self._incoming.write(data)
        return count

    def _alert(self) -> None:
        """Send a client without TLS the alert that Java sends. Clients of Kafka recognise it; OpenSSL sends nothing."""
        if self._server_side:
            with contextlib.suppress(OSError):
                self._sock.send(_UNEXPECTED_MESSAGE)

    def _flush(self) -> bool:
        """Send what OpenSSL has encrypted; False if the connection does not accept all of it now."""
        if not self._unsent:
            if not self._outgoing.pending:
                return True
            self._unsent = memoryview(self._outgoing.read())
        try:
            while self._unsent:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return False
        return not self._outgoing.pending or self._flush()

    def _answer(self) -> None:
        """Send what OpenSSL answers to control messages such as a request for new keys."""
        if not self._encrypted_bytes:  # else it is sent with the frame
            self.read_needs = EVENT_READ if self._flush() else EVENT_READ | EVENT_WRITE

    def _explain(self, error: ssl.SSLError) -> TlsError:
        return tls_error(error, server_side=self._server_side, opened=True)

    def _closed(self, action: str) -> TlsError:
        unanswered = not self._answered and not self._server_side
        if unanswered and answers_without_tls((self._sock.family, self._peer)):
            return plain_listener()
        return closed_in_handshake(action, answered=self._answered, server_side=self._server_side)

    def _last_alert(self) -> TlsError | None:
        """Return the reason that the other side sent before it closed the connection, if it sent one."""
        tls = self._tls
        if tls is None:
            return None
        with contextlib.suppress(OSError):
            while self._receive():
                pass
        try:
            if not self._is_open:
                tls.do_handshake()
            while tls.read(_RECORD_BYTES):
                pass
        except ssl.SSLError as error:
            explained = tls_error(error, server_side=self._server_side, opened=self._is_open)
            return explained if explained.refused else None
        return None


def fetch_certificate(
    address: SocketAddress, server_hostname: str | None, timeout_s: float = FETCH_TIMEOUT_S
) -> bytes | None:
    """Return the certificate that a server shows, in DER, whether it can be trusted or not; None if it cannot be had.

    It makes a connection of its own, because OpenSSL keeps no certificate that it has refused. Blocks up to twice
    `timeout_s`. Nothing is sent but the handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    family, sockaddr = address
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(sockaddr)
            with context.wrap_socket(sock, server_hostname=server_hostname) as tls:
                return tls.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return None


def answers_without_tls(address: SocketAddress, timeout_s: float = FETCH_TIMEOUT_S) -> bool:
    """True if a listener answers an ApiVersions request without TLS. Blocks up to twice `timeout_s`.

    A listener without TLS closes the connection at the start of a TLS handshake, but so does a broker that is being
    stopped. The request has no content and needs no authentication.
    """
    family, sockaddr = address
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(sockaddr)
            sock.sendall(_API_VERSIONS_REQUEST)
            answer = sock.recv(8)
    except OSError:
        return False
    return len(answer) == 8 and answer[:1] == b"\x00" and answer[4:] == _API_VERSIONS_REQUEST[8:12]


def _read_into(tls: ssl.SSLObject, space: memoryview) -> int:
    """Read from one record at most; return the number of bytes."""
    return cast("int", tls.read(len(space), space))  # with a buffer, it returns a number


def _leading_bytes(parts: Sequence[UnsentPart]) -> memoryview:
    """Return the bytes to send next: small parts together, a large part alone, a piece of a file."""
    first = parts[0]
    if isinstance(first, FileSlice):
        data = bytes(first[:_SEND_BYTES])
        if not data:
            raise OSError(errno.EIO, f"the file ends before {first!r} does")
        return memoryview(data)
    if len(first) >= _RECORD_BYTES or len(parts) == 1:
        return first[:_SEND_BYTES]
    views, size = [], 0
    for part in parts:
        if isinstance(part, FileSlice) or size >= _RECORD_BYTES:
            break
        views.append(part)
        size += len(part)
    return memoryview(b"".join(views))[:_SEND_BYTES]
