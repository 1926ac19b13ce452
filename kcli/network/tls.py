"""TLS over TCP as a transport: handshake, reads and writes of a non-blocking socket, for clients and servers.

Imports `ssl`, so import this module only where a connection with TLS is made.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from selectors import EVENT_READ, EVENT_WRITE

from kcli.network.file_slice import FileSlice
from kcli.network.framing import UnsentPart
from kcli.network.transport import TlsError, finish_connect

_RECORD_BYTES = 16 << 10  # the most that one TLS record carries
_FILE_BYTES = 256 << 10  # per call, of a file slice


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
        self._unsent = memoryview(b"")
        self._ending: TlsError | None = None  # an error after received bytes, to raise once these are taken
        self._ended = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def finish_connect(self) -> None:
        finish_connect(self._sock)

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the other side in DER; None if it has sent none."""
        return self._tls.getpeercert(binary_form=True) if self._tls is not None else None

    def handshake(self) -> int:
        try:
            if self._tls is None:
                # Only now: Python refuses a socket that is still connecting.
                self._sock = self._tls = self._context.wrap_socket(
                    self._sock,
                    server_side=self._server_side,
                    do_handshake_on_connect=False,
                    server_hostname=self._server_hostname,
                )
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return EVENT_READ
        except ssl.SSLWantWriteError:
            return EVENT_WRITE
        except ssl.SSLError as error:
            raise self._explained(error) from None
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
        except ssl.SSLError as error:
            self._ending = self._explained(error)
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
        except ssl.SSLError as error:
            raise self._explained(error) from None
        self._unsent = unsent[sent:]
        return sent

    def has_buffered(self) -> bool:
        return self._tls is not None and (self._tls.pending() > 0 or self._ended or self._ending is not None)

    def close(self) -> None:
        if self._tls is not None:
            # Send the closing alert, without waiting for the answer.
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
        self._sock.close()

    def _explained(self, error: ssl.SSLError) -> TlsError:
        return TlsError(str(error.reason or error))


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
