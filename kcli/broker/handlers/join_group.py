"""JoinGroup (11), v0-9: enter a classic group.

The answer waits for the other members of the generation. Deliberately missing: KIP-848 groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.pending import Pending
from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> Pending[JoinGroupResponse]:
    """Return the member id and generation, and for the leader the subscriptions of all members."""
    return broker.groups.join(request, context)
