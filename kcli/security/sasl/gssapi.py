"""GSSAPI, the SASL mechanism of Kerberos, from the client's side (RFC 4752), by the system's MIT Kerberos library.

The library reads /etc/krb5.conf (or KRB5_CONFIG) and talks to the KDC itself. It is called through ctypes, so no
package is needed. Of the security layers that a broker may offer, Kafka uses none.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, NamedTuple

from kcli.errors import AuthenticationError, ConfigError
from kcli.security.jaas import NAME, JaasEntry
from kcli.security.sasl.exchange import ClientExchange
from kcli.security.security_settings import SecuritySettings

MECHANISM = "GSSAPI"
_LIBRARIES = ("libgssapi_krb5.so.2", "libgssapi_krb5.dylib")
_NO_SECURITY_LAYER = 1
_CONTINUE_NEEDED = 1
_ERROR_BITS = 0xFFFF0000
_MUTUAL_REPLAY_SEQUENCE_INTEGRITY = 2 | 4 | 8 | 32
_INITIATE = 1
_GSS_CODE, _MECH_CODE = 1, 2

# What to do about the usual failures, by a part of the library's own text.
_CURES = {
    "credentials": "run kinit first, or name a keytab in sasl.jaas.config",
    "Ticket expired": "run kinit again",
    "not found in Kerberos database": "check sasl.kerberos.service.name and the broker's host name",
    "Cannot contact any KDC": "check the KDC in krb5.conf",
    "Cannot find KDC": "check the realm in krb5.conf",
    "Clock skew": "set the clock of this machine",
}


class GssapiClient:
    """The client's side, for the login module of Java or one that `find_login` makes of other properties."""

    name = MECHANISM
    user: str | None = None

    def __init__(self, config: SecuritySettings, entry: JaasEntry) -> None:
        service = config.sasl_kerberos_service_name or entry.option("serviceName")
        if not service:
            raise ConfigError(
                "sasl.kerberos.service.name is not set; give the first part of the brokers' principal, mostly kafka"
            )
        self._login = find_login(service, entry)
        _load()

    def start(self, host: str) -> ClientExchange:
        """Begin the exchange with the service on this host."""
        return exchange(self._login, host)


class KerberosLogin(NamedTuple):
    """Place of the client's credentials: a keytab for `principal`, or a ticket cache; the default cache if neither."""

    service: str
    principal: str | None = None
    keytab: str | None = None
    cache: str | None = None


class _Buffer(Structure):
    _fields_ = [("length", c_size_t), ("value", c_void_p)]

    @classmethod
    def of(cls, data: bytes) -> _Buffer:
        buffer = cls(len(data), ctypes.cast(c_char_p(data), c_void_p))
        buffer.kept = data  # the pointer does not keep the bytes
        return buffer

    def take(self) -> bytes:
        return ctypes.string_at(self.value, self.length) if self.value else b""


class _Oid(Structure):
    _fields_ = [("length", c_uint32), ("elements", c_void_p)]

    @classmethod
    def of(cls, data: bytes) -> _Oid:
        oid = cls(len(data), ctypes.cast(c_char_p(data), c_void_p))
        oid.kept = data
        return oid


class _OidSet(Structure):
    _fields_ = [("count", c_size_t), ("elements", POINTER(_Oid))]


