"""Certificates of an embedded broker and its clients: an authority of its own, made once per process.

They are for tests and demos: valid for a month, for the names of this machine's loopback.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError

if TYPE_CHECKING:
    from cryptography import x509

_VALIDITY = timedelta(days=30)
_CLOCK_SKEW = timedelta(days=1)
_NAMES, _ADDRESSES = ("localhost",), ("127.0.0.1", "::1")


class Certificate(NamedTuple):
    """A private key (PKCS#8) and its certificate, as PEM texts."""

    key_pem: str
    certificate_pem: str


class Authority:
    """A certificate authority. KcliError without the package cryptography."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise KcliError(
                "certificates need the Python package cryptography: pip install 'kcli-kafka[tls]'"
            ) from None
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("kcli embedded broker CA")
        self.certificate_pem = _pem(self._sign(self._name, self._key.public_key(), is_authority=True))

    def server(self) -> Certificate:
        """Return a certificate for localhost, 127.0.0.1 and ::1."""
        return self._issue("localhost", is_server=True)

    def client(self, user: str) -> Certificate:
        """Return a certificate with the name `CN=user`."""
        return self._issue(user, is_server=False)

    def _issue(self, common_name: str, *, is_server: bool) -> Certificate:
        from cryptography.hazmat.primitives import serialization as to
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_subject(common_name), key.public_key(), is_server=is_server)
        pem = key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()).decode()
        return Certificate(pem, _pem(certificate))

    def _sign(
        self, subject: x509.Name, public_key: object, *, is_authority: bool = False, is_server: bool = False
    ) -> x509.Certificate:
        from ipaddress import ip_address

        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.now(timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _VALIDITY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if is_server:
            names = [x509.DNSName(name) for name in _NAMES]
            addresses = [x509.IPAddress(ip_address(address)) for address in _ADDRESSES]
            builder = builder.add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


@cache
def authority() -> Authority:
    """Return the authority of this process."""
    return Authority()


@cache
def server_certificate() -> Certificate:
    """Return the certificate of the embedded brokers of this process."""
    return authority().server()


@cache
def client_certificate(user: str) -> Certificate:
    """Return the certificate of a user of the embedded brokers of this process."""
    return authority().client(user)


def _subject(common_name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
