"""PKCS12 stores, read by the package `cryptography`. It takes about 0.1 s to import, so this module imports it late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.errors import ConfigError
from kcli.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate


def read_key(data: bytes, password: Secret | None, where: str) -> tuple[Secret, str]:
    """Return the private key and its certificates as PEM text. `where` begins the errors: the property and the file."""
    store = _load(data, password, where)
    if store.key is None or store.cert is None:
        raise ConfigError(f"{where} has no private key with its certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    others = [entry.certificate for entry in store.additional_certs]
    return Secret(key), _pem(_chain(store.cert.certificate, others))


def read_certificates(data: bytes, password: Secret | None, where: str) -> str:
    """Return all certificates as PEM text. `where` begins the errors: the property and the file."""
    store = _load(data, password, where)
    entries = ([store.cert] if store.cert is not None else []) + store.additional_certs
    return _pem([entry.certificate for entry in entries])


def _load(data: bytes, password: Secret | None, where: str) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(
            f"{where} is a PKCS12 store; to read it, install the package cryptography: pip install 'kcli-kafka[tls]'"
        ) from None
    name = where.partition(".location")[0]
    try:
        return load_pkcs12(data, password.reveal().encode() if password else None)
    except ValueError:
        if not password:
            raise ConfigError(f"{name}.password is missing: the PKCS12 store needs its password ({where})") from None
        raise ConfigError(f"{name}.password is wrong, or the PKCS12 store is damaged ({where})") from None


def _chain(own: Certificate, others: list[Certificate]) -> list[Certificate]:
    """Return the own certificate and then its issuers in order; the file may have them in any order."""
    chain = [own]
    while issuer := next((c for c in others if c.subject == chain[-1].issuer and c not in chain), None):
        chain.append(issuer)
    return chain


def _pem(certificates: list[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)
