"""Certificates of the tests: authorities, servers and clients, good and bad, as PEM, PKCS12 and JKS.

The fixture `certificates` of tests/conftest.py makes them once per process. Every store has the password `PASSWORD`.
Keys are of elliptic curves, except `server`'s: they are made in no time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import datetime, timedelta, timezone
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.jvm_archive import locked
from tests.needs import skip_or_fail

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

PASSWORD = "store secret-1"
DAY = timedelta(days=1)
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
EXPIRED_ON = "2021-03-04"


class Identity(NamedTuple):
    """A private key and its certificate; `issuers` is the rest of the chain, without the root."""

    key: RSAPrivateKey | EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()


class Certificates:
    """Files below `folder`, written when asked for.

    Names of identities: `server` (for localhost), `client` (CN=client,O=kcli), `expired`, `not_yet_valid`,
    `other_host`, `by_intermediate` (all of the authority `ca`), `foreign` (of the authority `other_ca`), and
    `self_signed`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authorities: dict[str, Identity] = {}
        self.identities: dict[str, Identity] = {}
        if (folder / "saved").exists():
            self._load()
        else:
            self._make()

    def _make(self) -> None:
        now = datetime.now(timezone.utc)
        self._valid = (now - DAY, now + 30 * DAY)
        self.authorities = {name: self._issue(name.replace("_", " "), ca=True) for name in ("ca", "other_ca")}
        ca = self.authorities["ca"]
        expired_on = datetime.fromisoformat(f"{EXPIRED_ON}T05:06:07+00:00")
        intermediate = self._issue("intermediate", ca=True, issuer=ca)
        self.identities = {
            "server": self._issue("localhost", LOCAL_NAMES, issuer=ca, rsa=True),
            "client": self._issue("client", issuer=ca),
            "expired": self._issue("localhost", LOCAL_NAMES, issuer=ca, valid=(expired_on - 90 * DAY, expired_on)),
            "not_yet_valid": self._issue("localhost", LOCAL_NAMES, issuer=ca, valid=(now + 5 * DAY, now + 9 * DAY)),
            "other_host": self._issue("broker-1.example.com", ("broker-1.example.com", "*.cluster.example"), issuer=ca),
            "by_intermediate": self._issue("localhost", LOCAL_NAMES, issuer=intermediate)._replace(
                issuers=(intermediate.certificate,)
            ),
            "foreign": self._issue("client", LOCAL_NAMES, issuer=self.authorities["other_ca"]),
            "self_signed": self._issue("localhost", LOCAL_NAMES),
        }

    def save(self) -> None:
        """Write the identities into the folder: other processes that make `Certificates` for it use the same ones."""
        for name, identity in {**self.authorities, **self.identities}.items():
            chain = "".join(map(_pem, (identity.certificate, *identity.issuers)))
            self._write(f"{name}.saved", _key_pem(identity) + chain)
        self._write("saved", "\n".join(self.authorities))

    def _load(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        authorities = (self.folder / "saved").read_text().splitlines()
        for file in self.folder.glob("*.saved"):
            first, *issuers = x509.load_pem_x509_certificates(file.read_bytes())
            key = load_pem_private_key(file.read_bytes(), None)
            known = self.authorities if file.stem in authorities else self.identities
            known[file.stem] = Identity(key, first, tuple(issuers))  # type: ignore[arg-type]

    def authority(self, name: str = "ca") -> Path:
        """The PEM file with the certificate of an authority, `ca` or `other_ca`; also of an identity, without key."""
        identity = self.authorities.get(name) or self.identities[name]
        return self._write(f"{name}.crt", _pem(identity.certificate))

    def pem(self, name: str) -> Path:
        """The PEM file with the key (PKCS#8) and the chain of an identity."""
        return self._write(f"{name}.pem", self.key_pem(name) + self.chain_pem(name))

    def key_pem(self, name: str, *, password: str | None = None, traditional: bool = False) -> str:
        """The private key as PEM text: PKCS#8, or the `traditional` form of OpenSSL; encrypted with a password."""
        from cryptography.hazmat.primitives import serialization as to

        form = to.PrivateFormat.TraditionalOpenSSL if traditional else to.PrivateFormat.PKCS8
        encryption = to.BestAvailableEncryption(password.encode()) if password else to.NoEncryption()
        return self.identities[name].key.private_bytes(to.Encoding.PEM, form, encryption).decode()

    def chain_pem(self, name: str) -> str:
        identity = self.identities[name]
        return "".join(map(_pem, (identity.certificate, *identity.issuers)))

    def pkcs12(self, name: str) -> Path:
        """The PKCS12 key store of an identity."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
        from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

        key, certificate, issuers = self.identities[name]
        encryption = BestAvailableEncryption(PASSWORD.encode())
        data = serialize_key_and_certificates(name.encode(), key, certificate, issuers, encryption)
        return self._write(f"{name}.p12", data)

    @cached_property
    def truststore_pkcs12(self) -> Path:
        """The PKCS12 trust store with `ca`, as keytool writes it."""
        return self._imported("trust.p12", "PKCS12")

    @cached_property
    def truststore_jks(self) -> Path:
        """The JKS trust store with `ca`, by keytool."""
        return self._imported("trust.jks", "JKS")

    def jks(self, name: str, *, key_password: str = PASSWORD) -> Path:
        """The JKS key store of an identity, by keytool."""
        source = ["-srckeystore", str(self.pkcs12(name)), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
        alias = ["-srcalias", name, "-srckeypass", PASSWORD, "-destkeypass", key_password]
        file = f"{name}-{len(key_password)}.jks"
        return self._keytool_store(file, "dest", "JKS", "-importkeystore", *source, *alias)

    def _imported(self, file: str, kind: str) -> Path:
        return self._keytool_store(file, "", kind, "-importcert", "-alias", "ca", "-file", str(self.authority()))

    def _keytool_store(self, file: str, role: str, kind: str, *command: str) -> Path:
        """Make a store once. `role` is part of the names of keytool's options for it."""
        path = self.folder / file
        with locked(self.folder / f"{file}.lock"):
            if not path.exists():
                fresh = ["-destkeystore" if role else "-keystore", f"{path}.new", f"-{role}storetype", kind]
                _keytool(*command, "-noprompt", *fresh, f"-{role}storepass", PASSWORD)
                Path(f"{path}.new").rename(path)
        return path

    def _write(self, file: str, content: str | bytes) -> Path:
        path = self.folder / file
        if not path.exists():
            fresh = path.with_name(f"{file}.{os.getpid()}")
            fresh.write_bytes(content.encode() if isinstance(content, str) else content)
            fresh.chmod(0o600)
            fresh.rename(path)  # atomic: other processes use the folder
        return path

    def _issue(
        self,
        common_name: str,
        names: tuple[str, ...] = (),
        *,
        ca: bool = False,
        issuer: Identity | None = None,
        valid: tuple[datetime, datetime] | None = None,
        rsa: bool = False,
    ) -> Identity:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

        key = generate_private_key(65537, 2048) if rsa else ec.generate_private_key(ec.SECP256R1())
        organization = x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "kcli")
        subject = x509.Name([organization, x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
        start, end = valid or self._valid
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.certificate.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        return Identity(key, builder.sign(issuer.key if issuer else key, hashes.SHA256()))


def make_certificates(folder: Path) -> Certificates:
    """Make the certificates; skip the test without `cryptography`."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        skip_or_fail("the Python package `cryptography` is not installed")
    return Certificates(folder)


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(identity: Identity) -> str:
    from cryptography.hazmat.primitives import serialization as to

    return identity.key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()).decode()


def _keytool(*arguments: str) -> None:
    keytool = shutil.which("keytool") or skip_or_fail("there is no `keytool` on the PATH")
    done = subprocess.run([keytool, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
