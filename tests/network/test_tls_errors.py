"""Sentences for failed TLS connections, with Python's own TLS server and with servers that send other bytes."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from kcli.network.tls_errors import refused_certificate, tls_error
from tests.certificates import EXPIRED_ON, Certificates
from tests.network.harness import SocketPeer
from tests.network.test_tls_transport import TlsHarness, echo

MISSING_CERTIFICATE = "the broker requires a client certificate that it trusts; set ssl.keystore.location"


@pytest.fixture
def harness(certificates: Certificates) -> Iterator[TlsHarness]:
    harness = TlsHarness(certificates)
    yield harness
    harness.close()


def failure(harness: TlsHarness) -> str:
    """Return why the connection failed, without the name of the other side; send a request if it opens at first."""
    sent = False

    def ended() -> bool:
        nonlocal sent
        if harness.connected and not sent and harness.selector.is_connected("1"):
            harness.selector.send("1", [b"a request"])
            sent = True
        return bool(harness.disconnected)

    harness.poll_until(ended)
    start, separator, sentence = harness.disconnected["1"].partition(" failed: ")
    assert separator, harness.disconnected["1"]
    assert start.startswith("TLS with 127.0.0.1:")
    assert "\n" not in sentence
    return sentence


def refused(harness: TlsHarness) -> str:
    """Return the sentence of a failure that a new connection would have again."""
    found: set[str] = set()
    poll = harness.selector.poll

    def collect(timeout_ms: float) -> None:
        poll(timeout_ms)
        found.update(harness.selector.refused)

    harness.selector.poll = collect  # type: ignore[method-assign]
    sentence = failure(harness)
    assert found == {"1"}
    return sentence


def connect_to(harness: TlsHarness, name: str, **properties: str) -> None:
    """Connect to a server with this certificate, which also answers the connection that fetches the certificate."""
    for _ in range(2):
        harness.serve(harness.server(name), echo)
    harness.connect_client(harness.client(**properties))


def test_an_expired_certificate_has_its_date(harness: TlsHarness) -> None:
    connect_to(harness, "expired")
    assert refused(harness) == f"the broker's certificate expired on {EXPIRED_ON} 05:06:07 UTC; renew it on the broker"


def test_a_certificate_of_the_future_has_its_date(harness: TlsHarness) -> None:
    connect_to(harness, "not_yet_valid")
    start = harness.certificates.identities["not_yet_valid"].certificate.not_valid_before_utc
    assert refused(harness) == (
        f"the broker's certificate is not yet valid before {start:%Y-%m-%d %H:%M:%S} UTC;"
        " check the clocks of both machines"
    )


def test_a_wrong_host_has_the_names_of_the_certificate(harness: TlsHarness) -> None:
    connect_to(harness, "other_host")
    assert refused(harness) == (
        "the broker's certificate is not for 'localhost', only for broker-1.example.com, *.cluster.example; connect by"
        " a name that it has, or accept any with ssl.endpoint.identification.algorithm="
    )


def test_an_unknown_issuer_is_named(harness: TlsHarness) -> None:
    connect_to(harness, "foreign")
    assert refused(harness) == (
        "the issuer 'CN=other ca,O=kcli' of the broker's certificate is not trusted;"
        " set ssl.truststore.location to a store with its certificate"
    )


def test_a_self_signed_certificate_is_told_apart(harness: TlsHarness) -> None:
    connect_to(harness, "self_signed")
    assert refused(harness) == (
        "the broker's certificate is self-signed and not trusted;"
        " set ssl.truststore.location to a store with this certificate"
    )


def test_a_certificate_that_cannot_be_fetched_shortens_the_sentence(harness: TlsHarness) -> None:
    context = harness.server("expired")

    def answer_once(peer: SocketPeer) -> None:
        with contextlib.suppress(OSError):
            context.wrap_socket(peer.sock, server_side=True)
        harness.accept().hang_up()

    harness.serve_plain(answer_once)
    harness.connect_client(harness.client())
    assert refused(harness) == "the broker's certificate has expired; renew it on the broker"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_missing_client_certificate_is_named(harness: TlsHarness, version: str) -> None:
    harness.serve(harness.server(client_auth="required"), echo)
    harness.connect_client(harness.client(ssl_enabled_protocols=version))
    sentence = refused(harness)
    if version == "TLSv1.3":
        assert sentence == MISSING_CERTIFICATE
    else:
        assert sentence == (
            "the broker accepts none of the cipher suites, or it requires a client certificate;"
            " check ssl.cipher.suites and ssl.keystore.location"
        )


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("name", "cause"), [("foreign", "its issuer is unknown to the broker"), ("expired", "it has expired")]
)
def test_a_refused_client_certificate_says_why(harness: TlsHarness, version: str, name: str, cause: str) -> None:
    harness.serve(harness.server(client_auth="required"), echo)
    key = str(harness.certificates.pem(name))
    harness.connect_client(harness.client(ssl_enabled_protocols=version, ssl_keystore_location=key))
    assert refused(harness) == f"the broker does not accept the client certificate of ssl.keystore.location: {cause}"


@pytest.mark.parametrize(("ours", "theirs"), [("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.2")])
def test_no_common_version_is_named(harness: TlsHarness, ours: str, theirs: str) -> None:
    harness.serve(harness.server(ssl_enabled_protocols=theirs), echo)
    harness.connect_client(harness.client(ssl_enabled_protocols=ours))
    assert refused(harness) == (
        "client and broker have no TLS version in common; check ssl.enabled.protocols and ssl.protocol"
    )


def test_no_common_cipher_suite_is_named(harness: TlsHarness) -> None:
    harness.serve(harness.server(ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), echo)
    harness.connect_client(harness.client(ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"))
    assert refused(harness) == (
        "the broker accepts none of the cipher suites, or it requires a client certificate;"
        " check ssl.cipher.suites and ssl.keystore.location"
    )


def answer(data: bytes) -> Callable[[SocketPeer], object]:
    def talk(peer: SocketPeer) -> None:
        peer.sock.recv(10_000)
        if data:
            peer.deliver_bytes(data)
        peer.hang_up()

    return talk


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "it is an HTTP server without TLS, not a Kafka broker; check the address",
        ),
        (
            b"\x00\x00\x00\x0a0123456789",
            "its answer is not TLS, so this is a listener without TLS; use its TLS port, or set security.protocol to"
            " PLAINTEXT or SASL_PLAINTEXT",
        ),
    ],
)
def test_a_server_without_tls_is_told_by_its_answer(harness: TlsHarness, data: bytes, sentence: str) -> None:
    greeted, polled = threading.Event(), threading.Event()

    def answer_later(peer: SocketPeer) -> None:
        peer.sock.recv(10_000)
        greeted.set()
        polled.wait(5)  # so that the greeting and the answer are two steps of the client's handshake
        peer.deliver_bytes(data)
        peer.hang_up()

    harness.serve_plain(answer_later)
    harness.connect_client(harness.client())
    harness.poll_until(greeted.is_set)
    polled.set()
    assert refused(harness) == sentence


def test_a_kafka_listener_without_tls_is_recognised_by_its_answer_to_a_request(harness: TlsHarness) -> None:
    def answer_request(peer: SocketPeer) -> None:
        assert peer.take_frame()[:4] == bytes([0, 18, 0, 0])
        peer.deliver(b"kcli" + bytes(10))

    def close_then_answer(peer: SocketPeer) -> None:
        peer.sock.recv(10_000)
        peer.hang_up()
        answer_request(harness.accept())

    harness.serve_plain(close_then_answer)
    harness.connect_client(harness.client())
    assert refused(harness) == (
        "this is a listener without TLS; use its TLS port, or set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )


def test_another_certificate_with_the_name_of_the_issuer_is_told_apart(harness: TlsHarness, tmp_path: Path) -> None:
    connect_to(harness, "server", ssl_truststore_location=str(Certificates(tmp_path).authority()))
    assert refused(harness) == (
        "the broker's certificate is not signed by the key of its issuer 'CN=ca,O=kcli' in the trust store, which has"
        " another certificate of the same name; set ssl.truststore.location to a store with the issuer's present one"
    )


def test_a_connection_closed_at_the_start_may_be_one_without_tls(harness: TlsHarness) -> None:
    harness.serve_plain(lambda peer: (answer(b"")(peer), harness.accept().hang_up()))
    harness.connect_client(harness.client())
    assert failure(harness) == (
        "it closed the connection at the start of the handshake; if it is a listener without TLS, use its TLS port, or"
        " set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )
    assert harness.selector.refused == set()


def test_a_connection_reset_at_the_start_may_be_one_without_tls(harness: TlsHarness) -> None:
    def reset_after_the_greeting(peer: SocketPeer) -> None:
        peer.sock.recv(1)
        peer.reset()
        harness.accept().hang_up()

    harness.serve_plain(reset_after_the_greeting)
    harness.connect_client(harness.client())
    assert failure(harness).startswith("it reset the connection at the start of the handshake; if it is a listener")


def test_an_unusual_alert_is_reported_by_its_name(harness: TlsHarness) -> None:
    harness.serve_plain(answer(bytes.fromhex("15030300020250")))
    harness.connect_client(harness.client())
    assert failure(harness) == "the other side ended TLS with the alert 'internal error'"
    assert harness.selector.refused == set()


def test_text_of_a_certificate_cannot_control_a_terminal(certificates: Certificates) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.authority("other_host").read_text())
    changed = der.replace(b"broker-1.example.com", b"broker-1\x1b[2J.exampl2")
    assert changed != der
    error = ssl.SSLCertVerificationError()
    error.verify_code = 62
    sentence = str(refused_certificate(error, changed, "h", datetime.now(timezone.utc)))
    assert "\x1b" not in sentence
    assert r"only for broker-1\x1b[2J.exampl2, *.cluster.example" in sentence


def test_an_expired_issuer_is_told_from_an_expired_certificate(certificates: Certificates) -> None:
    der = ssl.PEM_cert_to_DER_cert(certificates.authority("server").read_text())
    error = ssl.SSLCertVerificationError()
    error.verify_code = 10
    sentence = str(refused_certificate(error, der, "localhost", datetime.now(timezone.utc)))
    assert sentence == "the certificate of the broker's issuer 'CN=ca,O=kcli' has expired; renew it"


@pytest.mark.parametrize("data", [b"", b"no certificate"])
def test_an_unreadable_certificate_shortens_the_sentence(data: bytes) -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code = 20
    sentence = str(refused_certificate(error, data, "localhost", datetime.now(timezone.utc)))
    assert sentence.startswith("the issuer of the broker's certificate is not trusted; set ssl.truststore.location")


def test_other_codes_keep_the_words_of_openssl() -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = 26, "unsupported certificate purpose"
    sentence = str(refused_certificate(error, None, "localhost", datetime.now(timezone.utc)))
    assert sentence == "the certificate of the broker is not accepted: unsupported certificate purpose"


def test_a_listener_names_a_client_without_certificate(harness: TlsHarness) -> None:
    sentence = harness.accept_failure(harness.server(client_auth="required"))
    assert sentence == "the client sent no certificate, and ssl.client.auth is required"


def test_a_listener_names_the_fault_of_a_client_certificate(harness: TlsHarness) -> None:
    key = str(harness.certificates.pem("foreign"))
    sentence = harness.accept_failure(harness.server(client_auth="required"), ssl_keystore_location=key)
    assert sentence == "the certificate of the client is not accepted: unable to get local issuer certificate"


def test_a_listener_names_a_client_that_does_not_trust_it(harness: TlsHarness) -> None:
    sentence = harness.accept_failure(harness.server("foreign"))
    assert (
        sentence == "the client does not accept the certificate of this listener: its issuer is unknown to the client"
    )


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x14\x00\x12\x00\x03", b"GET / HTTP/1.1\r\n"])
def test_a_listener_names_a_client_without_tls(harness: TlsHarness, data: bytes) -> None:
    sentence = harness.accept_failure(harness.server(), data)
    assert sentence == "the client does not use TLS; it must set security.protocol to SSL or SASL_SSL"


def test_a_client_without_tls_gets_the_alert_that_java_brokers_send(harness: TlsHarness) -> None:
    """Its request is longer than OpenSSL reads, and unread bytes would reset the connection before the alert."""
    harness.accept_failure(harness.server(), b"\x00\x00\x00\x14\x00\x12\x00\x03" + bytes(16))
    client = harness.accepted[-1]
    client.settimeout(10)
    assert client.recv(100) == bytes.fromhex("15030300020250")  # origin: a TLS listener of Apache Kafka 4.3.1


def test_an_error_without_a_reason_is_a_sentence_too() -> None:
    assert str(tls_error(ssl.SSLError(1, "unknown"), server_side=False)) == "TLS reports 'unknown error'"
