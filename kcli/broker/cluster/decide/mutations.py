"""Partitions that a request creates, adds or deletes, against the quota controller_mutation_rate (KIP-599).

From a version on, a topic that exceeds the quota is refused; in older versions it is accepted. Both responses have
throttle_time_ms, for which `SocketServer` does not read from the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts
    from kcli.broker.serving.request_context import RequestContext


class Mutations:
    """The changes of one request. `wait_ms`: how long its client must wait after it."""

    def __init__(self, parts: Parts, context: RequestContext, *, refused_since: int) -> None:
        """`refused_since`: the first version in which topics are refused."""
        self._quotas = parts.client_quotas
        self._context = context
        self._refuses = context.api_version >= refused_since
        self.wait_ms = 0

    @property
    def are_counted(self) -> bool:
        """False if no client has a quota."""
        return self._quotas is not None

    def charge(self, partitions: int) -> None:
        """Count the partitions of a topic. Raise THROTTLING_QUOTA_EXCEEDED if it must wait."""
        if self._quotas is None:
            return
        client = self._context.principal, self._context.client_id
        wait_ms = self._quotas.mutate(*client, partitions, self._context.now_ms, refuses=self._refuses)
        self.wait_ms = max(self.wait_ms, wait_ms)
        if wait_ms and self._refuses:
            text = f"controller_mutation_rate is exceeded; try again in {wait_ms} ms"
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
