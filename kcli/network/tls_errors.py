"""Failures of TLS as sentences: the cause and the cure, for OpenSSL's reasons and the alerts of the other side. Pure.

A sentence is without the name of the other side, which `KafkaChannel.explain` adds. Sources: RFC 8446, section 6.2, for
the alerts; X509_STORE_CTX_get_error(3) for the codes of a refused certificate.
"""

from __future__ import annotations

import ssl
from datetime import datetime

from kcli.network.certificate import Certificate, parse_certificate
from kcli.network.transport import TlsError
from kcli.visible import visible

_NO_TLS = "use its TLS port, or set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
_OTHER_PROTOCOLS = "WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"
_TRUST = "set ssl.truststore.location to a store with"

# X509_V_ERR_*
_WRONG_SIGNATURE, _NOT_YET_VALID, _EXPIRED, _SELF_SIGNED, _OTHER_HOST, _OTHER_ADDRESS = 7, 9, 10, 18, 62, 64
_UNKNOWN_ISSUER = (2, 19, 20, 21)

_CLIENT_CERTIFICATE = "the broker requires a client certificate that it trusts; set ssl.keystore.location"
_REFUSED_CERTIFICATE = "the broker does not accept the client certificate of ssl.keystore.location"
_VERSIONS = "client and broker have no TLS version in common; check ssl.enabled.protocols and ssl.protocol"
_SUITES = "client and broker have no cipher suite in common; check ssl.cipher.suites"

# Alerts about a client's certificate: under TLS 1.3 they come after the handshake.
_CERTIFICATE_ALERTS = {
    "BAD_CERTIFICATE": _CLIENT_CERTIFICATE,
    "CERTIFICATE_REQUIRED": _CLIENT_CERTIFICATE,
    "UNKNOWN_CA": f"{_REFUSED_CERTIFICATE}: its issuer is unknown to the broker",
    "CERTIFICATE_UNKNOWN": f"{_REFUSED_CERTIFICATE}: its issuer is unknown to the broker, or it is not for clients",
    "CERTIFICATE_EXPIRED": f"{_REFUSED_CERTIFICATE}: it has expired",
    "CERTIFICATE_REVOKED": f"{_REFUSED_CERTIFICATE}: it is revoked",
    "UNSUPPORTED_CERTIFICATE": f"{_REFUSED_CERTIFICATE}: it is of a kind that the broker does not support",
    "DECRYPT_ERROR": f"{_REFUSED_CERTIFICATE}: its signature is not valid",
    "ACCESS_DENIED": f"{_REFUSED_CERTIFICATE}: access is denied",
}
# Other alerts that a broker sends to a client, and OpenSSL's own reasons, which end every attempt.
_OF_CLIENT = _CERTIFICATE_ALERTS | {
    "HANDSHAKE_FAILURE": (
        "the broker accepts none of the cipher suites, or it requires a client certificate;"
        " check ssl.cipher.suites and ssl.keystore.location"
    ),
    "INSUFFICIENT_SECURITY": _SUITES,
    "PROTOCOL_VERSION": _VERSIONS,
    "UNSUPPORTED_PROTOCOL": _VERSIONS,
    "NO_PROTOCOLS_AVAILABLE": _VERSIONS,
    "UNRECOGNIZED_NAME": "the broker has no certificate for this host name; connect by a name that it has",
    "DH_KEY_TOO_SMALL": "the broker's Diffie-Hellman key is too small for this system's OpenSSL",
    "UNSAFE_LEGACY_RENEGOTIATION_DISABLED": "the broker needs an old form of renegotiation, which is not safe",
}

_CLIENT_REFUSES = "the client does not accept the certificate of this listener"
_OF_SERVER = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, and ssl.client.auth is required",
    "UNKNOWN_CA": f"{_CLIENT_REFUSES}: its issuer is unknown to the client",
    "BAD_CERTIFICATE": f"{_CLIENT_REFUSES}: it is not for this host, or not valid",
    "CERTIFICATE_UNKNOWN": f"{_CLIENT_REFUSES}: its issuer is unknown to the client, or it is not for this host",
    "CERTIFICATE_EXPIRED": f"{_CLIENT_REFUSES}: it is not valid at this time",
    "NO_SHARED_CIPHER": _SUITES,
    "UNSUPPORTED_PROTOCOL": _VERSIONS,
    "PROTOCOL_VERSION": _VERSIONS,
}


