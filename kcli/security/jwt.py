"""JSON Web Tokens (RFC 7519): decode, verify and sign with RS256 or ES256, and check claims.

The package `cryptography` has the algorithms; only `verify`, `sign` and keys need it. Everything else is pure.
"""

from __future__ import annotations

import json
import os
import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError
from kcli.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

ALGORITHMS = ("RS256", "ES256")

_MAX_TOKEN_CHARS = 1 << 20
_ES256_BYTES = 32
_LAST_SECOND = 253_402_300_799  # of the year 9999


class InvalidJwt(ValueError):
    """A token that is malformed, has a wrong signature or wrong claims. The text has no part of the token."""


class Jwt(NamedTuple):
    """A decoded token. Nothing of it is verified."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes

    def __repr__(self) -> str:
        return f"<Jwt alg={self.header.get('alg')!r}>"


class ClaimRules(NamedTuple):
    """The claims that a token must have. Times are seconds since the epoch."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: float = 0


class CheckedClaims(NamedTuple):
    """The claims that Kafka uses. `expires_at` is in seconds since the epoch."""

    subject: str
    expires_at: float
    scopes: tuple[str, ...]


def decode(token: str) -> Jwt:
    """Return the parts of a token in compact form. Raise InvalidJwt."""
    parts = token.split(".") if len(token) <= _MAX_TOKEN_CHARS else []
    if len(parts) != 3:
        raise InvalidJwt("the token does not have three parts separated by dots")
    header, claims, signature = (_unbase64(part) for part in parts)
    return Jwt(_object(header), _object(claims), token.rpartition(".")[0].encode(), signature)


def unsecured(claims: Mapping[str, Any]) -> Secret:
    """Return a token without signature, for tests (RFC 7519, section 6)."""
    return Secret(f"{_part({'alg': 'none'})}.{_part(claims)}.")


def check_critical(jwt: Jwt) -> None:
    """Raise InvalidJwt for a token with the header crit: no extension is known here (RFC 7515, section 4.1.11)."""
    if "crit" in jwt.header:
        raise InvalidJwt("the token has critical extensions (header crit), and none is supported")


def verify(jwt: Jwt, key: Any) -> None:
    """Check the signature with a public key of `cryptography`. Raise InvalidJwt, also for critical extensions.

    The kind of the key decides on the algorithm, and the token must name the same: a token cannot choose a weaker one.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    check_critical(jwt)
    algorithm = jwt.header.get("alg")
    try:
        if isinstance(key, rsa.RSAPublicKey) and algorithm == "RS256":
            key.verify(jwt.signature, jwt.signed, padding.PKCS1v15(), hashes.SHA256())
            return
        if isinstance(key, ec.EllipticCurvePublicKey) and algorithm == "ES256" and len(jwt.signature) == 64:
            r, s = (int.from_bytes(half, "big") for half in (jwt.signature[:32], jwt.signature[32:]))
            key.verify(utils.encode_dss_signature(r, s), jwt.signed, ec.ECDSA(hashes.SHA256()))
            return
    except InvalidSignature:
        raise InvalidJwt("the signature is wrong") from None
    raise InvalidJwt("the algorithm of the token is not that of the key; use RS256 or ES256")


def require_cryptography(name: str, purpose: str) -> None:
    """Raise ConfigError, which names the property `name`, if the package is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"{name}: {purpose}, install the package cryptography: pip install 'kcli-kafka[tls]'"
        ) from None


def load_private_key(pem: bytes, password: Secret | None, name: str) -> PrivateKeyTypes:
    """Return the private key of a PEM file. Raise ConfigError, which names the property `name`."""
    require_cryptography(name, "to sign assertions")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, password.reveal().encode() if password else None)
    except TypeError:
        problem = "needs no password" if password else "is encrypted; set its passphrase"
    except (ValueError, UnsupportedAlgorithm):
        problem = "is not a private key in PEM, or its passphrase is wrong"
    raise ConfigError(f"{name}: the key {problem}")


