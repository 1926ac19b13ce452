"""DeleteGroups (42), v0-2: delete groups without members, and their offsets (KIP-229).

Deliberately missing: KIP-848 groups and share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """Return a result per group; a duplicate is deleted once."""
    return broker.groups.delete_groups(request, context)
