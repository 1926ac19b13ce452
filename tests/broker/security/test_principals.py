"""Principals of certificates: names as Java's X500Principal.getName() writes them (OpenJDK 17), and mapping rules."""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from kcli.broker.security.principals import PrincipalMapping
from kcli.errors import ConfigError
from kcli.network.certificate import parse_certificate

NOW = datetime.datetime(2026, 1, 1)

# Java's names of certificates with these subjects, from java.security.cert.X509Certificate.
JAVAS_NAMES = [
    (
        'C=DE ST=Bayern L=Mü_nchen O=Acme,_Inc._+_<x>_"q"_#1;_a=b_\\ OU=_Sales_ CN=alice',
        'CN=alice,OU=\\ Sales\\ ,O=Acme\\, Inc. \\+ \\<x\\> \\"q\\" \\#1\\; a\\=b \\\\,L=Mü nchen,ST=Bayern,C=DE',
    ),
    (
        "DC=com DC=example UID=u1 E=a@b.c SN=123 STREET=Main_St TITLE=Dr SURNAME=S CN=#x",
        "CN=\\#x,2.5.4.4=#0c0153,2.5.4.12=#0c024472,STREET=Main St,2.5.4.5=#1303313233,"
        "1.2.840.113549.1.9.1=#16056140622e63,UID=u1,DC=example,DC=com",
    ),
    ("T61O=t61 L=日本 OU=__", "OU=\\ \\ ,L=日本,O=t61"),
    ("CN=back\\slash/slash", "CN=back\\\\slash/slash"),
    ("", ""),
]
OIDS = {
    "C": NameOID.COUNTRY_NAME,
    "CN": NameOID.COMMON_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "E": NameOID.EMAIL_ADDRESS,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "SN": NameOID.SERIAL_NUMBER,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "SURNAME": NameOID.SURNAME,
    "TITLE": NameOID.TITLE,
    "UID": NameOID.USER_ID,
}


def attribute(text: str) -> Any:
    name, _, value = text.partition("=")
    kind = {"_type": _ASN1Type.T61String} if name.startswith("T61") else {}
    return x509.NameAttribute(OIDS[name.removeprefix("T61")], value.replace("_", " "), **kind)


def certificate(subject: Any) -> bytes:
    """Return a certificate in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(x509.Name([attribute("CN=ca")]))
    builder = builder.public_key(key.public_key()).serial_number(7)
    dated = builder.not_valid_before(NOW).not_valid_after(NOW + datetime.timedelta(days=1))
    return dated.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(("subject", "name"), JAVAS_NAMES)
def test_names_are_those_of_java(subject: str, name: str) -> None:
    assert parse_certificate(certificate(x509.Name([attribute(text) for text in subject.split()]))).subject == name


def test_elements_with_several_attributes_keep_them_together() -> None:
    several = x509.RelativeDistinguishedName([attribute("CN=multi"), attribute("OU=ou")])
    subject = x509.Name([several, x509.RelativeDistinguishedName([attribute("O=o")])])
    assert parse_certificate(certificate(subject)).subject == "O=o,OU=ou+CN=multi"  # in the order of DER, as Java


def test_damaged_certificates_are_refused() -> None:
    whole = certificate(x509.Name([attribute("CN=alice")]))
    for damaged in (b"", b"\x30", b"\x30\x80", whole[:20], whole[:-1], b"\x30\x00", b"\x30\x02\x30\x00"):
        with pytest.raises(ValueError, match="not an X\\.509 certificate"):
            parse_certificate(damaged)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        with suppress(ValueError):  # and no other error
            parse_certificate(bytes(changed))


# From the documentation of Kafka (security_authz_ssl) and KIP-371.
@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=alice,O=x", "CN=alice,O=x"),
        ("", "CN=alice", None),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=serviceuser,OU=ServiceUsers,O=Unknown", "serviceuser"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=adminUser,OU=Admin,O=Unknown", None),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", "CN=adminUser,OU=Admin,O=U,C=U", "adminuser@admin"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "O=x,CN=Alice.B", "alice.b"),
        ("RULE:^CN=(.*?),.*$/$1/U , DEFAULT", "CN=alice,O=x", "ALICE"),
        ("RULE:^CN=(.*?),.*$/$1/U , DEFAULT", "O=x", "O=x"),
        ("RULE:^CN=(?<user>.*?),.*$/${user}-user/", "CN=alice,O=x", "alice-user"),
        ("RULE:^CN=(.*)$/a\\/$1\\$/", "CN=b", "a/b$"),
        ("RULE:^CN=[a-z]{1,3},.*$/fixed/", "CN=abc,O=x", "fixed"),
    ],
)  # fmt: skip
def test_first_rule_that_matches_gives_the_user(rules: str, name: str, user: str | None) -> None:
    assert PrincipalMapping(rules).name(name) == user


@pytest.mark.parametrize("rules", ["RULE", "RULE:a/b", "default", "RULE:(/x/", "RULE:a/$1/", "RULE:a/b/X", "DEFAULT;"])
def test_malformed_rules_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
