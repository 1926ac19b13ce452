"""SyncGroup (14), v0-5: the assignment of a member of a classic group.

The answer waits for the leader's assignment. Deliberately missing: KIP-848 groups.
"""

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
    """Return the assignment of the member."""
    return broker.groups.sync(request, context)
