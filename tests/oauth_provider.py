"""An OAuth provider on loopback: a token endpoint and a key set, with tokens that Apache Kafka's validator accepts.

It serves the grants of Kafka's clients: client_credentials (RFC 6749, section 4.4) and jwt-bearer (RFC 7523).
"""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

AUDIENCE = "kafka"
KEY_ID = "kcli-test"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def encoded(data: bytes) -> str:
    """Return base64url without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Return the bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class SigningKey:
    """An RSA key in a PEM file (PKCS#8); it is created if the file is missing."""

    def __init__(self, file: Path) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        self.file = file
        if not file.exists():
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
            file.write_bytes(key.private_bytes(*pem, serialization.NoEncryption()))
        loaded = serialization.load_pem_private_key(file.read_bytes(), None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        self._key = loaded

    def sign(self, claims: Mapping[str, Any], **more: Any) -> str:
        """Return a signed token (RS256); `more` is added to its header."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID, **more}
        text = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        return f"{text}.{encoded(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def claims_of(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token that this key signed; None if the signature is wrong."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        text, _, signature = token.rpartition(".")
        try:
            self._key.public_key().verify(decoded(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return None
        claims: dict[str, Any] = json.loads(decoded(text.partition(".")[2]))
        return claims

    def key_set(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key Set (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        modulus, exponent = (encoded(n.to_bytes((n.bit_length() + 7) // 8, "big")) for n in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": modulus, "e": exponent}]}


class OAuthKeys:
    """The keys in a folder: the provider's, and that of clients that sign assertions.

    `token_file` has a token of the subject admin, `assertion_file` an assertion that is good for one, and
    `template_file` the claims of such an assertion, for a client that signs it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.provider = SigningKey(folder / "provider.pem")
        self.client = SigningKey(folder / "client.pem")
        self.key_set_file = folder / "jwks.json"
        self.token_file = folder / "token.jwt"
        self.assertion_file = folder / "assertion.jwt"
        self.template_file = folder / "template.json"
        if not self.key_set_file.exists():
            claims = {"iss": "kcli", "sub": "admin", "aud": "provider"}
            now = int(time.time())
            self.token_file.write_text(self.token("admin", 24 * 3600))
            self.assertion_file.write_text(self.client.sign({**claims, "iat": now, "exp": now + 24 * 3600}))
            self.template_file.write_text(json.dumps({"header": {"kid": KEY_ID}, "payload": claims}))
            self.key_set_file.write_text(json.dumps(self.provider.key_set()))

    def token(self, subject: str, lifetime_s: float = 3600, **claims: Any) -> str:
        """Return a token for this subject. Claims replace the usual ones; None removes one."""
        now = time.time()
        usual = {"iss": "kcli-test", "sub": subject, "aud": AUDIENCE, "scope": "all", "iat": int(now)}
        usual["exp"] = int(now + lifetime_s)
        return self.provider.sign({name: value for name, value in {**usual, **claims}.items() if value is not None})


class OAuthProvider:
    """A provider with one user per client id. It keeps the requests, for tests that look at them."""

    def __init__(self, keys: OAuthKeys, secrets: Mapping[str, str], lifetime_s: float = 3600) -> None:
        """`secrets` has the client secret of each client id; the token's subject is the client id."""
        self.keys = keys
        self.lifetime_s = lifetime_s
        self.requests: list[tuple[dict[str, str], dict[str, str]]] = []  # header fields in lower case, form fields
        self._secrets = secrets
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def token_url(self) -> str:
        """The token endpoint."""
        return f"http://localhost:{self._server.server_port}/token"

    @property
    def key_set_url(self) -> str:
        """The address of the key set."""
        return f"http://localhost:{self._server.server_port}/jwks"

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, header: dict[str, str], form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and the document for a request to the token endpoint."""
        self.requests.append((header, form))
        if form.get("grant_type") == "client_credentials":
            subject = self._client(header.get("authorization", ""))
        elif form.get("grant_type") == JWT_BEARER:
            claims = self.keys.client.claims_of(form.get("assertion", "")) or {}
            subject = claims["sub"] if claims.get("exp", 0) > time.time() else None
        else:
            return 400, {"error": "unsupported_grant_type"}
        if subject is None:
            return 401, {"error": "invalid_client", "error_description": "wrong client or secret"}
        token = self.keys.token(subject, self.lifetime_s)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)}

    def _client(self, authorization: str) -> str | None:
        scheme, _, value = authorization.partition(" ")
        name, _, secret = base64.b64decode(value).decode().partition(":")
        return name if scheme == "Basic" and self._secrets.get(name) == secret else None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                header = {name.lower(): value for name, value in self.headers.items()}
                self._send(*provider.answer(header, dict(urllib.parse.parse_qsl(body))))

            def do_GET(self) -> None:
                if self.path == "/jwks":
                    self._send(200, provider.keys.provider.key_set())
                else:
                    self._send(404, {"error": "not_found"})

            def _send(self, status: int, document: dict[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
