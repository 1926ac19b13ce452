"""JKS, the key store format of Java before PKCS12, read without another package.

Source: the layout in OpenJDK's documentation of `sun.security.provider.JavaKeyStore`, and the keys' encryption as
described for the object identifier 1.3.6.1.4.1.42.2.17.1.1. A store is a magic number, a version, entries, and a SHA-1
digest over the password and all bytes before it. Certificates are not encrypted, so a trust store can be read without
its password; the digest is then not checked.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security.key_stores.pem import encode

_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
# The DER encoding of AlgorithmIdentifier {1.3.6.1.4.1.42.2.17.1.1, NULL}.
_KEY_ALGORITHM = bytes.fromhex("300e060a2b060104012a021101010500")


class _Entry(NamedTuple):
    """A key with its chain, or one trusted certificate without key. Certificates in DER."""

    key: bytes | None
    certificates: tuple[bytes, ...]


def read_key(data: bytes, password: Secret | None, key_password: Secret | None, where: str) -> tuple[Secret, str]:
    """Return the first private key and its certificates as PEM text. `where` begins the errors: property and file."""
    name = where.partition(".location")[0]
    if not password:
        raise ConfigError(f"{name}.password is missing: the key store needs its password ({where})")
    for entry in _entries(data, password, where):
        if entry.key is not None:
            key = _decrypt(entry.key, key_password or password, where, given=key_password is not None)
            return Secret(encode("PRIVATE KEY", key)), _pem(entry.certificates)
    raise ConfigError(f"{where} has no private key")


def read_certificates(data: bytes, password: Secret | None, where: str) -> str:
    """Return the trusted certificates as PEM text, with the own ones of keys, as Java does. `where` begins errors."""
    return "".join(_pem(entry.certificates[:1]) for entry in _entries(data, password, where))


def _entries(data: bytes, password: Secret | None, where: str) -> list[_Entry]:
    try:
        entries, end = _parse(data)
    except ValueError:
        raise ConfigError(f"{where} is damaged: its entries are not those of a Java key store") from None
    if password:
        import hashlib

        digest = hashlib.sha1(_utf16(password) + b"Mighty Aphrodite" + data[:end]).digest()
        if digest != data[end:]:
            name = where.partition(".location")[0]
            raise ConfigError(f"{name}.password is wrong, or the key store is damaged ({where})")
    return entries


def _parse(data: bytes) -> tuple[list[_Entry], int]:
    """Return the entries and the position of the digest. ValueError for other bytes."""
    reader = _Reader(data)
    reader.take(4)
    version = reader.integer()
    if version not in (1, 2):
        raise ValueError(f"version {version}")
    entries = []
    for _ in range(reader.integer()):
        kind = reader.integer()
        reader.text()  # alias
        reader.take(8)  # time of creation
        if kind == _KEY:
            key = reader.block()
            entries.append(_Entry(key, tuple(reader.certificate(version) for _ in range(reader.integer()))))
        elif kind == _CERTIFICATE:
            entries.append(_Entry(None, (reader.certificate(version),)))
        else:
            raise ValueError(f"kind of entry {kind}")
    if len(data) != reader.position + _DIGEST_BYTES:
        raise ValueError("the digest is not where the entries end")
    return entries, reader.position


class _Reader:
    """Big-endian fields of a store, from the start on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise ValueError("the store ends too soon")
        taken, self.position = self._data[self.position : end], end
        return taken

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def block(self) -> bytes:
        return self.take(self.integer())

    def certificate(self, version: int) -> bytes:
        if version == 2 and self.text() != b"X.509":
            raise ValueError("a certificate is not of the type X.509")
        return self.block()


def _decrypt(encrypted: bytes, password: Secret, where: str, *, given: bool) -> bytes:
    """Return the key in DER (PKCS#8): SHA-1 of the password and the last 20 bytes gives the next 20 of the key."""
    import hashlib

    start = encrypted.find(_KEY_ALGORITHM, 0, 32)
    if start < 0:
        raise ConfigError(
            f"{where} is a JCEKS store, whose keys kcli does not read; convert it with keytool -importkeystore"
            " -deststoretype PKCS12"
        )
    # An OCTET STRING up to the end: the salt, the key combined with the key stream, and a digest of the key.
    body = encrypted[start + len(_KEY_ALGORITHM) + 1 :]
    long_form = body[0] - 0x80 if body[0] >= 0x80 else 0
    body = body[1 + long_form :]
    secret = _utf16(password)
    previous, cipher, check = body[:_DIGEST_BYTES], body[_DIGEST_BYTES:-_DIGEST_BYTES], body[-_DIGEST_BYTES:]
    stream = b""
    while len(stream) < len(cipher):
        previous = hashlib.sha1(secret + previous).digest()
        stream += previous
    key = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if hashlib.sha1(secret + key).digest() != check:
        name = "ssl.key.password is wrong" if given else "ssl.key.password is missing: it differs from the store's"
        raise ConfigError(f"{name} ({where})")
    return key


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")


def _pem(certificates: tuple[bytes, ...]) -> str:
    return "".join(encode("CERTIFICATE", certificate) for certificate in certificates)
