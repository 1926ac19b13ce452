"""The fields of certificates, compared with those that `cryptography` reads."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.network.certificate import parse_certificate
from tests.certificates import EXPIRED_ON, Certificates

NAMES = ["ca", "other_ca", "server", "client", "expired", "not_yet_valid", "other_host", "by_intermediate"]


@pytest.mark.parametrize("name", NAMES)
def test_fields_are_those_of_another_reader(certificates: Certificates, name: str) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    identity = certificates.authorities.get(name) or certificates.identities[name]
    expected = identity.certificate
    found = parse_certificate(expected.public_bytes(Encoding.DER))
    assert found.subject == expected.subject.rfc4514_string()
    assert found.issuer == expected.issuer.rfc4514_string()
    assert found.not_before == expected.not_valid_before_utc
    assert found.not_after == expected.not_valid_after_utc


def test_names_are_the_alternative_names_or_else_the_common_name(certificates: Certificates) -> None:
    def names(name: str) -> tuple[str, ...]:
        return parse_certificate(ssl.PEM_cert_to_DER_cert(certificates.authority(name).read_text())).names

    assert names("server") == ("localhost", "127.0.0.1", "::1")
    assert names("other_host") == ("broker-1.example.com", "*.cluster.example")
    assert names("client") == ("client",)


def test_dates_are_in_utc(certificates: Certificates) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.authority("expired").read_text())
    assert parse_certificate(der).not_after.isoformat() == f"{EXPIRED_ON}T05:06:07+00:00"


def test_special_characters_and_unusual_attributes_are_written_as_java_does(certificates: Certificates) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(x509.NameOID.EMAIL_ADDRESS, "a@b.example"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Müller, Söhne + Co"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" * 60 + " y"),
        ]
    )
    start = certificates.identities["server"].certificate.not_valid_before_utc
    end = certificates.identities["server"].certificate.not_valid_after_utc
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    signed = builder.serial_number(1).not_valid_before(start).not_valid_after(end).sign(key, hashes.SHA256())
    found = parse_certificate(signed.public_bytes(Encoding.DER))
    email = "1.2.840.113549.1.9.1=#160b6140622e6578616d706c65"
    assert found.subject == f"CN={'x' * 60} y,O=Müller\\, Söhne \\+ Co,{email},C=DE"


@given(st.binary(max_size=40))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="bytes are not an X"):
        parse_certificate(data)


def test_a_changed_certificate_is_parsed_or_refused(certificates: Certificates) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.authority("server").read_text())
    for position in range(len(der)):
        for value in (0, 0x30, 0x80, 0xFF):
            changed = der[:position] + bytes([value]) + der[position + 1 :]
            try:
                parse_certificate(changed)
            except ValueError:
                continue
