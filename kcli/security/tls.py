"""TLS contexts of clients and of broker listeners, made of Kafka's `ssl.*` properties."""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.security.key_stores import KeyMaterial, load_key_store, load_trust_store
from kcli.security.key_stores.pem import decrypted
from kcli.security.security_settings import SecuritySettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(config: SecuritySettings) -> ssl.SSLContext:
    """Return the TLS context of a client. Raise ConfigError, which names a property.

    Without a trust store, the certificates of the operating system are trusted; to load them takes about 0.1 s.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(config.ssl_endpoint_identification_algorithm)
    if not config.enable_ssl_certificate_verification:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _set_protocol(context, config)
    trusted = load_trust_store(config)
    if trusted is not None:
        _trust(context, trusted, config)
    elif config.enable_ssl_certificate_verification:
        context.load_default_certs()
    key_store = load_key_store(config)
    if key_store is not None:
        _load_key(context, key_store)
    return context


def server_context(config: SecuritySettings, client_auth: str) -> ssl.SSLContext:
    """Return the TLS context of a listener; `client_auth` is Kafka's `ssl.client.auth`: none, requested or required.

    Raise ConfigError, which names a property.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_protocol(context, config)
    key_store = load_key_store(config)
    if key_store is None:
        raise ConfigError("ssl.keystore.location is missing; a listener with TLS needs a key and a certificate")
    _load_key(context, key_store)
    if client_auth != "none":
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
        trusted = load_trust_store(config)
        if trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            _trust(context, trusted, config)
    return context


def _set_protocol(context: ssl.SSLContext, config: SecuritySettings) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION  # as Kafka; only TLS 1.2 has it
    enabled = [_VERSIONS[name] for name in config.ssl_enabled_protocols if name in _VERSIONS]
    if config.ssl_protocol == "TLSv1.2":
        enabled = [version for version in enabled if version <= ssl.TLSVersion.TLSv1_2]
    if config.ssl_cipher_suites:
        suites = openssl_ciphers(config.ssl_cipher_suites)
        if not suites.tls13:
            enabled = [version for version in enabled if version <= ssl.TLSVersion.TLSv1_2]
        if not suites.older:
            enabled = [version for version in enabled if version >= ssl.TLSVersion.TLSv1_3]
        elif suites.older:
            try:
                context.set_ciphers(suites.older)
            except ssl.SSLError:
                raise ConfigError("ssl.cipher.suites: OpenSSL supports none of the suites") from None
    if not enabled:
        raise ConfigError("ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites have no TLS version in common")
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)


def _trust(context: ssl.SSLContext, certificates: str, config: SecuritySettings) -> None:
    # Java accepts a server's own certificate in the trust store, OpenSSL by default only a self-signed one.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError):
        name = "certificates" if config.ssl_truststore_certificates is not None else "location"
        raise ConfigError(f"ssl.truststore.{name}: a certificate is damaged") from None


def _load_key(context: ssl.SSLContext, store: KeyMaterial) -> None:
    asked = False
    key = store.private_key_pem.reveal()

    def password() -> bytes:  # without a function, OpenSSL would prompt on the terminal
        nonlocal asked
        asked = True
        return store.key_password.reveal().encode() if store.key_password else b""

    try:
        _load_chain(context, store.certificates_pem, key, password)
    except (ssl.SSLError, ValueError) as error:
        if not asked:
            raise ConfigError(_key_problem(error)) from None
        if not store.key_password:
            raise ConfigError("ssl.key.password is missing: the private key is encrypted") from None
        # Some old forms of encryption are only in a part of OpenSSL that is not loaded.
        try:
            _load_chain(context, store.certificates_pem, decrypted(key, store.key_password), password)
        except (ssl.SSLError, ValueError) as second:
            raise ConfigError(_key_problem(second)) from None


def _load_chain(context: ssl.SSLContext, certificates: str, key: str, password: Callable[[], bytes]) -> None:
    with _readable(certificates) as certificates_path, _readable(key) as key_path:
        context.load_cert_chain(certificates_path, key_path, password)


def _key_problem(error: Exception) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return "ssl.keystore: the private key does not belong to the first certificate; put its own certificate first"
    if getattr(error, "reason", "") in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return "ssl.keystore: the certificate has a key or a signature that is too weak for this system's OpenSSL"
    return "ssl.keystore: the private key or its certificate is damaged, or of a kind that OpenSSL does not know"


@contextmanager
def _readable(text: str) -> Iterator[str]:
    """A path that gives the text to OpenSSL, which reads keys only from a path, without a file on a disk."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("kcli", os.MFD_CLOEXEC)
        try:
            with open(number, "w", closefd=False) as file:
                file.write(text)
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
        return
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "w") as file:
            file.write(text)

    writer = threading.Thread(target=write)
    writer.start()  # a pipe holds less than a long chain has
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


#: The suites of TLS 1.3 (RFC 8446, B.4).
TLS13_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)


class CipherSuites(NamedTuple):
    """The suites of TLS 1.3, and those of older versions as OpenSSL's list."""

    tls13: tuple[str, ...]
    older: str


def openssl_ciphers(names: Iterable[str]) -> CipherSuites:
    """Return the suites of TLS 1.3 and the others; names of OpenSSL stay as they are. ConfigError for an unknown one.

    Python cannot select among the suites of TLS 1.3, so a list with any of them permits all that OpenSSL has.
    """
    tls13, older = [], []
    for name in names:
        if name in TLS13_SUITES:
            tls13.append(name)
        elif name.startswith(("TLS_", "SSL_")):
            older.append(openssl_name(name))
        else:
            older.append(name)
    return CipherSuites(tuple(tls13), ":".join(older))


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2 with certificates. ConfigError for a name that is not IANA's."""
    exchange, separator, cipher = name[4:].partition("_WITH_")
    if not separator or not re.fullmatch("[A-Z0-9_]+", name):
        raise ConfigError(f"ssl.cipher.suites: {name!r} is not the name of a cipher suite")
    cipher = re.sub(r"\b(AES|CAMELLIA|ARIA)_(128|256)", r"\1\2", cipher)
    cipher = cipher.replace("3DES_EDE_CBC", "DES_CBC3").replace("CCM_8", "CCM8")
    cipher = re.sub(r"^(AES|CAMELLIA|SEED|IDEA)(\d*)_CBC_", r"\1\2_", cipher)
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305")
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-").replace("ECDHE-RSA-ARIA", "ECDHE-ARIA")
