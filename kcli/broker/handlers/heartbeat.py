"""Heartbeat (12), v0-4: keep a member of a classic group alive.

Deliberately missing: KIP-848 and share groups, which have APIs of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Return error 27 if the member must rejoin."""
    return broker.groups.heartbeat(request, context)
