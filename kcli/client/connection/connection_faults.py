"""The reasons of silent, lost and refused connections, in sentences with the usual cause and the cure. Pure.

A *refusal* is an AuthenticationError: a repetition would fail as well, so it ends the calls at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.connection.connection_states import (
    AUTHENTICATING,
    CHECKING_API_VERSIONS,
    CONNECTING,
    REAUTHENTICATING,
    ConnectionStates,
)
from kcli.client.connection.connections import Connections, address_of
from kcli.errors import AuthenticationError

if TYPE_CHECKING:
    from kcli.client.connection.security import ClientSecurity
    from kcli.client.metadata import Metadata

# A listener that closes so many connections in a row at the first request demands SASL.
_EARLY_CLOSES = 3


class ConnectionFaults:
    """The sentences for the connections of one client. `security` is None for PLAINTEXT."""

    def __init__(
        self,
        states: ConnectionStates,
        connections: Connections,
        metadata: Metadata,
        security: ClientSecurity | None,
    ) -> None:
        self._states = states
        self._connections = connections
        self._metadata = metadata
        self._uses_tls = security is not None and security.uses_tls
        self._mechanism = None if security is None else security.mechanism

    def not_ready(self, node_id: int, now_ms: float) -> str | None:
        """Return the reason why a node is not ready; None if it is, or was never tried."""
        node = self._states.of(node_id)
        waited_ms = now_ms - node.last_attempt_ms
        if node.last_error is None and node.state == CONNECTING:
            if self._uses_tls and self._connections.in_handshake(node_id):
                return f"connected, but TLS is not complete after {waited_ms:.0f} ms{self._listener_hint()}"
            return f"no connection after {waited_ms:.0f} ms"
        if node.last_error is None and node.state == CHECKING_API_VERSIONS:
            return f"connected, but no response for {waited_ms:.0f} ms{self._listener_hint()}"
        if node.last_error is None and node.state == AUTHENTICATING:
            return f"connected, but SASL {self._mechanism} is not complete after {waited_ms:.0f} ms"
        return node.last_error

    def lost(
        self, node_id: int, reason: str, now_ms: float, *, was_waiting: bool
    ) -> tuple[str, AuthenticationError | None]:
        """Return `reason` with the phase in which the broker closed the connection, and the refusal if it is one.

        `was_waiting`: a request was in flight. A listener with SASL closes the connection without a word at the first
        request that is not SASL. So does, once, a broker that stops: only repetitions are a refusal, and only before
        the cluster is known.
        """
        node = self._states.of(node_id)
        if not reason.startswith(("closed by", "connection reset")):
            return reason, None
        if node.state == CHECKING_API_VERSIONS:
            return f"{reason} before it sent its versions{self._listener_hint()}", None
        if node.state in (AUTHENTICATING, REAUTHENTICATING):
            return f"{reason} during SASL {self._mechanism}", None
        if node.session_end_ms <= now_ms:
            return f"{reason} after the end of the SASL session", None
        if not was_waiting or self._mechanism is not None or self._is_known_cluster:
            return reason, None
        protocol = "SASL_SSL" if self._uses_tls else "SASL_PLAINTEXT"
        count = self._states.closed_early(node_id)
        if count > 1:
            reason += f" at the first request, as listeners with SASL do; set security.protocol={protocol}"
        return reason, self.refusal(node_id, reason) if count >= _EARLY_CLOSES else None

    def refused_by_transport(self, node_id: int, reason: str) -> AuthenticationError:
        """Return the refusal for a failure of TLS, or for TLS where none is configured."""
        if not self._uses_tls:
            protocol = "SSL or SASL_SSL" if self._mechanism is None else "SASL_SSL"
            reason = f"the listener expects TLS; set security.protocol={protocol}"
        return self.refusal(node_id, reason)

    def refusal(self, node_id: int, reason: str) -> AuthenticationError:
        """Return an error that names the address of the node."""
        address = address_of(self._connections.node(node_id))
        return AuthenticationError(f"{address}: {reason.replace(f'TLS with {address} failed', 'TLS failed')}")

    @property
    def _is_known_cluster(self) -> bool:
        """True if a broker has described the cluster before."""
        return self._metadata.cluster.cluster_id is not None

    def _listener_hint(self) -> str:
        """Return the usual reason of a silent address; nothing if the cluster is known."""
        if self._is_known_cluster:
            return ""
        if self._uses_tls:
            return ": is it a Kafka broker's TLS listener?"
        protocol = "SSL or SASL_SSL" if self._mechanism is None else "SASL_SSL"
        return f": is it a Kafka broker's plaintext listener? A listener with TLS needs security.protocol={protocol}"
