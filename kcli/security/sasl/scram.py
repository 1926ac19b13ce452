"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) and delegation tokens (KIP-48). Both sides.

Client and server prove to each other that they know the password, or the server a verifier of it, without sending it.
As in Kafka there is no channel binding, and the password is not prepared (no SASLprep).
"""

from __future__ import annotations

import os
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import NamedTuple

from kcli.errors import AuthenticationError
from kcli.security.jaas import JaasEntry
from kcli.security.sasl.exchange import (
    ClientExchange,
    Identity,
    ServerExchange,
    foreign_authorization_id,
    invalid_credentials,
)

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

#: Kafka's smallest count of iterations, for both sides: a verifier with fewer is easy to attack.
MIN_ITERATIONS = 4096
#: Kafka's largest count for the users of a broker.
MAX_ITERATIONS = 16_384
#: The largest count that a client computes: sixteen times Kafka's, about half a second of CPU. A hostile server could
#: stall a client with more.
MAX_CLIENT_ITERATIONS = 16 * MAX_ITERATIONS

_NO_CHANNEL_BINDING = "n,,"
_SALT_BYTES = 20
_NONCE_BYTES = 24
_MAX_MESSAGE_BYTES = 16_384
_TOKEN_EXTENSION = "tokenauth=true"

#: Return the verifier of a user, or of a delegation token if the flag is set; None if there is none.
CredentialLookup = Callable[[str, bool], "ScramCredential | None"]


class ScramCredential(NamedTuple):
    """A server's verifier of a password. The password does not follow from it, but its owner can pose as the server.

    `owner` and `expires_at_wall_ms` are those of a delegation token; for a user they are None.
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    owner: str | None = None
    expires_at_wall_ms: int | None = None

    def __repr__(self) -> str:
        return f"<ScramCredential iterations={self.iterations}>"


def scram_credential(
    mechanism: str, password: str, iterations: int = MIN_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """Return the verifier of a password, by default with a random salt."""
    import hashlib

    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return salted_credential(mechanism, salted, salt, iterations)


def salted_credential(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the verifier of a password that is salted already, as AlterUserScramCredentials carries it (KIP-554)."""
    keys = _Keys(HASHES[mechanism], salted_password)
    return ScramCredential(salt, iterations, keys.stored_key, keys.server_key)


class ScramClient:
    """The client's side, with `username` and `password` of the login module.

    With `tokenauth="true"` these are the id and the HMAC, in base64, of a delegation token.
    """

    def __init__(self, name: str, login: JaasEntry) -> None:
        self.name = name
        self._hash = HASHES[name]
        user = login.required("username")
        is_token = (login.option("tokenauth") or "").lower() == "true"
        self.user: str | None = None if is_token else user
        self._user = user.replace("=", "=3D").replace(",", "=2C")
        self._password = login.required("password").encode()
        self._extension = f",{_TOKEN_EXTENSION}" if is_token else ""
        self._salted: tuple[tuple[bytes, int], bytes] | None = None

    def start(self, host: str) -> ClientExchange:
        """Begin the exchange: two messages of the client, and the server's proof."""
        nonce = _nonce()
        client_first = f"n={self._user},r={nonce}{self._extension}"
        server_first = yield (_NO_CHANNEL_BINDING + client_first).encode()
        full_nonce, salt, iterations = self._read_server_first(server_first, nonce)
        keys = _Keys(self._hash, self._salted_password(salt, iterations))
        unsigned = f"c={_base64(_NO_CHANNEL_BINDING.encode())},r={full_nonce}"
        signed = f"{client_first},{server_first.decode()},{unsigned}".encode()
        server_final = yield f"{unsigned},p={_base64(keys.client_proof(signed))}".encode()
        self._check_server_final(server_final, keys.server_signature(signed))

    def _read_server_first(self, message: bytes, nonce: str) -> tuple[str, bytes, int]:
        try:
            full_nonce, salt, count = _attributes(_text(message), "r", "s", "i")
            iterations = int(count) if count.isdigit() and len(count) < 10 else -1
            salt_bytes = _unbase64(salt)
        except ValueError:
            raise self._failed("the broker's first answer is malformed") from None
        if not full_nonce.startswith(nonce) or full_nonce == nonce:
            raise self._failed(
                "the broker's nonce does not extend the client's, so the answer is not for this exchange"
            )
        if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
            raise self._failed(
                f"the broker asks for {count[:12]} iterations; kcli accepts {MIN_ITERATIONS} to {MAX_CLIENT_ITERATIONS}"
            )
        return full_nonce, salt_bytes, iterations

    def _salted_password(self, salt: bytes, iterations: int) -> bytes:
        """Return the salted password, kept for the next connection: brokers of a cluster have the same salt."""
        import hashlib

        if self._salted is None or self._salted[0] != (salt, iterations):
            salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
            self._salted = (salt, iterations), salted
        return self._salted[1]

    def _check_server_final(self, message: bytes, expected: bytes) -> None:
        import hmac

        try:
            text = _text(message)
            if text.startswith("e="):
                raise self._failed(f"the broker refused the credentials: {text[2:202]}")
            (signature,) = _attributes(text, "v")
            is_right = hmac.compare_digest(_unbase64(signature), expected)
        except ValueError:
            raise self._failed("the broker's last answer is malformed") from None
        if not is_right:
            raise self._failed("the broker's signature is wrong, so it does not know the password; check its address")

    def _failed(self, problem: str) -> AuthenticationError:
        return AuthenticationError(f"SASL {self.name}: {problem}")


def scram_server(mechanism: str, lookup: CredentialLookup) -> ServerExchange:
    """The server's side. Checks and messages are those of Kafka's ScramSaslServer."""
    import hmac

    client_first = _text_or_refuse(mechanism, (yield b""))
    binding, authorization_id, bare = _split_client_first(mechanism, client_first)
    try:
        escaped, client_nonce = _attributes(bare, "n", "r")
        user = _unescape(escaped)
    except ValueError:
        raise invalid_credentials(mechanism) from None
    credential = lookup(user, _TOKEN_EXTENSION in bare.split(",")[2:])
    if credential is None or credential.iterations < MIN_ITERATIONS:
        raise invalid_credentials(mechanism)
    if authorization_id not in ("", escaped):
        raise foreign_authorization_id()

    full_nonce = client_nonce + _nonce()
    server_first = f"r={full_nonce},s={_base64(credential.salt)},i={credential.iterations}"
    client_final = _text_or_refuse(mechanism, (yield server_first.encode()))
    unsigned, _, proof = client_final.rpartition(",p=")
    signed = f"{bare},{server_first},{unsigned}".encode()
    try:
        channel, echoed = _attributes(unsigned, "c", "r")
        is_proved = _is_client_proof(HASHES[mechanism], _unbase64(proof), credential.stored_key, signed)
        is_bound = _unbase64(channel) == binding.encode()
    except ValueError:
        raise invalid_credentials(mechanism) from None
    if not (is_proved and is_bound and hmac.compare_digest(echoed, full_nonce)):
        raise invalid_credentials(mechanism)
    signature = hmac.digest(credential.server_key, signed, HASHES[mechanism])
    is_token = credential.owner is not None
    final = f"v={_base64(signature)}".encode()
    return Identity(credential.owner or user, final, credential.expires_at_wall_ms, by_token=is_token)


def _split_client_first(mechanism: str, message: str) -> tuple[str, str, str]:
    """Return the header `n,[a=NAME],`, the authorisation id with its escapes, and the rest."""
    flag, _, rest = message.partition(",")
    authorization_id, _, bare = rest.partition(",")
    if flag != "n" or not (authorization_id == "" or authorization_id.startswith("a=")):
        raise invalid_credentials(mechanism)
    return f"{flag},{authorization_id},", authorization_id[2:], bare


def _is_client_proof(hash_name: str, proof: bytes, stored_key: bytes, signed: bytes) -> bool:
    import hashlib
    import hmac

    if len(proof) != len(stored_key):
        return False
    client_key = _xor(proof, hmac.digest(stored_key, signed, hash_name))
    return hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), stored_key)