class _StoreElement(Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class _Store(Structure):
    _fields_ = [("count", c_uint32), ("elements", POINTER(_StoreElement))]


_KERBEROS = _Oid.of(bytes.fromhex("2a864886f712010202"))  # 1.2.840.113554.1.2.2
_HOSTBASED_SERVICE = _Oid.of(bytes.fromhex("2a864886f71201020104"))  # 1.2.840.113554.1.2.1.4
_PRINCIPAL_NAME = _Oid.of(bytes.fromhex("2a864886f71201020201"))  # 1.2.840.113554.1.2.2.1


def find_login(service: str, entry: JaasEntry) -> KerberosLogin:
    """Return the credentials that the options of Krb5LoginModule name: `useKeyTab` or `useTicketCache`."""
    principal = entry.option("principal")
    if (entry.option("useKeyTab") or "false").lower() == "true":
        return KerberosLogin(service, principal, entry.required("keyTab").removeprefix("FILE:"))
    if (entry.option("useTicketCache") or "false").lower() == "true":
        return KerberosLogin(service, principal, None, entry.option("ticketCache"))
    raise ConfigError(f"{NAME}: GSSAPI needs useKeyTab=true with keyTab, or useTicketCache=true")


def exchange(login: KerberosLogin, host: str) -> ClientExchange:
    """Authenticate with the service on `host`: yield each token to send, receive the broker's.

    AuthenticationError names the cause that the library gives, ConfigError a missing library.
    """
    with ExitStack() as undo:
        context = _Context(_load(), login, host, undo)
        answer, is_complete = b"", False
        while not is_complete:
            token, is_complete = context.step(answer)
            answer = yield token  # the last token may be empty: it asks for the offer of security layers
        offer = context.unwrap(answer)
        if len(offer) != 4 or not offer[0] & _NO_SECURITY_LAYER:
            raise AuthenticationError("the broker asks for a security layer of GSSAPI, which Kafka does not use")
        yield context.wrap(bytes((_NO_SECURITY_LAYER, 0, 0, 0)))


class _Context:
    """A security context of the library; `undo` releases everything that it allocates."""

    def __init__(self, library: Any, login: KerberosLogin, host: str, undo: ExitStack) -> None:
        self._library = library
        self._minor = c_uint32()
        self._undo = undo
        self._handle = c_void_p()
        undo.callback(
            lambda: self._handle and library.gss_delete_sec_context(byref(self._minor), byref(self._handle), None)
        )
        self._target = self._name(f"{login.service}@{host}", _HOSTBASED_SERVICE)
        self._credentials = self._acquire(login)

    def step(self, answer: bytes) -> tuple[bytes, bool]:
        """Pass the broker's token to the library; return the next one, and whether the context is complete."""
        given, token = _Buffer.of(answer), _Buffer()
        status = self._library.gss_init_sec_context(
            byref(self._minor), self._credentials, byref(self._handle), self._target, byref(_KERBEROS),
            c_uint32(_MUTUAL_REPLAY_SEQUENCE_INTEGRITY), c_uint32(0), None, byref(given), None, byref(token),
            None, None,
        )  # fmt: skip
        self._check(status)
        return self._release(token), status != _CONTINUE_NEEDED

    def unwrap(self, message: bytes) -> bytes:
        plain = _Buffer()
        status = self._library.gss_unwrap(
            byref(self._minor), self._handle, byref(_Buffer.of(message)), byref(plain), None, None
        )
        self._check(status)
        return self._release(plain)

    def wrap(self, message: bytes) -> bytes:
        wrapped = _Buffer()
        status = self._library.gss_wrap(
            byref(self._minor), self._handle, c_int(0), c_int(0), byref(_Buffer.of(message)), None, byref(wrapped)
        )
        self._check(status)
        return self._release(wrapped)

    def _acquire(self, login: KerberosLogin) -> c_void_p | None:
        """Return the credentials of a keytab or a given cache; None for the default ones."""
        if login.principal is None and login.keytab is None and login.cache is None:
            return None
        # Tickets that a keytab gives stay in this process, and the user's cache is not changed.
        memory = f"MEMORY:kcli {login.principal} {login.keytab}"
        places = {"client_keytab": login.keytab, "ccache": memory if login.keytab else login.cache}
        pairs = [_StoreElement(key.encode(), os.fsencode(value)) for key, value in places.items() if value]
        store = _Store(len(pairs), (_StoreElement * len(pairs))(*pairs))
        name = self._name(login.principal, _PRINCIPAL_NAME) if login.principal else None
        found = c_void_p()
        status = self._library.gss_acquire_cred_from(
            byref(self._minor), name, c_uint32(0), byref(_OidSet(1, ctypes.pointer(_KERBEROS))), c_int(_INITIATE),
            byref(store), byref(found), None, None,
        )  # fmt: skip
        if status & _ERROR_BITS and login.keytab:
            raise AuthenticationError(
                f"Kerberos: the keytab {login.keytab} gives no credentials"
                f"{f' for {login.principal}' if login.principal else ''}; check keyTab and principal, and klist -k"
            )
        self._check(status)
        self._undo.callback(lambda: self._library.gss_release_cred(byref(self._minor), byref(found)))
        return found

    def _name(self, text: str, kind: _Oid) -> c_void_p:
        name = c_void_p()
        status = self._library.gss_import_name(
            byref(self._minor), byref(_Buffer.of(text.encode())), byref(kind), byref(name)
        )
        self._check(status)
        self._undo.callback(lambda: self._library.gss_release_name(byref(self._minor), byref(name)))
        return name

    def _release(self, buffer: _Buffer) -> bytes:
        data = buffer.take()
        self._library.gss_release_buffer(byref(c_uint32()), byref(buffer))
        return data

    def _check(self, status: int) -> None:
        if not status & _ERROR_BITS:
            return
        text = self._text(self._minor.value, _MECH_CODE) or self._text(status, _GSS_CODE)
        cure = next((cure for part, cure in _CURES.items() if part in text), None)
        raise AuthenticationError(f"Kerberos: {text}" + (f"; {cure}" if cure else ""))

    def _text(self, code: int, kind: int) -> str:
        text, more = _Buffer(), c_uint32()
        status = self._library.gss_display_status(
            byref(c_uint32()), c_uint32(code), c_int(kind), byref(_KERBEROS), byref(more), byref(text)
        )
        return "" if status & _ERROR_BITS else self._release(text).decode(errors="replace").strip()


def _load() -> Any:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        for function in ("gss_init_sec_context", "gss_unwrap", "gss_wrap", "gss_acquire_cred_from", "gss_import_name"):
            getattr(library, function).restype = c_uint32
        return library
    raise ConfigError(
        "sasl.mechanism: GSSAPI needs the Kerberos library libgssapi_krb5, which is not installed "
        "(Debian: libgssapi-krb5-2, Red Hat: krb5-libs)"
    )
