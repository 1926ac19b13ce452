"""The life of a node at its controller: registration, then heartbeats (KIP-631). Pure: no sockets, no clock.

STARTING     not registered, or the metadata that the node has applied does not yet include its registration
RECOVERY     caught up; the node opens its partitions, then asks to be unfenced
RUNNING      unfenced at least once; the controller may fence the node and unfence it again
SHUTTING_DOWN  asks the controller to move its leaderships away
STOPPED      the controller allows the node to stop

`Lifecycle` decides which request is next and when. The heartbeat thread sends it; the loop thread sets
`applied_offset`, `is_ready` and `wants_shutdown`, and only reads the rest. Each of these is one value that one thread
writes, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any
from uuid import UUID

from kcli.broker.cluster.cluster_values import Listener
from kcli.broker.cluster.features import SUPPORTED_FEATURES
from kcli.error_codes import ErrorCode
from kcli.protocol.messages import broker_registration
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from kcli.protocol.wire import Request

_FIRST_RETRY_MS = 100.0
_MAX_RETRY_MS = 1000.0
# Interval of heartbeats while an answer is expected to change at once.
_CATCHING_UP_MS = 10.0
_LEAVING_MS = 100.0


class State(Enum):
    """See the module's description."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    SHUTTING_DOWN = 4
    STOPPED = 5


class Lifecycle:
    """Decides the requests of registration and heartbeats.

    `epoch` is the broker epoch of the registration, -1 before it. `is_fenced` is the controller's last answer. `fault`
    is the reason of the last failure, None after a success.
    """

    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        incarnation_id: UUID,
        listeners: Sequence[Listener],
        rack: str | None,
        directory_id: UUID,
        previous_epoch: int = -1,
        heartbeat_interval_ms: float = 2000,
    ) -> None:
        """`previous_epoch` is the broker epoch of the last clean shutdown, -1 after a crash."""
        self.state = State.STARTING
        self.epoch = -1
        self.is_fenced = True
        self.fault: str | None = None
        self.answered_ms = float("-inf")
        # Set by the loop thread.
        self.applied_offset = -1
        self.is_ready = False
        self.wants_shutdown = False
        self._registration = BrokerRegistrationRequest(
            broker_id=node_id,
            cluster_id=cluster_id,
            incarnation_id=incarnation_id,
            listeners=[broker_registration.Listener(**listener._asdict()) for listener in listeners],
            features=[
                Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=rack,
            log_dirs=[directory_id],
            previous_broker_epoch=previous_epoch,
        )
        self._interval_ms = heartbeat_interval_ms
        self._due_ms = 0.0
        self._retry_ms = 0.0
        self._last_sent: tuple[bool, bool] | None = None

    def __repr__(self) -> str:
        return f"<Lifecycle {self.state.name} epoch={self.epoch}{' fenced' if self.is_fenced else ''}>"

    def due_ms(self) -> float:
        """Return the time of the next request. A change of `is_ready` or `wants_shutdown` makes it due at once."""
        if self.state is State.STOPPED:
            return float("inf")
        return float("-inf") if self.fault is None and self._has_news() else self._due_ms

    def next_request(self) -> Request[Any]:
        """Return the request to send now."""
        if self.epoch < 0:
            return self._registration
        wants_fence, wants_shutdown = self._wishes()
        self._last_sent = wants_fence, wants_shutdown
        return BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.applied_offset,
            want_fence=wants_fence,
            want_shut_down=wants_shutdown,
            cordoned_log_dirs=None if self.state is State.STARTING else [],
        )

    def on_response(self, response: BrokerRegistrationResponse | BrokerHeartbeatResponse, now_ms: float) -> None:
        """Follow the controller's answer."""
        if response.error_code:
            self.on_failure(ErrorCode.of(response.error_code).name, now_ms)
            return
        self.fault, self._retry_ms, self.answered_ms = None, 0.0, now_ms
        if isinstance(response, BrokerRegistrationResponse):
            self.epoch = response.broker_epoch
            self._due_ms = now_ms
            return
        self.is_fenced = response.is_fenced
        if self.state is State.STARTING and response.is_caught_up:
            self.state = State.RECOVERY
        if self.state is State.RECOVERY and self.is_ready and not response.is_fenced:
            self.state = State.RUNNING
        if self.wants_shutdown:
            self.state = State.STOPPED if response.should_shut_down else State.SHUTTING_DOWN
        self._due_ms = now_ms + self._pause_ms()

    def on_failure(self, reason: str, now_ms: float) -> None:
        """Try again later: no answer, or an error. DUPLICATE_BROKER_REGISTRATION ends with the old session."""
        self.fault = reason
        self._retry_ms = min(max(2 * self._retry_ms, _FIRST_RETRY_MS), _MAX_RETRY_MS)
        self._due_ms = now_ms + self._retry_ms

    def _wishes(self) -> tuple[bool, bool]:
        return not self.is_ready, self.wants_shutdown

    def _has_news(self) -> bool:
        return self.epoch >= 0 and self._last_sent is not None and self._last_sent != self._wishes()

    def _pause_ms(self) -> float:
        if self.state is State.STARTING or (self.state is State.RECOVERY and self.is_ready):
            return _CATCHING_UP_MS
        return _LEAVING_MS if self.state is State.SHUTTING_DOWN else self._interval_ms
