"""DescribeGroups (15), v0-6: state and members of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """A row per group asked for, also for those that are not there."""
    return broker.groups.describe_groups(request, context)
