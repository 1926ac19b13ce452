"""SyncGroup (14), v0-5: who reads what. Waits for the leader's assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(
    broker: Broker, request: SyncGroupRequest, context: RequestContext
) -> Pending[SyncGroupResponse] | SyncGroupResponse:
    """The member's part of the assignment."""
    return broker.groups.sync(request, context)
