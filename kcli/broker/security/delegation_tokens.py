"""Delegation tokens (KIP-48, KIP-373): issued, renewed and expired as by Kafka's DelegationTokenControlManager.

A token's HMAC follows from `delegation.token.secret.key` and the token's id, so it is not stored. A client proves with
SCRAM that it knows the HMAC, and acts as the owner of the token.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.broker.data_dir import random_uuid, uuid_text
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.security.sasl.scram import ScramCredential, scram_credential

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig


class DelegationToken(NamedTuple):
    """A token. Principals are texts such as `User:alice`; times are of the wall clock, in ms."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def concerns(self, principal: str) -> bool:
        """Return True for the owner, the requester and the renewers."""
        return principal in (self.owner, self.requester, *self.renewers)


class TokenStore(Protocol):
    """The place where tokens are kept: an image of the metadata log, or a draft of records for it."""

    def load(self) -> dict[str, DelegationToken]:
        """Return the tokens by id."""

    def save(self, tokens: dict[str, DelegationToken]) -> None:
        """Keep these tokens and no others."""


class DelegationTokens:
    """All tokens by id. BrokerError for each refusal, with the code of Kafka."""

    def __init__(self, store: TokenStore, config: BrokerConfig) -> None:
        self._config = config
        self._store = store
        self._tokens = store.load()
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def __repr__(self) -> str:
        return f"<DelegationTokens {len(self._tokens)}>"

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._tokens.values())

    def check_enabled(self) -> None:
        if self._config.delegation_token_secret_key is None:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def create(
        self, owner: str, requester: str, renewers: Iterable[str], max_lifetime_ms: int, now_ms: int
    ) -> DelegationToken:
        """Issue a token. A lifetime of 0 or less means the largest one that the broker allows."""
        self.check_enabled()
        max_ms = now_ms + _bounded(max_lifetime_ms, self._config.delegation_token_max_lifetime_ms)
        expires_ms = min(max_ms, now_ms + self._config.delegation_token_expiry_time_ms)
        token = DelegationToken(uuid_text(random_uuid()), owner, requester, tuple(renewers), now_ms, max_ms, expires_ms)
        self._put(token)
        return token

    def renew(self, hmac: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Let a token expire later; return the time."""
        token = self._find(hmac)
        _check_current(token, now_ms)
        _check_concerned(token, principal)
        period_ms = _bounded(period_ms, self._config.delegation_token_expiry_time_ms)
        return self._expire_at(token, min(token.max_ms, now_ms + period_ms))

    def expire(self, hmac: bytes, principal: str, period_ms: int, now_ms: int) -> int:
        """Let a token expire after a period, or remove it now if that is negative; return the time."""
        token = self._find(hmac)
        _check_concerned(token, principal)
        if period_ms < 0:
            self._save({id: one for id, one in self._tokens.items() if id != token.id})
            return now_ms
        _check_current(token, now_ms)
        return self._expire_at(token, min(token.max_ms, now_ms + period_ms))

    def remove_expired(self, now_ms: int) -> None:
        current = {id: token for id, token in self._tokens.items() if token.expires_ms >= now_ms}
        if len(current) < len(self._tokens):
            self._save(current)

    def hmac(self, token: DelegationToken) -> bytes:
        """Return the secret of a token."""
        import hmac

        key = self._config.delegation_token_secret_key
        assert key is not None, "tokens are disabled"
        return hmac.digest(key.reveal().encode(), token.id.encode(), "sha512")

    def credential(self, mechanism: str, id: str, now_ms: int) -> ScramCredential | None:
        """Return the verifier of a token; None for an unknown or expired token."""
        token = self._tokens.get(id)
        if token is None or token.expires_ms < now_ms or self._config.delegation_token_secret_key is None:
            return None
        key = mechanism, id
        if key not in self._credentials:
            password = b2a_base64(self.hmac(token), newline=False).decode()
            self._credentials[key] = scram_credential(mechanism, password)
        _, _, owner = token.owner.partition(":")
        return self._credentials[key]._replace(owner=owner, expires_at_wall_ms=token.expires_ms)

    def _find(self, hmac: bytes) -> DelegationToken:
        from hmac import compare_digest

        self.check_enabled()
        for token in self._tokens.values():
            if compare_digest(self.hmac(token), hmac):
                return token
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def _expire_at(self, token: DelegationToken, expires_ms: int) -> int:
        self._put(token._replace(expires_ms=expires_ms))
        return expires_ms

    def _put(self, token: DelegationToken) -> None:
        self._save({**self._tokens, token.id: token})

    def _save(self, tokens: dict[str, DelegationToken]) -> None:
        self._store.save(tokens)
        self._tokens = tokens
        for key in [key for key in self._credentials if key[1] not in tokens]:
            del self._credentials[key]


def _bounded(period_ms: int, largest_ms: int) -> int:
    return min(period_ms, largest_ms) if period_ms > 0 else largest_ms


def _check_current(token: DelegationToken, now_ms: int) -> None:
    if min(token.max_ms, token.expires_ms) < now_ms:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_concerned(token: DelegationToken, principal: str) -> None:
    if not token.concerns(principal):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
