"""TLS contexts: versions, cipher suites, trust and the own key, as the properties say."""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.errors import ConfigError
from kcli.security import tls
from kcli.security.tls import TLS13_SUITES, client_context, openssl_ciphers, openssl_name, server_context
from tests.certificates import PASSWORD, Certificates
from tests.needs import skip_or_fail
from tests.security.test_key_stores import KEY, STORES, settings

TRUST = {"ssl_truststore_location": STORES / "certificate.pem"}
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> tuple[ssl.SSLObject, ...]:
    """Connect two contexts in memory; return both ends. Raise the error of the client, or else of the server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    done = set()
    for _ in range(10):
        for end in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                done.add(end)
    assert len(done) == 2
    with contextlib.suppress(ssl.SSLWantReadError):
        ours.read(1)  # TLS 1.3 reports a refused client certificate here
    return ours, theirs


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        ({}, (V12, V13)),
        ({"ssl_protocol": "TLSv1.2"}, (V12, V12)),
        ({"ssl_protocol": "TLS"}, (V12, V13)),
        ({"ssl_enabled_protocols": "TLSv1.3"}, (V13, V13)),
        ({"ssl_enabled_protocols": "TLSv1.3,TLSv1.2"}, (V12, V13)),
        ({"ssl_enabled_protocols": "TLSv1.2,TLSv1.1,TLSv1"}, (V12, V12)),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, (V13, V13)),
        ({"ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, (V12, V12)),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256,ECDHE-RSA-AES128-GCM-SHA256"}, (V12, V13)),
    ],
)
def test_versions_follow_from_protocols_and_suites(properties: dict[str, str], versions: tuple[object, ...]) -> None:
    context = client_context(settings(**TRUST, **properties))
    assert (context.minimum_version, context.maximum_version) == versions


def test_cipher_suites_of_tls_12_are_exactly_the_given_ones() -> None:
    names = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    context = client_context(settings(**TRUST, ssl_cipher_suites=names))
    older = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"]
    assert older == ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"]


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (
            {"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.3"},
            "ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites have no TLS version in common",
        ),
        (
            {"ssl_enabled_protocols": "TLSv1.2", "ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"},
            "ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites have no TLS version in common",
        ),
        (
            {"ssl_cipher_suites": "TLS_RSA_WITH_SEVENFOLD_CBC_SHA"},
            "ssl.cipher.suites: OpenSSL supports none of the suites",
        ),
    ],
)
def test_properties_that_leave_nothing_are_refused(properties: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        client_context(settings(**TRUST, **properties))
    assert str(raised.value) == error


def test_a_trust_store_replaces_the_certificates_of_the_system() -> None:
    assert client_context(settings(**TRUST)).cert_store_stats()["x509"] == 1


def test_the_host_name_is_checked_unless_the_property_is_empty() -> None:
    assert client_context(settings(**TRUST)).check_hostname
    assert client_context(settings(**TRUST, ssl_endpoint_identification_algorithm="HTTPS")).check_hostname
    unchecked = client_context(settings(**TRUST, ssl_endpoint_identification_algorithm=""))
    assert not unchecked.check_hostname
    assert unchecked.verify_mode == ssl.CERT_REQUIRED


def test_verification_may_be_switched_off_as_in_librdkafka(certificates: Certificates) -> None:
    server = server_context(settings(ssl_keystore_location=certificates.pem("self_signed")), "none")
    handshake(client_context(settings(enable_ssl_certificate_verification="false")), server, "any.example")


@pytest.mark.parametrize("name", ["server", "by_intermediate", "self_signed"])
def test_a_certificate_that_is_itself_trusted_needs_no_issuer(certificates: Certificates, name: str) -> None:
    server = server_context(settings(ssl_keystore_location=certificates.pem(name)), "none")
    handshake(client_context(settings(ssl_truststore_location=certificates.authority(name))), server)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_names_and_addresses_of_the_certificate_are_accepted(certificates: Certificates, host: str) -> None:
    server = server_context(settings(ssl_keystore_location=certificates.pem("server")), "none")
    handshake(client_context(settings(ssl_truststore_location=certificates.authority())), server, host)


@pytest.mark.parametrize("host", ["other.example", "127.0.0.2"])
def test_another_host_is_refused(certificates: Certificates, host: str) -> None:
    server = server_context(settings(ssl_keystore_location=certificates.pem("server")), "none")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client_context(settings(ssl_truststore_location=certificates.authority())), server, host)


@pytest.mark.parametrize("kind", ["pem", "pkcs12"])
def test_a_client_certificate_reaches_the_server(certificates: Certificates, kind: str) -> None:
    authority = certificates.authority()
    server = server_context(
        settings(ssl_keystore_location=certificates.pem("server"), ssl_truststore_location=authority), "required"
    )
    path = getattr(certificates, kind)("client")
    password = PASSWORD if kind == "pkcs12" else None
    client = client_context(
        settings(ssl_truststore_location=authority, ssl_keystore_location=path, ssl_keystore_password=password)
    )
    _, theirs = handshake(client, server)
    der = theirs.getpeercert(binary_form=True)
    assert der is not None
    assert ssl.DER_cert_to_PEM_cert(der) == certificates.chain_pem("client")


@pytest.mark.parametrize(("client_auth", "accepted"), [("none", True), ("requested", True), ("required", False)])
def test_a_missing_client_certificate_matters_only_if_required(
    certificates: Certificates, client_auth: str, accepted: bool
) -> None:
    authority = certificates.authority()
    server = server_context(
        settings(ssl_keystore_location=certificates.pem("server"), ssl_truststore_location=authority), client_auth
    )
    client = client_context(settings(ssl_truststore_location=authority))
    if accepted:
        handshake(client, server)
    else:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(client, server)


def test_a_listener_without_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location is missing; a listener with TLS needs a key"):
        server_context(settings(), "none")


def with_key(file: str, password: str | None) -> ssl.SSLContext:
    properties = {"ssl_key_location": STORES / file, "ssl_certificate_location": STORES / "certificate.pem"}
    return client_context(settings(**TRUST, **properties, ssl_key_password=password))


@pytest.mark.parametrize("file", ["key.pem", "key-traditional.pem"])
def test_openssl_decrypts_keys_by_itself(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "decrypted", None)
    with_key(file, KEY)


@pytest.mark.parametrize("file", ["key-md5-des.pem", "key-rc2.pem"])
def test_keys_with_an_old_encryption_are_decrypted_by_cryptography(certificates: Certificates, file: str) -> None:
    with_key(file, KEY)


@pytest.mark.parametrize("traditional", [False, True])
def test_keys_with_a_modern_encryption_are_read(certificates: Certificates, tmp_path: Path, traditional: bool) -> None:
    (tmp_path / "key.pem").write_text(certificates.key_pem("server", password="pässword", traditional=traditional))
    (tmp_path / "chain.pem").write_text(certificates.chain_pem("server"))
    properties = {"ssl_key_location": tmp_path / "key.pem", "ssl_certificate_location": tmp_path / "chain.pem"}
    client_context(settings(**TRUST, **properties, ssl_key_password="pässword"))


@pytest.mark.parametrize(
    ("file", "password", "error"),
    [
        ("key-traditional.pem", None, "ssl.key.password is missing: the private key is encrypted"),
        ("key-traditional.pem", "wrong", "ssl.key.password is wrong, or the private key is damaged"),
        ("key-md5-des.pem", "wrong", "ssl.key.password is wrong, or the private key is damaged"),
    ],
)
def test_a_key_that_stays_encrypted_is_refused_without_a_prompt(
    certificates: Certificates, file: str, password: str | None, error: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        with_key(file, password)
    assert str(raised.value) == error


def test_a_key_of_another_certificate_is_refused(certificates: Certificates) -> None:
    properties = {"ssl_key_location": STORES / "key.pem", "ssl_certificate_location": certificates.authority("client")}
    with pytest.raises(ConfigError) as raised:
        client_context(settings(**TRUST, **properties))
    assert str(raised.value) == (
        "ssl.keystore: the private key does not belong to the first certificate; put its own certificate first"
    )


def test_damaged_texts_are_refused_with_their_property(tmp_path: Path) -> None:
    text = (STORES / "certificate.pem").read_text()
    damaged = text[:100] + "!!" + text[102:]
    with pytest.raises(ConfigError) as raised:
        client_context(settings(ssl_truststore_certificates=damaged))
    assert str(raised.value) == "ssl.truststore.certificates: a certificate is damaged"
    key = (STORES / "key.pem").read_text()
    with pytest.raises(ConfigError) as raised:
        client_context(
            settings(**TRUST, ssl_keystore_key=key[:60] + "!!" + key[62:], ssl_keystore_certificate_chain=text)
        )
    assert str(raised.value) == (
        "ssl.keystore: the private key or its certificate is damaged, or of a kind that OpenSSL does not know"
    )


def test_the_key_reaches_openssl_through_pipes_where_memory_files_do_not_exist(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    chain = certificates.chain_pem("client") + certificates.chain_pem("server") * 60  # more than a pipe holds
    properties = {"ssl_keystore_key": certificates.key_pem("client"), "ssl_keystore_certificate_chain": chain}
    client_context(settings(**TRUST, **properties))


def test_a_java_key_is_loaded_without_other_packages_and_without_writing_a_file() -> None:
    program = (
        "import sys; opened = []\n"
        "from tests.security.test_key_stores import KEY, STORE, STORES, settings\n"
        "from tests.security.test_tls import TRUST, client_context\n"
        "sys.addaudithook(lambda event, args: opened.append(args) if event == 'open' else None)\n"
        "client_context(settings(**TRUST, ssl_keystore_location=STORES / 'client.jks', ssl_keystore_password=STORE,"
        " ssl_key_password=KEY))\n"
        "assert any('client.jks' in str(path) for path, mode, flags in opened)\n"
        "written = [path for path, mode, flags in opened if isinstance(path, str) and flags & 3]\n"
        "assert not written, written\n"
        "assert not any(name.startswith('cryptography') for name in sys.modules)\n"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_name_with_certificates_is_translated() -> None:
    openssl = shutil.which("openssl") or skip_or_fail("there is no `openssl` on the PATH")
    listed = subprocess.run(
        [openssl, "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"], capture_output=True, timeout=120
    )
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
