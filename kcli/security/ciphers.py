"""Names of cipher suites: IANA's, which Java and Kafka's configuration use, as OpenSSL's. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kcli.errors import ConfigError

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
