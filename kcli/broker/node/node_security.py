"""Security of a node: ACLs, SCRAM users and delegation tokens of the metadata log.

Clients change them by requests that the node forwards to the controller. SCRAM users in the JAAS text of a listener
are known on that node only, and the log has precedence over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from kcli.broker.metadata.image_security import acl_bindings, delegation_tokens, scram_credential_of
from kcli.broker.security.acl_store import AclStore
from kcli.broker.security.authorizer import Authorizer
from kcli.broker.security.credentials import MECHANISMS, Change, Credentials
from kcli.broker.security.delegation_tokens import DelegationTokens
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol import metadata_records as records
from kcli.security.sasl.scram import ScramCredential, scram_credential

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.metadata.image import Changes, MetadataImage
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.broker.security.authorizer import AclBinding
    from kcli.broker.security.delegation_tokens import DelegationToken
    from kcli.secret import Secret

_ACLS = {records.AccessControlEntryRecord, records.RemoveAccessControlEntryRecord}
_SCRAM = {records.UserScramCredentialRecord, records.RemoveUserScramCredentialRecord}
_TOKENS = {records.DelegationTokenRecord, records.RemoveDelegationTokenRecord}


class NodeSecurity:
    """`acls`, `credentials` and `tokens` of the image; `acls` is None without an authorizer."""

    def __init__(self, image: MetadataImage, config: BrokerConfig, authorizer: AnyAuthorizer) -> None:
        self._image = image
        self.acls = NodeAcls(authorizer, image) if isinstance(authorizer, Authorizer) else None
        self.credentials = NodeCredentials(image)
        self.tokens = NodeTokens(image, config)

    def __repr__(self) -> str:
        return f"<NodeSecurity {self.acls!r} {self.credentials!r} {self.tokens!r}>"

    def apply(self, image: MetadataImage, changes: Changes) -> None:
        """Follow the changes of a batch. Another image than before, such as one of a snapshot, is read as a whole."""
        is_other, self._image = image is not self._image, image
        if self.acls is not None and (is_other or changes.kinds & _ACLS):
            self.acls.follow(image)
        if is_other or changes.kinds & _SCRAM:
            self.credentials.follow(image)
        if is_other or changes.kinds & _TOKENS:
            self.tokens.follow(image)


class NodeAcls(AclStore):
    """The ACLs of the image and the authorizer that uses them."""

    def __init__(self, authorizer: Authorizer, image: MetadataImage) -> None:
        self._authorizer = authorizer
        self.follow(image)

    def __repr__(self) -> str:
        return f"<NodeAcls {len(self.bindings)} ACLs>"

    def follow(self, image: MetadataImage) -> None:
        self._authorizer.replace(acl_bindings(image))

    def _replace(self, bindings: Iterable[AclBinding]) -> NoReturn:
        raise _not_here()


class NodeCredentials(Credentials):
    """The SCRAM users of the image, and those of this node's own listeners."""

    def __init__(self, image: MetadataImage) -> None:
        self._own: dict[str, dict[str, ScramCredential]] = {name: {} for name in MECHANISMS.values()}
        self.follow(image)

    def follow(self, image: MetadataImage) -> None:
        changed = {name: dict(users) for name, users in self._own.items()}
        for (user, number), record in image.scram.items():
            if number in MECHANISMS:
                changed[MECHANISMS[number]][user] = scram_credential_of(record)
        self._by_mechanism = changed

    def ensure(self, mechanism: str, passwords: Mapping[str, Secret]) -> None:
        for user, password in passwords.items():
            own = scram_credential(mechanism, password.reveal())
            self._own[mechanism][user] = own
            self._by_mechanism[mechanism].setdefault(user, own)

    def apply(self, changes: Iterable[Change]) -> NoReturn:
        raise _not_here()


class NodeTokens(DelegationTokens):
    """The delegation tokens of the image. The controller removes the expired ones."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        super().__init__(_TokensOf(image), config)

    def follow(self, image: MetadataImage) -> None:
        self._save(delegation_tokens(image))

    def remove_expired(self, now_ms: int) -> None:
        self._save({token.id: token for token in self if token.expires_ms >= now_ms})


class _TokensOf:
    """The tokens of an image, which are not stored anywhere else."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def load(self) -> dict[str, DelegationToken]:
        return delegation_tokens(self._image)

    def save(self, tokens: dict[str, DelegationToken]) -> None:
        pass


def _not_here() -> BrokerError:
    return BrokerError(ErrorCode.NOT_CONTROLLER, "the controller changes ACLs, SCRAM users and tokens, not this broker")
