"""Key stores and trust stores of each format, made by `cryptography`, OpenSSL and Java's keytool.

The files below `stores` were made by `openssl` 3.0 and `keytool` 17 from one key and its self-signed certificate. The
stores have the password `store-password`, the encrypted keys and the one in client.jks `key-password`.
"""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ConfigError
from kcli.security.key_stores import KeyMaterial, jks, load_key_store, load_trust_store
from kcli.security.security_settings import SecuritySettings
from tests.certificates import PASSWORD, Certificates

STORES = Path(__file__).parent / "stores"
CERTIFICATE = (STORES / "certificate.pem").read_text()
STORE, KEY = "store-password", "key-password"


def settings(**properties: object) -> SecuritySettings:
    return SecuritySettings.from_properties(
        {name.replace("_", "."): str(value) for name, value in properties.items() if value is not None}
    )


def key_of(**properties: object) -> KeyMaterial:
    material = load_key_store(settings(**properties))
    assert material is not None
    return material


def trusted(file: str, password: str | None) -> str | None:
    return load_trust_store(settings(ssl_truststore_location=STORES / file, ssl_truststore_password=password))


def private_number(pem: str) -> object:
    """The number of a private key, to compare keys in different encodings."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any = load_pem_private_key(pem.encode(), None)
    return key.private_numbers()


def test_nothing_configured_is_no_store() -> None:
    assert load_key_store(settings()) is None
    assert load_trust_store(settings()) is None


@pytest.mark.parametrize("kind", ["pem", "pkcs12", "jks"])
@pytest.mark.parametrize("name", ["server", "by_intermediate"])
def test_each_format_has_the_same_key_and_chain(certificates: Certificates, kind: str, name: str) -> None:
    path = getattr(certificates, kind)(name)
    material = key_of(ssl_keystore_location=path, ssl_keystore_password=PASSWORD)
    assert material.private_key_pem.reveal() == certificates.key_pem(name)
    assert material.certificates_pem == certificates.chain_pem(name)


@pytest.mark.parametrize("kind", ["pem", "pkcs12", "jks"])
def test_each_format_has_the_trusted_certificate(certificates: Certificates, kind: str) -> None:
    path = certificates.authority() if kind == "pem" else getattr(certificates, f"truststore_{kind}")
    found = load_trust_store(settings(ssl_truststore_location=path, ssl_truststore_password=PASSWORD))
    assert found == certificates.authority().read_text()


def test_a_jks_key_store_is_read_without_other_packages() -> None:
    material = key_of(ssl_keystore_location=STORES / "client.jks", ssl_keystore_password=STORE, ssl_key_password=KEY)
    assert material.certificates_pem == CERTIFICATE
    assert "BEGIN PRIVATE KEY" in material.private_key_pem.reveal()


def test_the_jks_key_is_the_one_that_went_in(certificates: Certificates) -> None:
    material = key_of(ssl_keystore_location=STORES / "client.jks", ssl_keystore_password=STORE, ssl_key_password=KEY)
    assert private_number(material.private_key_pem.reveal()) == private_number((STORES / "key.pem").read_text())


@pytest.mark.parametrize("file", ["trust.jks", "trust.jceks"])
@pytest.mark.parametrize("password", [None, STORE])
def test_a_java_trust_store_is_read_with_and_without_its_password(file: str, password: str | None) -> None:
    assert trusted(file, password) == CERTIFICATE


def test_a_folder_has_the_certificates_of_its_pem_files(tmp_path: Path) -> None:
    for name in ("a.pem", "b.crt"):
        (tmp_path / name).write_text(f"# {name}\n{CERTIFICATE}")
    (tmp_path / "key.pem").write_bytes((STORES / "key.pem").read_bytes())
    (tmp_path / "folder").mkdir()
    assert load_trust_store(settings(ssl_truststore_location=tmp_path)) == CERTIFICATE + CERTIFICATE


def test_the_own_certificate_of_a_key_is_trusted_as_java_does() -> None:
    assert trusted("client.jks", STORE) == CERTIFICATE


@pytest.mark.parametrize("file", ["trust.p12", "nokeys.p12", "legacy.p12"])
def test_a_pkcs12_trust_store_is_read_whoever_wrote_it(certificates: Certificates, file: str) -> None:
    assert trusted(file, STORE) == CERTIFICATE


@pytest.mark.parametrize(
    ("file", "password", "key_password", "error"),
    [
        ("client.jks", None, None, "ssl.keystore.password is missing: the key store needs its password"),
        ("client.jks", "wrong", KEY, "ssl.keystore.password is wrong, or the key store is damaged"),
        ("client.jks", STORE, None, "ssl.key.password is missing: it differs from the store's"),
        ("client.jks", STORE, "wrong", "ssl.key.password is wrong"),
        ("trust.jks", STORE, None, "has no private key"),
        ("client.jceks", STORE, None, "is a JCEKS store, whose keys kcli does not read; convert it with keytool"),
        ("legacy.p12", None, None, "ssl.keystore.password is missing: the PKCS12 store needs its password"),
        ("legacy.p12", "wrong", None, "ssl.keystore.password is wrong, or the PKCS12 store is damaged"),
        ("trust.p12", STORE, None, "has no private key with its certificate"),
        ("certificate.pem", None, None, "has no private key"),
        ("key.pem", None, None, "has no certificate of the private key"),
    ],
)
def test_a_key_store_that_cannot_be_used_says_which_property_is_wrong(
    certificates: Certificates, file: str, password: str | None, key_password: str | None, error: str
) -> None:
    path = STORES / file
    config = settings(ssl_keystore_location=path, ssl_keystore_password=password, ssl_key_password=key_password)
    with pytest.raises(ConfigError) as raised:
        load_key_store(config)
    assert error in str(raised.value)
    assert str(path) in str(raised.value)
    assert not any(secret in str(raised.value) for secret in (STORE, KEY, "'wrong'"))


@pytest.mark.parametrize(
    ("file", "password", "error"),
    [
        ("trust.jks", "wrong", "ssl.truststore.password is wrong, or the key store is damaged"),
        ("trust.p12", None, "ssl.truststore.password is missing: the PKCS12 store needs its password"),
        ("nokeys.p12", None, "ssl.truststore.password is missing: the PKCS12 store needs its password"),
        ("trust.p12", "wrong", "ssl.truststore.password is wrong, or the PKCS12 store is damaged"),
        ("key.pem", None, "has no trusted certificate"),
        ("../test_key_stores.py", None, "is neither JKS, PKCS12 nor PEM"),
        ("missing.pem", None, "cannot be read: No such file or directory"),
        ("../../runbooks", None, "has no file with certificates"),
    ],
)
def test_a_trust_store_that_cannot_be_used_says_which_property_is_wrong(
    certificates: Certificates, file: str, password: str | None, error: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        trusted(file, password)
    assert error in str(raised.value)
    assert str(STORES / file) in str(raised.value)


@pytest.mark.parametrize("file", ["client.jks", "trust.jks"])
def test_a_damaged_jks_store_is_refused(file: str) -> None:
    data = (STORES / file).read_bytes()
    for position in range(len(data)):
        with pytest.raises(ConfigError):
            jks.read_certificates(data[:position], None, "ssl.truststore.location: 'x'")
    for position in range(4, len(data)):
        changed = data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]
        with pytest.raises(ConfigError):
            jks.read_certificates(changed, settings(ssl_key_password=STORE).ssl_key_password, "ssl.truststore.location")


def test_pkcs12_without_the_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(ConfigError) as raised:
        trusted("trust.p12", STORE)
    assert str(raised.value) == (
        f"ssl.truststore.location: '{STORES / 'trust.p12'}' is a PKCS12 store; to read it, install the package"
        " cryptography: pip install 'kcli-kafka[tls]'"
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pem: pem,
        lambda pem: pem.replace("\n", "\\n"),
        lambda pem: pem.replace("\n", " "),
        lambda pem: pem.replace("\n", "\r\n"),
        lambda pem: f"a comment\n{pem}",
    ],
)
@pytest.mark.parametrize("file", ["key.pem", "key-md5-des.pem", "key-traditional.pem"])
def test_inline_texts_keep_their_meaning_without_newlines(spoil: Any, file: str) -> None:
    key = (STORES / file).read_text()
    material = key_of(ssl_keystore_key=spoil(key), ssl_keystore_certificate_chain=spoil(CERTIFICATE + CERTIFICATE))
    assert material.private_key_pem.reveal() == key
    assert material.certificates_pem == CERTIFICATE + CERTIFICATE
    assert load_trust_store(settings(ssl_truststore_certificates=spoil(CERTIFICATE))) == CERTIFICATE


def test_a_text_on_one_line_without_blanks_is_read_too() -> None:
    one_line = CERTIFICATE.replace("\n", "")
    assert load_trust_store(settings(ssl_truststore_certificates=one_line + one_line)) == CERTIFICATE + CERTIFICATE


def test_key_and_certificate_may_be_in_files_of_their_own() -> None:
    material = key_of(ssl_key_location=STORES / "key.pem", ssl_certificate_location=STORES / "certificate.pem")
    assert material.private_key_pem.reveal() == (STORES / "key.pem").read_text()
    assert material.certificates_pem == CERTIFICATE


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"ssl_keystore_key": "x"}, "ssl.keystore.key has no private key"),
        (
            {"ssl_key_location": STORES / "key.pem"},
            "ssl.keystore.certificate.chain (or ssl.certificate.location) is missing; set the key and its certificates",
        ),
        (
            {"ssl_certificate_location": STORES / "certificate.pem"},
            "ssl.keystore.key (or ssl.key.location) is missing; set the key and its certificates",
        ),
        (
            {"ssl_keystore_location": "x", "ssl_keystore_key": "y"},
            "set ssl.keystore.location or ssl.keystore.key, not both",
        ),
    ],
)
def test_an_incomplete_or_contradicting_key_is_refused(properties: dict[str, object], error: str) -> None:
    if "ssl_keystore_key" in properties and len(properties) == 1:
        properties["ssl_keystore_certificate_chain"] = CERTIFICATE
    with pytest.raises(ConfigError) as raised:
        load_key_store(settings(**properties))
    assert str(raised.value) == error


def test_a_contradicting_trust_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        load_trust_store(settings(ssl_truststore_location="x", ssl_truststore_certificates=CERTIFICATE))
