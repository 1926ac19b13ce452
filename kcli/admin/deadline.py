"""How long a broker may work on a request of ours that changes something."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def broker_timeout_ms(client: ConsumerNetworkClient, deadline_ms: float) -> int:
    """The `timeout_ms` to send: a tenth less than we wait, so that the broker says itself that it was too slow."""
    waiting_ms = min(deadline_ms - client.clock.now_ms(), client.config.request_timeout_ms)
    return max(1, int(waiting_ms * 0.9))
