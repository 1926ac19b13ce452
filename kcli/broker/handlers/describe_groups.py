"""DescribeGroups (15), v0-6: state and members of classic groups.

Deliberately missing: KIP-848 groups, which have an API of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Return a row per requested group, including unknown ones."""
    return broker.groups.describe_groups(request, context)
