"""ACLs, SCRAM users and delegation tokens of an image, in the form that the broker's security uses.

Clients change them by requests about which the controller decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.security.authorizer import AclBinding, Authorizer
from kcli.broker.security.credentials import Change, Credentials
from kcli.broker.security.delegation_tokens import DelegationTokens
from kcli.protocol import metadata_records as records

if TYPE_CHECKING:
    from kcli.broker.cluster.image import Changes, MetadataImage
    from kcli.broker.config import BrokerConfig
    from kcli.broker.security.allow_all import AnyAuthorizer

_ACLS = {records.AccessControlEntryRecord, records.RemoveAccessControlEntryRecord}
_SCRAM = {records.UserScramCredentialRecord, records.RemoveUserScramCredentialRecord}
_TOKENS = {records.DelegationTokenRecord, records.RemoveDelegationTokenRecord}


def acl_bindings(image: MetadataImage) -> tuple[AclBinding, ...]:
    """Return all ACLs."""
    return tuple(map(acl_binding, image.acls.values()))


def acl_binding(record: records.AccessControlEntryRecord) -> AclBinding:
    return AclBinding(*(getattr(record, name) for name in AclBinding._fields))


class ImageSecurity:
    """The `credentials` and `tokens` of the image; its ACLs are in the authorizer, if there is one."""

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        authorizer: AnyAuthorizer,
        store: Callable[[list[Change]], None] | None = None,
    ) -> None:
        """`store` writes SCRAM users to the log; None: this broker cannot."""
        self._image = image
        self._authorizer = authorizer
        self.credentials = Credentials(image, store)
        self.tokens = DelegationTokens(image, config)
        self._follow_acls()

    def __repr__(self) -> str:
        return f"<ImageSecurity {len(self._authorizer.bindings)} ACLs {self.credentials!r} {self.tokens!r}>"

    def apply(self, image: MetadataImage, changes: Changes) -> None:
        """Follow the changes of a batch. Another image than before, such as one of a snapshot, is read as a whole."""
        is_other, self._image = image is not self._image, image
        if is_other or changes.kinds & _ACLS:
            self._follow_acls()
        if is_other or changes.kinds & _SCRAM:
            self.credentials.follow(image)
        if is_other or changes.kinds & _TOKENS:
            self.tokens.follow(image)

    def _follow_acls(self) -> None:
        if isinstance(self._authorizer, Authorizer):
            self._authorizer.replace(acl_bindings(self._image))