def sign(header: Mapping[str, Any], claims: Mapping[str, Any], key: PrivateKeyTypes, algorithm: str) -> Secret:
    """Return a signed token; `alg` and `typ` are added to the header. Raise ConfigError for a key of another kind."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    signed = f"{_part({'typ': 'JWT', **header, 'alg': algorithm})}.{_part(claims)}"
    if algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    elif algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 256:
        r, s = utils.decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_ES256_BYTES, "big") + s.to_bytes(_ES256_BYTES, "big")
    else:
        needed = "RSA key" if algorithm == "RS256" else "key of the curve P-256"
        raise ConfigError(f"the algorithm {algorithm} needs an {needed}")
    return Secret(f"{signed}.{_base64(signature)}")


def check_claims(claims: Mapping[str, Any], rules: ClaimRules, now_s: float) -> CheckedClaims:
    """Check times, audience, issuer and subject as Kafka's BrokerJwtValidator does. Raise InvalidJwt.

    A token with an audience is refused where no audience is expected.
    """
    expires_at = _time(claims, "exp")
    if expires_at is None:
        raise InvalidJwt("the token has no expiry (claim exp)")
    if expires_at + rules.clock_skew_s <= now_s:
        raise InvalidJwt("the token has expired")
    if _time(claims, "iat") is None:
        raise InvalidJwt("the token has no time of issue (claim iat)")
    not_before = _time(claims, "nbf")
    if not_before is not None and not_before - rules.clock_skew_s > now_s:
        raise InvalidJwt("the token is not valid yet (claim nbf)")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    is_expected = any(name in rules.audiences for name in audiences)
    if not is_expected and (rules.audiences or audience is not None):
        raise InvalidJwt("the audience of the token (claim aud) is not sasl.oauthbearer.expected.audience")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidJwt("the issuer of the token (claim iss) is not sasl.oauthbearer.expected.issuer")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidJwt(f"the token has no subject (claim {rules.subject_claim})")
    return CheckedClaims(subject, expires_at, _scopes(claims.get(rules.scope_claim)))


def expiry(token: str) -> float | None:
    """Return the claim exp in seconds since the epoch; None if the token is opaque or has none."""
    try:
        return _time(decode(token).claims, "exp")
    except InvalidJwt:
        return None


# Keys of a JSON Web Key Set (RFC 7517, RFC 7518)


def parse_key_set(document: bytes) -> list[tuple[str | None, Any]]:
    """Return the ids and public keys for RS256 and ES256 of a key set; other keys are left out. Raise InvalidJwt."""
    keys = _object(document).get("keys")
    if not isinstance(keys, list):
        raise InvalidJwt("the key set has no list of keys")
    loaded = ((key.get("kid"), _public_key(key)) for key in keys if isinstance(key, dict))
    return [(key_id if isinstance(key_id, str) else None, key) for key_id, key in loaded if key is not None]


def _public_key(jwk: dict[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    makers: dict[object, Callable[[], Any]] = {
        "RSA": lambda: rsa.RSAPublicNumbers(_number(jwk["e"]), _number(jwk["n"])).public_key(),
        "EC": lambda: ec.EllipticCurvePublicNumbers(_number(jwk["x"]), _number(jwk["y"]), ec.SECP256R1()).public_key(),
    }
    kind = jwk.get("kty")
    if kind not in ("RSA", "EC") or jwk.get("use", "sig") != "sig" or (kind == "EC" and jwk.get("crv") != "P-256"):
        return None
    try:
        return makers[kind]()
    except (KeyError, ValueError):
        return None


def new_id() -> str:
    """Return a random id for the claim jti."""
    return _base64(os.urandom(16))


def _number(text: object) -> int:
    if not isinstance(text, str):
        raise InvalidJwt("a number of the key is not base64url")
    return int.from_bytes(_unbase64(text), "big")


def _scopes(value: object) -> tuple[str, ...]:
    scopes = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(scope for scope in scopes if isinstance(scope, str))


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LAST_SECOND:  # also false for NaN
        raise InvalidJwt(f"the claim {name} of the token is not a time")
    return float(value)


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidJwt("the data is not a JSON object")
    return value


def _part(value: Mapping[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode().rstrip("=").translate(_TO_URL)


def _unbase64(text: str) -> bytes:
    try:
        if _URL_SAFE.match(text):
            return a2b_base64(text.translate(_FROM_URL) + "=" * (-len(text) % 4))
    except Base64Error:
        pass
    raise InvalidJwt("a part of the token is not base64url")


_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*\Z")
_TO_URL = str.maketrans("+/", "-_")
_FROM_URL = str.maketrans("-_", "+/")
