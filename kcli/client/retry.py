"""Asking again until a deadline: growing pauses during which the network goes on."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.client.consumer_network_client import ConsumerNetworkClient


def attempts(client: ConsumerNetworkClient, deadline_ms: float) -> Iterator[int]:
    """0, 1, 2, ... with a pause before each but the first (retry.backoff.ms, growing); ends at the deadline.

    There is always a first one. Who has what they want leaves the loop; who falls out of it was too late.
    """
    number = 0
    while number == 0 or client.clock.now_ms() < deadline_ms:
        yield number
        number += 1
        client.sleep(min(client.retry_backoff.after(number), max(0.0, deadline_ms - client.clock.now_ms())))
