"""Throttling: connections that are not read for a time, because their clients are over a quota (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcli.broker.quotas import REQUEST_RATE
from kcli.broker.serving.timer import Timer, TimerTask
from kcli.clock import Clock
from kcli.network.selector import Selector
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message, Request

if TYPE_CHECKING:
    from kcli.broker.quotas import ClientQuotas
    from kcli.broker.serving.request_context import EncodedResponse, RequestContext

# Requests of brokers, which request_percentage exempts.
_OF_BROKERS = frozenset(
    {
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.ENVELOPE,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
# Requests whose handler, or the controller, sets throttle_time_ms by controller_mutation_rate.
_OF_CONTROLLERS = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})


class Throttling:
    """The muted connections of clients over a quota, and the times for which the next answers mute others."""

    def __init__(
        self, selector: Selector, timer: Timer, clock: Clock, client_quotas: Callable[[], ClientQuotas | None]
    ) -> None:
        """`client_quotas()` returns the quotas of clients, None without any."""
        self._selector = selector
        self._timer = timer
        self._clock = clock
        self._client_quotas = client_quotas
        self._muted: dict[str, TimerTask] = {}
        self._request_waits_ms: dict[str, int] = {}

    def __contains__(self, id: str) -> bool:
        """Return whether a connection is not read now."""
        return id in self._muted

    def throttle(self, id: str, ms: float) -> None:
        """Read nothing from a connection for this time."""
        if not self._selector.is_connected(id):
            return
        until_ms = self._clock.now_ms() + ms
        if id in self._muted:
            until_ms = max(until_ms, self._muted[id].deadline_ms)
            self._muted[id].cancel()
        self._selector.mute(id)
        self._muted[id] = self._timer.call_at(until_ms, lambda: self._end(id))

    def _end(self, id: str) -> None:
        del self._muted[id]
        self._selector.unmute(id)

    def forget(self, id: str) -> None:
        """Forget a connection that is closed."""
        self._request_waits_ms.pop(id, None)
        if id in self._muted:
            self._muted.pop(id).cancel()

    def measure(self, request: Request[Any], context: RequestContext, begin_ms: float) -> None:
        """Count the time in the handler towards request_percentage (KIP-124); brokers are exempt."""
        quotas = self._client_quotas()
        if quotas is None or context.api_key in _OF_BROKERS or _is_replica(request):
            return
        now_ms = self._clock.now_ms()
        percent = (now_ms - begin_ms) / 10
        wait_ms = quotas.throttle_ms(REQUEST_RATE, context.principal, context.client_id, percent, now_ms)
        if wait_ms:
            self._request_waits_ms[context.connection_id] = min(wait_ms, int(quotas.windows.size_ms))

    def apply(self, response: Message | EncodedResponse | None, context: RequestContext) -> None:
        """Throttle the connection that gets this response, if a quota wants that, and tell the client."""
        wait_ms = self._request_waits_ms.pop(context.connection_id, 0)
        if context.api_key in _OF_CONTROLLERS and isinstance(response, Message):
            wait_ms = max(wait_ms, getattr(response, "throttle_time_ms", 0))
        if wait_ms:
            self.throttle(context.connection_id, wait_ms)
            if isinstance(response, Message) and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)


def _is_replica(request: Request[Any]) -> bool:
    """Return whether this is a Fetch of a follower or of an observer."""
    state = getattr(request, "replica_state", None)
    return getattr(request, "replica_id", -1) >= 0 or (state is not None and state.replica_id >= 0)
