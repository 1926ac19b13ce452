"""GetTelemetrySubscriptions (71), v0: no metrics, so that clients send none (KIP-714).

Apache Kafka serves the API only with a plug-in that receives metrics. Deliberately missing: PushTelemetry, and the
limit of one request per interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.data_dir import random_uuid
from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_NO_ID = UUID(int=0)
_ZSTD, _LZ4, _GZIP, _SNAPPY = 4, 3, 1, 2
_INTERVAL_MS = 300_000
_MAX_BYTES = 1_048_576


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    """Return an empty subscription, and an id for a client that has none."""
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=random_uuid() if request.client_instance_id == _NO_ID else request.client_instance_id,
        accepted_compression_types=[_ZSTD, _LZ4, _GZIP, _SNAPPY],
        push_interval_ms=_INTERVAL_MS,
        telemetry_max_bytes=_MAX_BYTES,
        delta_temporality=True,
    )
