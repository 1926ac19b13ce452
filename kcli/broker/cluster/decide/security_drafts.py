"""ACLs, SCRAM users and delegation tokens of a draft, as the handlers of the embedded broker see and change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.broker.data_dir import random_uuid
from kcli.broker.security.authorizer import AclBinding, AclFilter
from kcli.broker.security.credentials import MECHANISM_NUMBERS, Change, scram_credential_of
from kcli.broker.security.delegation_tokens import DelegationToken
from kcli.broker.security.image_security import acl_binding, acl_bindings, delegation_tokens
from kcli.protocol.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kcli.security.sasl.scram import ScramCredential

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft


class DraftAcls:
    """The ACLs of a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @property
    def bindings(self) -> tuple[AclBinding, ...]:
        return acl_bindings(self._draft.image)

    def add(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs; those that exist are ignored."""
        existing = set(self.bindings)
        for binding in dict.fromkeys(bindings):
            if binding not in existing:
                self._draft.write(AccessControlEntryRecord(id=random_uuid(), **binding._asdict()))

    def remove(self, filters: Iterable[AclFilter]) -> list[list[AclBinding]]:
        """Remove the ACLs that match any filter, and return those of each."""
        entries = {acl_id: acl_binding(record) for acl_id, record in self._draft.image.acls.items()}
        removed = [[acl_id for acl_id, binding in entries.items() if one.matches(binding)] for one in filters]
        for acl_id in dict.fromkeys(acl_id for matching in removed for acl_id in matching):
            self._draft.write(RemoveAccessControlEntryRecord(id=acl_id))
        return [[entries[acl_id] for acl_id in matching] for matching in removed]


class DraftCredentials:
    """The SCRAM users of a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        record = self._draft.image.scram.get((user, MECHANISM_NUMBERS[mechanism]))
        return None if record is None else scram_credential_of(record)

    def apply(self, changes: Iterable[Change]) -> None:
        """Set and remove credentials."""
        for user, mechanism, credential in changes:
            number = MECHANISM_NUMBERS[mechanism]
            if credential is None:
                self._draft.write(RemoveUserScramCredentialRecord(name=user, mechanism=number))
            else:
                self._draft.write(
                    UserScramCredentialRecord(
                        name=user,
                        mechanism=number,
                        salt=credential.salt,
                        stored_key=credential.stored_key,
                        server_key=credential.server_key,
                        iterations=credential.iterations,
                    )
                )


class TokenRecords:
    """The delegation tokens of a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def load(self) -> dict[str, DelegationToken]:
        return delegation_tokens(self._draft.image)

    def save(self, tokens: Mapping[str, DelegationToken]) -> None:
        before = self.load()
        for token_id in before.keys() - tokens.keys():
            self._draft.write(RemoveDelegationTokenRecord(token_id=token_id))
        for token in tokens.values():
            if token != before.get(token.id):
                self._draft.write(
                    DelegationTokenRecord(
                        owner=token.owner,
                        requester=token.requester,
                        renewers=list(token.renewers),
                        issue_timestamp=token.issued_ms,
                        max_timestamp=token.max_ms,
                        expiration_timestamp=token.expires_ms,
                        token_id=token.id,
                    )
                )
