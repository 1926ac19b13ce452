"""DeleteGroups (42), v0-2: groups without members go, and their offsets with them (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """A result per group; one named twice is deleted once."""
    return broker.groups.delete_groups(request, context)
