"""LeaveGroup (13), v0-5: members leave a classic group, alone or in a batch (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """A result per member; before v3 one for the only member."""
    return broker.groups.leave(request, context)
