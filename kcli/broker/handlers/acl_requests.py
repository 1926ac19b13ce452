"""Checks that the handlers of ACLs share: the right to use them, numbers, and filters. Not a handler."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from kcli.broker.handlers.rights import cluster_denied
from kcli.broker.security.authorizer import AclFilter
from kcli.broker.serving.request_context import CloseConnection, RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from kcli.broker.security.allow_all import AnyAuthorizer
    from kcli.protocol.messages.delete_acls import DeleteAclsFilter
    from kcli.protocol.messages.describe_acls import DescribeAclsRequest

N = TypeVar("N", bound=IntEnum)


def check_acls(authorizer: AnyAuthorizer, context: RequestContext, operation: AclOperation) -> None:
    """Raise BrokerError if the client must not do this with the ACLs, and if there is no authorizer."""
    if not authorizer.allows_cluster(context, operation):
        raise cluster_denied(operation)
    if authorizer.is_open:
        raise BrokerError(
            ErrorCode.SECURITY_DISABLED, "The broker has no authorizer; set authorizer.class.name in its settings"
        )


def refuse_zero(*numbers: int) -> None:
    """Close the connection if a number is 0, which stands for unknown and must not be sent, as Apache Kafka does."""
    if 0 in numbers:
        raise CloseConnection("an ACL or filter has the number 0")


def known(enum: type[N], number: int) -> N:
    """Return the member; UNKNOWN for a number that Kafka does not define."""
    try:
        return enum(number)
    except ValueError:
        return enum(0)


def refuse_zero_in(filters: Iterable[DescribeAclsRequest | DeleteAclsFilter]) -> None:
    """Close the connection if a number in a filter is 0."""
    for filter in filters:
        refuse_zero(filter.resource_type_filter, filter.pattern_type_filter, filter.operation, filter.permission_type)


def acl_filter(conditions: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return a filter; numbers that Kafka does not define become UNKNOWN, which no ACL matches."""
    return AclFilter(
        known(ResourceType, conditions.resource_type_filter),
        conditions.resource_name_filter,
        known(PatternType, conditions.pattern_type_filter),
        conditions.principal_filter,
        conditions.host_filter,
        known(AclOperation, conditions.operation),
        known(AclPermissionType, conditions.permission_type),
    )
