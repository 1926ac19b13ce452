"""Key stores and trust stores: JKS, PKCS12 and PEM, read as PEM text. A file's content tells its format, as in Java.

`load_key_store` returns the own private key with its certificates; `load_trust_store` returns the trusted certificates.
`pem`, `jks` and `pkcs12` read one format each from bytes. Only PKCS12 needs the package `cryptography`.

**Non-obvious**

- `ssl.keystore.type` and `ssl.truststore.type` are not used: Java opens a PKCS12 file with the type JKS and vice versa.
- Errors name the property and the file, never a password or a part of a key.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.key_stores import pem
from kcli.security.settings import SecuritySettings

_JKS, _JCEKS, _SEQUENCE = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30"


class KeyMaterial(NamedTuple):
    """The own private key and certificates, the own certificate first and then its chain.

    `key_password` decrypts the key, if the PEM text holds an encrypted one.
    """

    private_key_pem: Secret | None
    certificates_pem: str
    key_password: Secret | None = None


def load_key_store(config: SecuritySettings) -> KeyMaterial | None:
    """Return the own key and certificates; None if none are configured. Raise ConfigError, which names a property."""
    if config.ssl_keystore_key is not None or config.ssl_keystore_certificate_chain is not None:
        return _inline_key(config)
    if config.ssl_keystore_location is None:
        return None
    where = f"ssl.keystore.location: {config.ssl_keystore_location!r}"
    data = _read(config.ssl_keystore_location, where)
    if data.startswith((_JKS, _JCEKS)):
        from kcli.security.key_stores import jks

        return KeyMaterial(*jks.read_key(data, config.ssl_keystore_password, config.ssl_key_password, where))
    if data.startswith(_SEQUENCE):
        from kcli.security.key_stores import pkcs12

        return KeyMaterial(*pkcs12.read_key(data, config.ssl_keystore_password, where))
    text = _text(data, where)
    key = pem.private_key(text)
    if key is None:
        raise ConfigError(f"{where} has no private key; a PEM key store holds the key and its certificates")
    certificates = pem.certificates(text)
    if not certificates:
        raise ConfigError(f"{where} has no certificate; a PEM key store holds the key and its certificates")
    return KeyMaterial(Secret(key), certificates, config.ssl_key_password or config.ssl_keystore_password)


def load_trust_store(config: SecuritySettings) -> str | None:
    """Return the trusted certificates; None if none are configured. Raise ConfigError, which names a property."""
    if config.ssl_truststore_certificates is not None:
        if config.ssl_truststore_location is not None:
            raise ConfigError("set ssl.truststore.location or ssl.truststore.certificates, not both")
        where = "ssl.truststore.certificates"
        return _not_empty(pem.certificates(pem.with_newlines(config.ssl_truststore_certificates.reveal())), where)
    if config.ssl_truststore_location is None:
        return None
    where = f"ssl.truststore.location: {config.ssl_truststore_location!r}"
    data = _read(config.ssl_truststore_location, where)
    password = config.ssl_truststore_password
    if data.startswith((_JKS, _JCEKS)):
        from kcli.security.key_stores import jks

        return _not_empty(jks.read_certificates(data, password, where), where)
    if data.startswith(_SEQUENCE):
        from kcli.security.key_stores import pkcs12

        return _not_empty(pkcs12.read_certificates(data, password, where), where)
    return _not_empty(pem.certificates(_text(data, where)), where)


def _inline_key(config: SecuritySettings) -> KeyMaterial:
    if config.ssl_keystore_location is not None:
        raise ConfigError("set ssl.keystore.location or ssl.keystore.key, not both")
    if config.ssl_keystore_key is None or config.ssl_keystore_certificate_chain is None:
        raise ConfigError("set both ssl.keystore.key and ssl.keystore.certificate.chain")
    key = pem.private_key(pem.with_newlines(config.ssl_keystore_key.reveal()))
    if key is None:
        raise ConfigError("ssl.keystore.key has no private key in PEM format")
    chain = pem.certificates(pem.with_newlines(config.ssl_keystore_certificate_chain.reveal()))
    return KeyMaterial(Secret(key), _not_empty(chain, "ssl.keystore.certificate.chain"), config.ssl_key_password)


def _read(path: str, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}") from None


def _text(data: bytes, where: str) -> str:
    if b"-----BEGIN " not in data:
        raise ConfigError(f"{where} is neither JKS, PKCS12 nor PEM")
    return data.decode("latin-1")  # comments between the blocks may have any encoding


def _not_empty(certificates: str, where: str) -> str:
    if not certificates:
        raise ConfigError(f"{where} has no trusted certificate")
    return certificates
