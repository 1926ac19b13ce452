"""How long one of several questions may take, so that a broker that is down does not use up the time for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

# A leader is elected in well under a second where one can be; where none can be, waiting does not help.
LEADERLESS_MS = 1_000


def half_of(client: ConsumerNetworkClient, deadline_ms: float) -> float:
    """The deadline for the next question: half of what is left."""
    now_ms = client.clock.now_ms()
    return now_ms + max(0.0, deadline_ms - now_ms) / 2