class _Keys:
    """The keys of RFC 5802, section 3, that follow from a salted password."""

    def __init__(self, hash_name: str, salted_password: bytes) -> None:
        import hashlib
        import hmac

        self._hash = hash_name
        self._client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        self.stored_key = hashlib.new(hash_name, self._client_key).digest()
        self.server_key = hmac.digest(salted_password, b"Server Key", hash_name)

    def client_proof(self, signed: bytes) -> bytes:
        import hmac

        return _xor(self._client_key, hmac.digest(self.stored_key, signed, self._hash))

    def server_signature(self, signed: bytes) -> bytes:
        import hmac

        return hmac.digest(self.server_key, signed, self._hash)


# Messages: comma-separated attributes, each a name, "=" and a value. Errors are ValueError.


def _attributes(text: str, *names: str) -> list[str]:
    """Return the values of the leading attributes, which must have these names; extensions may follow."""
    attributes = [part.partition("=") for part in text.split(",")]
    if [name for name, _, _ in attributes[: len(names)]] != list(names):
        raise ValueError("the attributes are not the expected ones")
    if not all(value and name.isalpha() for name, _, value in attributes):
        raise ValueError("an attribute is malformed")
    return [value for _, _, value in attributes[: len(names)]]


def _text(message: bytes) -> str:
    text = message.decode("ascii")
    if len(text) > _MAX_MESSAGE_BYTES or not text.isprintable():
        raise ValueError("the message is too long or not printable")
    return text


def _text_or_refuse(mechanism: str, message: bytes) -> str:
    try:
        return _text(message)
    except ValueError:
        raise invalid_credentials(mechanism) from None


def _unescape(name: str) -> str:
    if name.replace("=2C", "").replace("=3D", "").count("="):
        raise ValueError("an equals sign is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _nonce() -> str:
    return _base64(os.urandom(_NONCE_BYTES))


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def _unbase64(text: str) -> bytes:
    try:
        data = a2b_base64(text)
    except Base64Error:
        raise ValueError("not base64") from None
    if _base64(data) != text:
        raise ValueError("not base64")
    return data


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
