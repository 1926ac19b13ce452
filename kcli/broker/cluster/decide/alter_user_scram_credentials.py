"""AlterUserScramCredentials (51), v0: set and remove SCRAM users. ALTER on the cluster is needed.

Deliberately missing: nothing. The client has salted the password; neither is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.security.credentials import MECHANISM_NUMBERS, MECHANISMS, Change
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kcli.protocol.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kcli.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, salted_credential

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.decide.parts import Parts
    from kcli.broker.cluster.image import MetadataImage


def handle(
    parts: Parts, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Return a result per user. As in Apache Kafka, a user may be in a request only once, for one mechanism."""
    requested: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    errors: dict[str, BrokerError] = {}
    changes: dict[str, Change] = {}
    try:
        if not parts.authorizer.allows_cluster(context, AclOperation.ALTER):
            raise cluster_denied(AclOperation.ALTER)
        for row in requested:
            try:
                change = _change(parts.draft.image, row)
                if row.name in changes:
                    raise BrokerError(
                        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                    )
                changes[row.name] = change
            except BrokerError as error:
                errors.setdefault(row.name, error)
        write_credentials(parts.draft, [change for user, change in changes.items() if user not in errors])
    except BrokerError as error:
        errors = {row.name: error for row in requested}
    return AlterUserScramCredentialsResponse(
        results=[_result(user, errors.get(user)) for user in dict.fromkeys(row.name for row in requested)]
    )


def write_credentials(draft: Draft, changes: Iterable[Change]) -> None:
    """Write records that set and remove SCRAM users."""
    for user, mechanism, credential in changes:
        number = MECHANISM_NUMBERS[mechanism]
        if credential is None:
            draft.write(RemoveUserScramCredentialRecord(name=user, mechanism=number))
        else:
            draft.write(
                UserScramCredentialRecord(
                    name=user,
                    mechanism=number,
                    salt=credential.salt,
                    stored_key=credential.stored_key,
                    server_key=credential.server_key,
                    iterations=credential.iterations,
                )
            )


def _change(image: MetadataImage, requested: ScramCredentialDeletion | ScramCredentialUpsertion) -> Change:
    """Check a change in the order and words of Apache Kafka. BrokerError if it is not valid."""
    user, mechanism = requested.name, MECHANISMS.get(requested.mechanism)
    if not user:
        raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism is None:
        raise BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(requested, ScramCredentialDeletion):
        if (user, requested.mechanism) not in image.scram:
            raise BrokerError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return Change(user, mechanism, None)
    if requested.iterations < MIN_ITERATIONS:
        raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if requested.iterations > MAX_ITERATIONS:
        raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    salted = bytes(requested.salted_password)
    return Change(user, mechanism, salted_credential(mechanism, salted, bytes(requested.salt), requested.iterations))


def _result(user: str, error: BrokerError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.detail)
