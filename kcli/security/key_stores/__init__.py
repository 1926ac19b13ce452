"""Key stores and trust stores: JKS, PKCS12 and PEM, read as PEM text. A file's content tells its format, as in Java.

`load_key_store` returns the own private key with its certificates; `load_trust_store` returns the trusted certificates.
`pem`, `jks` and `pkcs12` read one format each from bytes. Only PKCS12 needs the package `cryptography`.

**Non-obvious**

- `ssl.keystore.type` and `ssl.truststore.type` are not used: Java opens a PKCS12 file with the type JKS and vice versa.
- Errors name the property and the file, never a password or a part of a key.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.key_stores import pem
from kcli.security.security_settings import SecuritySettings

# The properties of Java with a PEM text, and of librdkafka with a file.
_KEY = "ssl.keystore.key", "ssl.key.location"
_CHAIN = "ssl.keystore.certificate.chain", "ssl.certificate.location"
_JKS, _JCEKS, _SEQUENCE = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30"


class KeyMaterial(NamedTuple):
    """The own private key and certificates, the own certificate first and then its chain.

    `key_password` decrypts the key, if the PEM text holds an encrypted one.
    """

    private_key_pem: Secret
    certificates_pem: str
    key_password: Secret | None = None


def load_key_store(config: SecuritySettings) -> KeyMaterial | None:
    """Return the own key and certificates; None if none are configured. Raise ConfigError, which names a property."""
    separate = [name for name in (*_KEY, *_CHAIN) if config.value(name) is not None]
    if config.ssl_keystore_location is None:
        return _separate_texts(config) if separate else None
    if separate:
        raise ConfigError(f"set ssl.keystore.location or {separate[0]}, not both")
    where = f"ssl.keystore.location: {config.ssl_keystore_location!r}"
    data = _read(config.ssl_keystore_location, where)
    if data.startswith((_JKS, _JCEKS)):
        from kcli.security.key_stores import jks

        return KeyMaterial(*jks.read_key(data, config.ssl_keystore_password, config.ssl_key_password, where))
    if data.startswith(_SEQUENCE):
        from kcli.security.key_stores import pkcs12

        return KeyMaterial(*pkcs12.read_key(data, config.ssl_keystore_password, where))
    return _key_material(text := _text(data, where), where, text, where, config)


def load_trust_store(config: SecuritySettings) -> str | None:
    """Return the trusted certificates; None if none are configured. Raise ConfigError, which names a property."""
    if config.ssl_truststore_certificates is not None:
        if config.ssl_truststore_location is not None:
            raise ConfigError("set ssl.truststore.location or ssl.truststore.certificates, not both")
        text = pem.with_newlines(config.ssl_truststore_certificates.reveal())
        return _not_empty(pem.certificates(text), "ssl.truststore.certificates", "trusted certificate")
    if config.ssl_truststore_location is None:
        return None
    where = f"ssl.truststore.location: {config.ssl_truststore_location!r}"
    if os.path.isdir(config.ssl_truststore_location):
        return _not_empty(_certificates_in(config.ssl_truststore_location, where), where, "file with certificates")
    data = _read(config.ssl_truststore_location, where)
    password = config.ssl_truststore_password
    if data.startswith((_JKS, _JCEKS)):
        from kcli.security.key_stores import jks

        certificates = jks.read_certificates(data, password, where)
    elif data.startswith(_SEQUENCE):
        from kcli.security.key_stores import pkcs12

        certificates = pkcs12.read_certificates(data, password, where)
    else:
        certificates = pem.certificates(_text(data, where))
    return _not_empty(certificates, where, "trusted certificate")


def _separate_texts(config: SecuritySettings) -> KeyMaterial:
    key, key_where = _separate_text(config, *_KEY)
    chain, chain_where = _separate_text(config, *_CHAIN)
    return _key_material(key, key_where, chain, chain_where, config)


def _separate_text(config: SecuritySettings, inline: str, location: str) -> tuple[str, str]:
    """Return the PEM text of one of these two properties, and the beginning of errors about it."""
    text, path = config.value(inline), config.value(location)
    if text is not None:
        return pem.with_newlines(text.reveal()), inline
    if path is None:
        raise ConfigError(f"{inline} (or {location}) is missing; set the key and its certificates")
    where = f"{location}: {path!r}"
    return _text(_read(path, where), where), where


def _key_material(key: str, key_where: str, chain: str, chain_where: str, config: SecuritySettings) -> KeyMaterial:
    """Return key and certificates from PEM texts, which may be the same text."""
    private_key = _not_empty(pem.private_key(key) or "", key_where, "private key")
    certificates = _not_empty(pem.certificates(chain), chain_where, "certificate of the private key")
    return KeyMaterial(Secret(private_key), certificates, config.ssl_key_password or config.ssl_keystore_password)


def _read(path: str, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}") from None


def _certificates_in(folder: str, where: str) -> str:
    """Return the certificates of all PEM files in a folder, which librdkafka accepts for `ssl.ca.location`."""
    try:
        paths = sorted(entry.path for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}") from None
    return "".join(pem.certificates(_read(path, where).decode("latin-1")) for path in paths)


def _text(data: bytes, where: str) -> str:
    if b"-----BEGIN " not in data:
        raise ConfigError(f"{where} is neither JKS, PKCS12 nor PEM")
    return data.decode("latin-1")  # comments between the blocks may have any encoding


def _not_empty(text: str, where: str, noun: str) -> str:
    if not text:
        raise ConfigError(f"{where} has no {noun}")
    return text
