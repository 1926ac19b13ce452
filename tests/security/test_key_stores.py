"""Key stores and trust stores of each format, made by `cryptography` and by Java's keytool."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import ConfigError
from kcli.security.key_stores import KeyMaterial, load_key_store, load_trust_store
from kcli.security.settings import SecuritySettings
from tests.certificates import PASSWORD, Certificates


def settings(**properties: object) -> SecuritySettings:
    return SecuritySettings.from_properties(
        {name.replace("_", "."): str(value) for name, value in properties.items() if value is not None}
    )


def key_of(**properties: object) -> KeyMaterial:
    material = load_key_store(settings(**properties))
    assert material is not None
    return material


def test_nothing_configured_is_no_store() -> None:
    assert load_key_store(settings()) is None
    assert load_trust_store(settings()) is None


@pytest.mark.parametrize("kind", ["pem", "pkcs12", "jks"])
@pytest.mark.parametrize("name", ["server", "client", "by_intermediate"])
def test_each_format_has_the_same_key_and_chain(certificates: Certificates, kind: str, name: str) -> None:
    path = getattr(certificates, kind)(name)
    material = key_of(ssl_keystore_location=path, ssl_keystore_password=PASSWORD)
    assert material.private_key_pem is not None
    assert material.private_key_pem.reveal() == certificates.key_pem(name)
    assert material.certificates_pem == certificates.chain_pem(name)


@pytest.mark.parametrize("kind", ["pem", "pkcs12", "jks"])
def test_each_format_has_the_trusted_certificate(certificates: Certificates, kind: str) -> None:
    path = certificates.authority() if kind == "pem" else getattr(certificates, f"truststore_{kind}")
    trusted = load_trust_store(settings(ssl_truststore_location=path, ssl_truststore_password=PASSWORD))
    assert trusted == certificates.authority().read_text()


def test_a_missing_file_names_the_property(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: '.*none' cannot be read: No such file"):
        load_trust_store(settings(ssl_truststore_location=tmp_path / "none"))
