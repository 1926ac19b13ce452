"""DeleteAcls (31), v1-3: remove the ACLs that match filters. ALTER on the cluster is needed.

An ACL that matches several filters is in the result of each. Deliberately missing: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kcli.broker.handlers.acl_requests import acl_filter, check_acls, refuse_zero_in
from kcli.broker.security.authorizer import AclBinding, AclFilter
from kcli.broker.security.image_security import acl_binding
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
from kcli.protocol.metadata_records import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.decide.parts import Parts


def handle(parts: Parts, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Return the removed ACLs of each filter."""
    refuse_zero_in(request.filters)
    filters = [acl_filter(row) for row in request.filters]
    faults = [_fault(condition) for condition in filters]
    try:
        check_acls(parts.authorizer, context, AclOperation.ALTER)
        valid = [condition for condition, fault in zip(filters, faults, strict=True) if fault is None]
        removed = iter(remove_acls(parts.draft, valid))
    except BrokerError as error:
        return DeleteAclsResponse(filter_results=[_error_result(error.code, error.detail) for _ in filters])
    return DeleteAclsResponse(
        filter_results=[
            _removed(next(removed)) if fault is None else _error_result(ErrorCode.INVALID_REQUEST, fault)
            for fault in faults
        ]
    )


def remove_acls(draft: Draft, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
    """Remove the ACLs that match any filter, and return those of each."""
    entries = {acl_id: acl_binding(record) for acl_id, record in draft.image.acls.items()}
    removed = [[acl_id for acl_id in entries if condition.matches(entries[acl_id])] for condition in filters]
    for acl_id in dict.fromkeys(chain.from_iterable(removed)):
        draft.write(RemoveAccessControlEntryRecord(id=acl_id))
    return [[entries[acl_id] for acl_id in matching] for matching in removed]


def _removed(bindings: list[AclBinding]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[DeleteAclsMatchingAcl(error_message=None, **binding._asdict()) for binding in bindings],
    )


def _error_result(code: ErrorCode, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message)


def _fault(condition: AclFilter) -> str | None:
    if not condition.resource_type or not condition.pattern_type:
        return "Unknown patternFilter."
    if not condition.operation or not condition.permission_type:
        return "Unknown entryFilter."
    return None
