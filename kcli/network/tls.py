"""TLS over TCP as a transport: handshake, reads and writes of a non-blocking socket, for clients and servers.

Imports `ssl`, so import this module only where a connection with TLS is made.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import struct
from collections.abc import Sequence
from datetime import datetime, timezone
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

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

_UNREAD_BYTES = 1 << 16
_RECORD_BYTES = 16 << 10  # the most that one TLS record carries
_FILE_BYTES = 256 << 10  # per call, of a file slice
_UNEXPECTED_MESSAGE = bytes.fromhex("15030300020250")
_RECORD_TYPES = (b"\x14", b"\x15", b"\x16", b"\x17")  # RFC 8446, section 5.1
# A frame with API key 18, version 0, a correlation id, and no client id.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 0x6B636C69, -1)

#: Bound of each step of a second connection that finds the cause of an error, in seconds.
FETCH_TIMEOUT_S = 1.0


class TlsTransport:
    """One TLS connection. `server_hostname` is sent as SNI and compared with the certificate, if the context does so.

    A failed handshake raises `TlsError`. Under TLS 1.3 a server reports a missing or refused client certificate only
    after the handshake, so reads raise it, too.
    """

    name = "SSL"

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        server_side: bool = False,
    ) -> None:
        self.read_needs = EVENT_READ
        self.write_needs = EVENT_WRITE
        self._sock = sock
        self._tls: ssl.SSLSocket | None = None
        self._context = context
        self._server_hostname = server_hostname
        self._server_side = server_side
        self._peer: Any = None
        self._answered = False  # the other side has sent bytes of TLS
        self._unsent = memoryview(b"")
        self._ending: OSError | None = None  # an error after received bytes, to raise once these are taken
        self._ended = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def finish_connect(self) -> None:
        finish_connect(self._sock)

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the other side in DER; None if it has sent none."""
        return self._tls.getpeercert(binary_form=True) if self._tls is not None else None

    @property
    def protection(self) -> str:
        """The TLS version and the cipher, as `TLSv1.3, TLS_AES_256_GCM_SHA384`; "TLS" before the handshake."""
        cipher = self._tls.cipher() if self._tls is not None else None
        return f"{self._tls.version()}, {cipher[0]}" if self._tls is not None and cipher else "TLS"

    def handshake(self) -> int:
        try:
            if self._tls is None:
                self._tls = self._wrap()
            if not self._answered:
                self._check_first_bytes()
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise self._closed("closed") from None
        except ssl.SSLCertVerificationError as error:
            raise self._certificate_error(error) from None
        except ssl.SSLError as error:
            if self._server_side and not self._answered:
                self._alert()
            raise tls_error(error, server_side=self._server_side, answered=self._answered) from None
        except (ConnectionResetError, BrokenPipeError):
            raise self._closed("reset") from None
        return 0

    def recv_into(self, space: memoryview) -> int | None:
        tls = self._tls
        assert tls is not None
        if self._ending is not None:
            raise self._ending
        if self._ended:
            return 0
        count, size = 0, len(space)
        self.read_needs = EVENT_READ
        try:
            while count < size:  # a call returns one record at most
                received = tls.recv_into(space[count:] if count else space)
                if not received:
                    self._ended = True
                    return count
                count += received
        except ssl.SSLWantReadError:
            return count or None
        except ssl.SSLWantWriteError:
            self.read_needs = EVENT_WRITE
            return count or None
        except OSError as error:
            self._ending = self._explain(error) if isinstance(error, ssl.SSLError) else error
            if not count:
                raise self._ending from None
        return count

    def send(self, parts: Sequence[UnsentPart]) -> int:
        tls = self._tls
        assert tls is not None
        # OpenSSL demands that an incomplete write is repeated with the same bytes.
        unsent = self._unsent or _leading_bytes(parts)
        sent = 0
        self.write_needs = EVENT_WRITE
        try:
            while sent < len(unsent):
                sent += tls.send(unsent[sent:])
        except ssl.SSLWantWriteError:
            pass
        except ssl.SSLWantReadError:
            self.write_needs = EVENT_READ
        except (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError):
            raise self._last_alert() or ConnectionResetError(errno.ECONNRESET, "connection reset") from None
        except ssl.SSLError as error:
            raise self._explain(error) from None
        self._unsent = unsent[sent:]
        return sent

    def has_buffered(self) -> bool:
        return self._tls is not None and (self._tls.pending() > 0 or self._ended or self._ending is not None)

    def close(self) -> None:
        if self._tls is not None:
            # Send the closing alert, without waiting for the answer.
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
            # Bytes that are not read would make the system reset the connection, and the other side would not get the
            # alert that says why the handshake failed.
            with contextlib.suppress(OSError):
                socket.socket.recv(self._sock, _UNREAD_BYTES, socket.MSG_DONTWAIT)
        self._sock.close()

    def _wrap(self) -> ssl.SSLSocket:
        """Only once it is connected: Python refuses a socket that is still connecting."""
        self._peer = self._sock.getpeername()  # not known any more after the connection is reset
        try:
            tls = self._context.wrap_socket(
                self._sock,
                server_side=self._server_side,
                do_handshake_on_connect=False,
                server_hostname=self._server_hostname,
            )
        except (ValueError, UnicodeError) as error:
            if isinstance(error, ssl.SSLError):
                raise
            raise TlsError(f"{self._server_hostname!r} is not a host name that a certificate can have") from None
        self._sock = tls
        return tls

    def _check_first_bytes(self) -> None:
        """Recognise an HTTP server by the bytes that OpenSSL has not taken yet.

        OpenSSL may have taken the start of an answer that came at once, so other bytes are left to it.
        """
        try:
            first = socket.socket.recv(self._sock, 5, socket.MSG_PEEK)
        except BlockingIOError:
            return
        if first.startswith(b"HTTP") and not self._server_side:
            raise foreign_protocol(first, server_side=False)
        self._answered = first[:1] in _RECORD_TYPES

    def _alert(self) -> None:
        """Send a client without TLS the alert that Java sends. Clients of Kafka recognise it; OpenSSL sends nothing."""
        with contextlib.suppress(OSError):
            socket.socket.send(self._sock, _UNEXPECTED_MESSAGE)
            socket.socket.recv(self._sock, _RECORD_BYTES)  # unread bytes would turn the close into a reset

    def _explain(self, error: ssl.SSLError) -> TlsError:
        return tls_error(error, server_side=self._server_side, opened=True)

    def _closed(self, action: str) -> TlsError:
        unanswered = not self._answered and not self._server_side
        if unanswered and answers_without_tls((self._sock.family, self._peer)):
            return plain_listener()
        return closed_in_handshake(action, answered=self._answered, server_side=self._server_side)

    def _certificate_error(self, error: ssl.SSLCertVerificationError) -> TlsError:
        if self._server_side:
            return tls_error(error, server_side=True)
        der = fetch_certificate((self._sock.family, self._peer), self._server_hostname)
        return refused_certificate(error, der, self._server_hostname, datetime.now(timezone.utc))

    def _last_alert(self) -> TlsError | None:
        """Return the reason that the other side sent before it closed the connection, if it sent one."""
        assert self._tls is not None
        try:
            while self._tls.read(_RECORD_BYTES):
                pass
        except ssl.SSLError as error:
            explained = self._explain(error)
            return explained if explained.refused else None
        except OSError:
            pass
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


def _leading_bytes(parts: Sequence[UnsentPart]) -> memoryview:
    """Return the bytes to send next: small parts together as one record, a large part alone, a piece of a file."""
    first = parts[0]
    if isinstance(first, FileSlice):
        data = bytes(first[:_FILE_BYTES])
        if not data:
            raise OSError(errno.EIO, f"the file ends before {first!r} does")
        return memoryview(data)
    if len(first) >= _RECORD_BYTES or len(parts) == 1:
        return first
    views, size = [], 0
    for part in parts:
        if isinstance(part, FileSlice) or size >= _RECORD_BYTES:
            break
        views.append(part)
        size += len(part)
    return memoryview(b"".join(views))
