"""ListGroups (16), v0-5: all groups, filtered by state and type.

Deliberately missing: types other than classic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Return the groups that match the filters."""
    return broker.groups.list_groups(request, context)
