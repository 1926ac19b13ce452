"""DeleteAcls (31), v1-3: remove the ACLs that match filters. ALTER on the cluster is needed.

An ACL that matches several filters is in the result of each. Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.acl_requests import acl_filter, check_acls, refuse_zero_in
from kcli.broker.security.authorizer import AclBinding, AclFilter
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts


def handle(parts: Parts, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Return the removed ACLs of each filter."""
    refuse_zero_in(request.filters)
    filters = [acl_filter(one) for one in request.filters]
    faults = [_fault(one) for one in filters]
    try:
        check_acls(parts.authorizer, context, AclOperation.ALTER)
        valid = (one for one, fault in zip(filters, faults, strict=True) if fault is None)
        removed = iter(parts.acls.remove(valid))
    except BrokerError as error:
        return DeleteAclsResponse(filter_results=[_error_result(error.code, error.detail) for _ in filters])
    return DeleteAclsResponse(
        filter_results=[
            _removed(next(removed)) if fault is None else _error_result(ErrorCode.INVALID_REQUEST, fault)
            for fault in faults
        ]
    )


def _removed(bindings: list[AclBinding]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[DeleteAclsMatchingAcl(error_message=None, **binding._asdict()) for binding in bindings],
    )


def _error_result(code: ErrorCode, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message)


def _fault(one: AclFilter) -> str | None:
    if not one.resource_type or not one.pattern_type:
        return "Unknown patternFilter."
    if not one.operation or not one.permission_type:
        return "Unknown entryFilter."
    return None
