"""Assertions: tokens that the client signs, to prove who it is to a token endpoint (RFC 7523, KIP-1139, KIP-1258)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kcli.clock import Clock
from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.security_settings import SecuritySettings

_PREFIX = "sasl.oauthbearer.assertion"
_MAX_FILE_BYTES = 1 << 20


class Assertion:
    """The configured assertion: a file that has it, or claims that this client signs. Calling it returns one.

    Raise ConfigError, here if a property is missing, and from the call if a file cannot be used.
    """

    def __init__(self, config: SecuritySettings, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        if (
            config.sasl_oauthbearer_assertion_file is None
            and config.sasl_oauthbearer_assertion_private_key_file is None
        ):
            raise ConfigError(
                f"{_PREFIX}.private.key.file is missing; set it, or {_PREFIX}.file to a file with the assertion"
            )

    def __call__(self) -> Secret:
        """Read the assertion, or sign a new one."""
        config = self._config
        if config.sasl_oauthbearer_assertion_file is not None:
            return Secret(read_text(f"{_PREFIX}.file", config.sasl_oauthbearer_assertion_file).strip())
        name = f"{_PREFIX}.private.key.file"
        pem = read_text(name, config.sasl_oauthbearer_assertion_private_key_file or "")
        key = jwt.load_private_key(pem.encode(), config.sasl_oauthbearer_assertion_private_key_passphrase, name)
        header, claims = self._template()
        try:
            return jwt.sign(
                header, self._claims() | claims | self._times(), key, config.sasl_oauthbearer_assertion_algorithm
            )
        except ConfigError as error:
            raise ConfigError(f"{name}: {error.message}") from None

    def _claims(self) -> dict[str, Any]:
        config = self._config
        claims = {
            "aud": config.sasl_oauthbearer_assertion_claim_aud,
            "iss": config.sasl_oauthbearer_assertion_claim_iss,
            "sub": config.sasl_oauthbearer_assertion_claim_sub,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The header and the claims of the template file, which override the single properties."""
        file = self._config.sasl_oauthbearer_assertion_template_file
        if file is None:
            return {}, {}
        name = f"{_PREFIX}.template.file"
        try:
            template = json.loads(read_text(name, file))
        except (ValueError, RecursionError):
            template = None
        header, claims = (_part(template, part) for part in ("header", "payload"))
        if header is None or claims is None:
            raise ConfigError(f'{name}: {file!r} is not JSON of the form {{"header": {{...}}, "payload": {{...}}}}')
        return header, claims

    def _times(self) -> dict[str, Any]:
        config, now_s = self._config, self._clock.wall_ms() // 1000
        times: dict[str, Any] = {
            "iat": now_s,
            "exp": now_s + config.sasl_oauthbearer_assertion_claim_exp_seconds,
            "nbf": now_s - config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        }
        return times | ({"jti": jwt.new_id()} if config.sasl_oauthbearer_assertion_claim_jti_include else {})


def read_text(name: str, file: str) -> str:
    """Return the text of a file. Raise ConfigError, which names the property and the file."""
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(_MAX_FILE_BYTES + 1)
        if len(data) <= _MAX_FILE_BYTES:
            return data.decode("utf-8-sig")
        problem = f"has more than {_MAX_FILE_BYTES} bytes"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except ValueError:
        problem = "is not a text"
    raise ConfigError(f"{name}: {file!r} {problem}")


def _part(template: object, name: str) -> dict[str, Any] | None:
    part = template.get(name, {}) if isinstance(template, Mapping) else None
    return part if isinstance(part, dict) else None
