"""CreateAcls (30), v1-3: add ACLs; one that exists already is accepted. ALTER on the cluster is needed.

Deliberately missing: nothing. As in Apache Kafka, an ACL may name an operation that its resource does not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.broker.data_dir import random_uuid
from kcli.broker.handlers.acl_requests import check_acls, known, refuse_zero
from kcli.broker.security.authorizer import AclBinding
from kcli.broker.security.image_security import acl_bindings
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kcli.protocol.metadata_records import AccessControlEntryRecord

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.decide.parts import Parts


def handle(parts: Parts, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Return a result per ACL; all that are valid are added together."""
    for row in request.creations:
        refuse_zero(row.resource_type, row.resource_pattern_type, row.operation, row.permission_type)
    try:
        check_acls(parts.authorizer, context, AclOperation.ALTER)
        if any(map(_is_filter, request.creations)):
            # Apache Kafka fails on these with an unexpected error, and reports it for the whole request.
            failed = AclCreationResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None)
            return CreateAclsResponse(results=[failed] * len(request.creations))
        results = [_check(row) for row in request.creations]
        valid = [row for row, result in zip(request.creations, results, strict=True) if not result.error_code]
        add_acls(parts.draft, map(_binding, valid))
    except BrokerError as error:
        results = [AclCreationResult(error_code=error.code, error_message=error.detail) for _ in request.creations]
    return CreateAclsResponse(results=results)


def add_acls(draft: Draft, bindings: Iterable[AclBinding]) -> None:
    """Write records of ACLs; those that exist are ignored."""
    existing = set(acl_bindings(draft.image))
    for binding in dict.fromkeys(bindings):
        if binding not in existing:
            draft.write(AccessControlEntryRecord(id=random_uuid(), **binding._asdict()))


def _binding(creation: AclCreation) -> AclBinding:
    return AclBinding(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _is_filter(creation: AclCreation) -> bool:
    """Return whether the ACL has ANY or MATCH, which only filters may have."""
    return (
        creation.resource_type == ResourceType.ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.operation == AclOperation.ANY
        or creation.permission_type == AclPermissionType.ANY
    )


def _check(creation: AclCreation) -> AclCreationResult:
    """Return the result of a valid ACL, or its error, in Apache Kafka's words."""
    fault = _fault(creation)
    if fault is not None:
        return AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault)
    return AclCreationResult()


def _fault(creation: AclCreation) -> str | None:
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not creation.resource_name:
        return "Invalid empty resource name"
    if not known(ResourceType, creation.resource_type):
        return "Invalid resourceType UNKNOWN"
    if not known(PatternType, creation.resource_pattern_type):
        return "Invalid patternType UNKNOWN"
    if not known(AclOperation, creation.operation):
        return "Invalid operation UNKNOWN"
    if not known(AclPermissionType, creation.permission_type):
        return "Invalid permissionType UNKNOWN"
    if ":" not in creation.principal:
        return (
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    return None
