"""SASL on a new connection, and again before its session ends (KIP-43, KIP-152, KIP-368). Pure.

`authenticate` is a handshake like `api_versions.negotiate`: it yields a request and its version, and receives the
response. The mechanism's own messages are those of an exchange of `kcli.security.sasl`. Errors are AuthenticationError,
a sentence with the cause and the cure, without the address of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kcli.client.connection.api_versions import Versions, choose_version
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, UnsupportedVersion
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kcli.security.sasl import ClientMechanism

#: A SASL message of a broker may be this long. A Kerberos ticket with many groups takes some 64 KiB.
MAX_MESSAGE_BYTES = 1 << 20

#: An exchange has this many messages at most. SCRAM has two, GSSAPI has four or five.
MAX_STEPS = 20

_MAX_SHOWN = 300

#: A step: the request to send and its version; the response comes back. None: wait for an event beside the connection.
Steps = Generator["tuple[Any, int] | None", Any, float]


def authenticate(
    mechanism: ClientMechanism, host: str, versions: Versions, *, protocol: str = "SASL_PLAINTEXT"
) -> Steps:
    """Run SASL with a broker of these versions. Return the lifetime of the session in ms; 0: it has no end."""
    handshake: SaslHandshakeResponse = yield (
        SaslHandshakeRequest(mechanism=mechanism.name),
        _version(SaslHandshakeRequest, versions, lowest=1),
    )
    if handshake.error_code:
        raise _refused_mechanism(mechanism.name, protocol, handshake)
    version = _version(SaslAuthenticateRequest, versions)
    exchange = mechanism.start(host)
    lifetime_ms = 0.0
    answer: bytes | None = None
    for _ in range(MAX_STEPS):
        try:
            message = next(exchange) if answer is None else exchange.send(answer)
        except StopIteration:
            return lifetime_ms
        except ValueError:
            raise AuthenticationError(f"SASL {mechanism.name}: the broker's answer is malformed") from None
        response: SaslAuthenticateResponse = yield SaslAuthenticateRequest(auth_bytes=message), version
        if response.error_code:
            refusal = _refused_credentials(mechanism.name, response, _secrets(mechanism.name, message))
            with suppress(StopIteration):
                exchange.throw(refusal)  # a mechanism may know more
            raise refusal
        answer, lifetime_ms = response.auth_bytes, float(max(0, response.session_lifetime_ms))
        if len(answer) > MAX_MESSAGE_BYTES:
            raise AuthenticationError(f"SASL {mechanism.name}: the broker sent a message of {len(answer)} bytes")
    raise AuthenticationError(f"SASL {mechanism.name}: the exchange is not complete after {MAX_STEPS} messages")


def _version(request: type[Any], versions: Versions, lowest: int = 0) -> int:
    try:
        return choose_version(request, versions, lowest=lowest)
    except UnsupportedVersion:
        api = request.__name__.removesuffix("Request")
        raise AuthenticationError(
            f"SASL is not possible: the broker does not support {api} as brokers from Kafka 1.0 on do"
        ) from None


def _refused_mechanism(name: str, protocol: str, response: SaslHandshakeResponse) -> AuthenticationError:
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE and not response.mechanisms:
        return AuthenticationError(
            "the listener does not use SASL; use the port of a SASL listener, "
            f"or set security.protocol={'SSL' if protocol == 'SASL_SSL' else 'PLAINTEXT'}"
        )
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = one_line(", ".join(response.mechanisms)) or "none"
        return AuthenticationError(
            f"the broker does not offer the SASL mechanism {name}; set sasl.mechanism to one that it offers: {offered}"
        )
    return AuthenticationError(f"SASL {name}: the broker refused SaslHandshake: {_text(response.error_code)}")


def _secrets(name: str, message: bytes) -> list[str]:
    """Return the secrets that a message of the client has in plain: a broker may repeat them in its refusal."""
    text = message.decode("utf-8", "replace")
    if name == "PLAIN":
        return text.split("\0")[2:]
    return re.findall(r"Bearer ([\x21-\x7e]+)", text) if name == "OAUTHBEARER" else []


def _refused_credentials(name: str, response: SaslAuthenticateResponse, secrets: Iterable[str]) -> AuthenticationError:
    code, text = response.error_code, response.error_message or ""
    told = "" if any(secret in text for secret in secrets if secret) else one_line(text)
    if code != ErrorCode.SASL_AUTHENTICATION_FAILED:
        return AuthenticationError(f"SASL {name}: {_text(code)}{f': {told}' if told else ''}")
    problem = f"SASL {name}: {told or ErrorCode.of(code).text}"
    if told.startswith("Cannot change principals"):
        return AuthenticationError(f"{problem}; new credentials must have the same principal, or start again")
    return AuthenticationError(f"{problem}; check {_CREDENTIALS.get(name, 'the credentials')}")


_CREDENTIALS = {
    "PLAIN": "username and password",
    "SCRAM-SHA-256": "username and password, and that the user has a SCRAM-SHA-256 credential",
    "SCRAM-SHA-512": "username and password, and that the user has a SCRAM-SHA-512 credential",
    "OAUTHBEARER": "the token's expiry, issuer, audience and scope",
    "GSSAPI": "the Kerberos ticket and sasl.kerberos.service.name",
    "AWS_MSK_IAM": "the AWS credentials, their permission kafka-cluster:Connect, and the clock of this machine",
}


def _text(code: int) -> str:
    known = ErrorCode.of(code)
    return f"{known.name}: {known.text}"


def one_line(text: str) -> str:
    """Return a broker's text as one line of printable characters, shortened."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."
