"""DescribeAcls (29), v1-3: the ACLs that match a filter. DESCRIBE on the cluster is needed.

Deliberately missing: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.handlers.acl_requests import acl_filter, check_acls, refuse_zero_in
from kcli.broker.serving.request_context import RequestContext
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation
from kcli.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.decide.parts import Parts


def handle(broker: Broker | Parts, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Return the ACLs by resource pattern."""
    refuse_zero_in([request])
    try:
        check_acls(broker.authorizer, context, AclOperation.DESCRIBE)
    except BrokerError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    condition = acl_filter(request)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for binding in filter(condition.matches, broker.authorizer.bindings):
        kind, name, pattern = binding.resource_type, binding.resource_name, binding.pattern_type
        resource = resources.setdefault(
            (kind, name, pattern),
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern),
        )
        resource.acls.append(
            AclDescription(
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission_type,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))
