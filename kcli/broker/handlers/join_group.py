"""JoinGroup (11), v0-9: enter a classic group. Waits for the other members of the generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
    """The member's id, its generation, and for the leader everybody's subscriptions."""
    return broker.groups.join(request, context)
