"""ACLs, SCRAM users and delegation tokens of an image, in the form that the broker's security uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.security.authorizer import AclBinding
from kcli.broker.security.credentials import MECHANISMS
from kcli.broker.security.delegation_tokens import DelegationToken
from kcli.security.sasl.scram import ScramCredential

if TYPE_CHECKING:
    from kcli.broker.metadata.image import MetadataImage
    from kcli.protocol.metadata_records import AccessControlEntryRecord, UserScramCredentialRecord

#: The numbers of the SCRAM mechanisms in records.
MECHANISM_NUMBERS = {name: number for number, name in MECHANISMS.items()}


def acl_bindings(image: MetadataImage) -> tuple[AclBinding, ...]:
    """Return all ACLs."""
    return tuple(map(acl_binding, image.acls.values()))


def acl_binding(record: AccessControlEntryRecord) -> AclBinding:
    return AclBinding(*(getattr(record, name) for name in AclBinding._fields))


def scram_credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.iterations, record.stored_key, record.server_key)


def delegation_tokens(image: MetadataImage) -> dict[str, DelegationToken]:
    """Return all tokens by id."""
    return {
        record.token_id: DelegationToken(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )
        for record in image.tokens.values()
    }
