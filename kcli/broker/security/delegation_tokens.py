"""Delegation tokens (KIP-48, KIP-373) as the image of the metadata log has them: their secrets and verifiers.

A token's HMAC follows from `delegation.token.secret.key` and the token's id, so it is not stored. A client proves with
SCRAM that it knows the HMAC, and acts as the owner of the token. Tokens are issued, renewed and expired by
`kcli.broker.cluster.decide.token_changes`.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.security.sasl.scram import ScramCredential, scram_credential

if TYPE_CHECKING:
    from kcli.broker.cluster.image import MetadataImage
    from kcli.broker.config import BrokerConfig
    from kcli.protocol.metadata_records import DelegationTokenRecord


class DelegationTokens:
    """All tokens of an image by id. BrokerError for each refusal, with the code of Kafka."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        self._config = config
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self.follow(image)

    def __repr__(self) -> str:
        return f"<DelegationTokens {len(self._tokens)}>"

    def follow(self, image: MetadataImage) -> None:
        """Read the tokens of the image."""
        self._tokens = image.tokens
        for key in [key for key in self._credentials if key[1] not in self._tokens]:
            del self._credentials[key]

    def current(self, now_ms: int) -> list[DelegationTokenRecord]:
        """Return the tokens that have not expired. The controller removes the others with its next decision."""
        return [token for token in self._tokens.values() if token.expiration_timestamp >= now_ms]

    def check_enabled(self) -> None:
        if self._config.delegation_token_secret_key is None:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def find(self, hmac: bytes) -> DelegationTokenRecord:
        """Return the token with this secret, which may have expired. BrokerError if there is none."""
        from hmac import compare_digest

        self.check_enabled()
        for token in self._tokens.values():
            if compare_digest(self.hmac(token.token_id), hmac):
                return token
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def hmac(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        import hmac

        key = self._config.delegation_token_secret_key
        assert key is not None, "tokens are disabled"
        return hmac.digest(key.reveal().encode(), token_id.encode(), "sha512")

    def credential(self, mechanism: str, id: str, now_ms: int) -> ScramCredential | None:
        """Return the verifier of a token; None for an unknown or expired token."""
        token = self._tokens.get(id)
        if token is None or token.expiration_timestamp < now_ms or self._config.delegation_token_secret_key is None:
            return None
        key = mechanism, id
        if key not in self._credentials:
            password = b2a_base64(self.hmac(id), newline=False).decode()
            self._credentials[key] = scram_credential(mechanism, password)
        _, _, owner = token.owner.partition(":")
        return self._credentials[key]._replace(owner=owner, expires_at_wall_ms=token.expiration_timestamp)


def concerns(token: DelegationTokenRecord, principal: str) -> bool:
    """Return True for the owner, the requester and the renewers of a token."""
    return principal in (token.owner, token.requester, *token.renewers)
