"""PEM text: the blocks of certificates and of the private key."""

from __future__ import annotations

import base64
import re
import textwrap

from kcli.errors import ConfigError
from kcli.secret import Secret

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")


def certificates(text: str) -> str:
    """Return the certificates of a text, in their order, without what is between them. Empty if there are none."""
    return "".join(f"{block[0]}\n" for block in _BLOCK.finditer(text) if block[1] in _CERTIFICATES)


def private_key(text: str) -> str | None:
    """Return the first private key of a text, encrypted or not; None if there is none."""
    for block in _BLOCK.finditer(text):
        if block[1].endswith("PRIVATE KEY"):
            return f"{block[0]}\n"
    return None


def with_newlines(text: str) -> str:
    """Return the text with newlines where a property file lost them: a literal `\\n`, or blanks, in place of each."""
    text = text.replace("\\r", "").replace("\\n", "\n")
    return _BLOCK.sub(_rewrap, text)


def decrypted(key: str, password: Secret) -> str:
    """Return an encrypted private key as plain PEM text, by the package `cryptography`. Raise ConfigError."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )
    except ImportError:
        raise ConfigError(
            "ssl.key.password is wrong, or the encryption of the private key is an old one; to read such a key, install"
            " the package cryptography: pip install 'kcli-kafka[tls]'"
        ) from None
    try:
        loaded = load_pem_private_key(key.encode(), password.reveal().encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError("ssl.key.password is wrong, or the private key is damaged") from None
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def encode(label: str, der: bytes) -> str:
    """Return one PEM block."""
    lines = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _rewrap(block: re.Match[str]) -> str:
    label, body = block[1], block[2]
    if "," in body:  # a traditional encrypted key: two headers before the base64 text
        headers, _, body = re.sub(r"\s+", " ", body).strip().partition("DEK-Info: ")
        parameters, _, body = body.partition(" ")
        body = f"{headers.strip()}\nDEK-Info: {parameters}\n\n" + "\n".join(textwrap.wrap(body.replace(" ", ""), 64))
    else:
        body = "\n".join(textwrap.wrap("".join(body.split()), 64))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"
