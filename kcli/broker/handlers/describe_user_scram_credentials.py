"""DescribeUserScramCredentials (50), v0: mechanisms and iterations of SCRAM users. DESCRIBE on the cluster is needed.

Deliberately missing: nothing. Apache Kafka does not answer a client without the right that asks for all users; this
broker does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.security.credentials import MECHANISMS, Credentials
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Return a result per user; null and an empty list ask for all users."""
    if not broker.authorizer.allows_cluster(context, AclOperation.DESCRIBE):
        error = cluster_denied(AclOperation.DESCRIBE)
        return DescribeUserScramCredentialsResponse(
            error_code=error.code,
            error_message=error.detail,
            results=[  # without names, as in Apache Kafka
                DescribeUserScramCredentialsResult(error_code=error.code, error_message=None)
                for _ in request.users or ()
            ],
        )
    names = [user.name for user in request.users or ()] or broker.credentials.users()
    return DescribeUserScramCredentialsResponse(
        results=[_describe(broker.credentials, user, names.count(user) > 1) for user in dict.fromkeys(names)],
    )


def _describe(credentials: Credentials, user: str, is_repeated: bool) -> DescribeUserScramCredentialsResult:
    if is_repeated:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    known = [(number, credentials.credential(name, user)) for number, name in MECHANISMS.items()]
    infos = [CredentialInfo(mechanism=number, iterations=row.iterations) for number, row in known if row is not None]
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
