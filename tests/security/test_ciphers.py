"""Names of cipher suites, compared with the table that OpenSSL prints."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from kcli.errors import ConfigError
from kcli.security.ciphers import TLS13_SUITES, openssl_ciphers, openssl_name
from tests.needs import skip_or_fail


def test_every_name_with_certificates_is_translated() -> None:
    openssl = shutil.which("openssl") or skip_or_fail("there is no `openssl` on the PATH")
    listed = subprocess.run([openssl, "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"], capture_output=True)
    checked = 0
    for line in listed.stdout.decode().splitlines():
        iana, _, name = line.split()[:3]
        if iana in TLS13_SUITES or any(word in iana for word in ("anon", "PSK", "SRP")):  # these without certificates
            continue
        assert openssl_name(iana) == name
        checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
    ],
)
def test_names_of_java_become_those_of_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl


def test_suites_are_separated_by_version_and_openssl_lists_stay() -> None:
    suites = openssl_ciphers(["TLS_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA", "HIGH:!aNULL"])
    assert suites.tls13 == ("TLS_AES_256_GCM_SHA384",)
    assert suites.older == "AES128-SHA:HIGH:!aNULL"


@pytest.mark.parametrize("name", ["TLS_NONSENSE", "TLS_ECDHE_RSA_WITH_aes"])
def test_an_unknown_name_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"ssl.cipher.suites: '{name}' is not the name of a cipher suite"):
        openssl_ciphers([name])


def test_suites_of_tls_13_are_those_of_openssl() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    listed = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"}
    assert listed
    assert listed <= set(TLS13_SUITES)
