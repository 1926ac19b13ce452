"""How long one of several questions may take, so that a broker that is down does not use up the time for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def half_of(client: ConsumerNetworkClient, deadline_ms: float) -> float:
    """The deadline for the next question: half of what is left."""
    now_ms = client.clock.now_ms()
    return now_ms + max(0.0, deadline_ms - now_ms) / 2