def foreign_protocol(first_bytes: bytes, *, server_side: bool) -> TlsError:
    """Return the error for a side whose first bytes do not begin a TLS record."""
    if server_side:
        return TlsError("the client does not use TLS; it must set security.protocol to SSL or SASL_SSL")
    if first_bytes.startswith(b"HTTP"):
        return TlsError("it is an HTTP server without TLS, not a Kafka broker; check the address")
    return TlsError(f"its answer is not TLS, so this is a listener without TLS; {_NO_TLS}")


def plain_listener() -> TlsError:
    """Return the error for a listener that has answered a request without TLS."""
    return TlsError(f"this is a listener without TLS; {_NO_TLS}")


def closed_in_handshake(action: str, *, answered: bool, server_side: bool) -> TlsError:
    """Return the error for a connection that is `closed` or `reset`; a new connection may succeed."""
    if answered or server_side:
        return TlsError(f"the connection was {action} in the middle of the handshake", refused=False)
    hint = f"if it is a listener without TLS, {_NO_TLS}"
    return TlsError(f"it {action} the connection at the start of the handshake; {hint}", refused=False)


def tls_error(error: ssl.SSLError, *, server_side: bool, opened: bool = False) -> TlsError:
    """Return the sentence for an error of OpenSSL.

    `opened`: the handshake is complete. TLS 1.3 reports a refused client certificate only after it.
    """
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        side = "client" if server_side else "broker"
        return TlsError(f"the certificate of the {side} is not accepted: {error.verify_message}")
    if reason in _OTHER_PROTOCOLS:
        side = "client" if server_side else "broker"
        return TlsError(f"the {side} sent bytes that are not TLS", refused=False)
    name = reason.partition("_ALERT_")[2] or reason.removeprefix("TLSV1_")
    sentence = (_OF_SERVER if server_side else _CERTIFICATE_ALERTS if opened else _OF_CLIENT).get(name)
    if sentence is not None:
        return TlsError(sentence)
    words = name.replace("_", " ").lower() or "unknown error"
    return TlsError(
        f"the other side ended TLS with the alert '{words}'" if "_ALERT_" in reason else f"TLS reports '{words}'",
        refused=False,
    )


def refused_certificate(
    error: ssl.SSLCertVerificationError, der: bytes | None, hostname: str | None, now: datetime
) -> TlsError:
    """Return the sentence for a broker's certificate that the client does not accept.

    `der` is the certificate, which says what is wrong; without it the sentence is shorter.
    """
    certificate = _parsed(der)
    code = error.verify_code
    if code == _EXPIRED:
        return TlsError(_expired(certificate, now))
    if code == _NOT_YET_VALID:
        start = f" before {_time(certificate.not_before)}" if certificate else ""
        return TlsError(f"the broker's certificate is not yet valid{start}; check the clocks of both machines")
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        names = f", only for {_names(certificate)}" if certificate and certificate.names else ""
        return TlsError(
            f"the broker's certificate is not for {hostname!r}{names}; connect by a name that it has, or accept any"
            " with ssl.endpoint.identification.algorithm="
        )
    if code == _SELF_SIGNED:
        return TlsError(f"the broker's certificate is self-signed and not trusted; {_TRUST} this certificate")
    issuer = f" {_printable(certificate.issuer)!r}" if certificate else ""
    if code == _WRONG_SIGNATURE:
        return TlsError(
            f"the broker's certificate is not signed by the key of its issuer{issuer} in the trust store, which has"
            f" another certificate of the same name; {_TRUST} the issuer's present one"
        )
    if code in _UNKNOWN_ISSUER:
        return TlsError(f"the issuer{issuer} of the broker's certificate is not trusted; {_TRUST} its certificate")
    return tls_error(error, server_side=False)


def _expired(certificate: Certificate | None, now: datetime) -> str:
    if certificate is None:
        return "the broker's certificate has expired; renew it on the broker"
    if certificate.not_after > now:
        return f"the certificate of the broker's issuer {_printable(certificate.issuer)!r} has expired; renew it"
    return f"the broker's certificate expired on {_time(certificate.not_after)}; renew it on the broker"


def _parsed(der: bytes | None) -> Certificate | None:
    try:
        return parse_certificate(der) if der else None
    except ValueError:
        return None


def _names(certificate: Certificate, at_most: int = 6) -> str:
    names = [_printable(name) for name in certificate.names]
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def _printable(text: str) -> str:
    """A text of the other side for one line of a terminal."""
    shown = visible(text)
    return shown if len(shown) <= 120 else f"{shown[:117]}..."


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
