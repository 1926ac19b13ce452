"""GetTelemetrySubscriptions (71): the metrics that a client shall send to the broker (KIP-714)."""

from kcli.protocol.wire import *


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    """Ask for the subscription; a client without an id (zero) gets one."""

    client_instance_id: Uuid = since(default_factory=zero_uuid)


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    """The subscription; without `requested_metrics` the client sends none. Intervals in ms, sizes in bytes."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = since(default_factory=zero_uuid)
    subscription_id: Int32 = 0
    accepted_compression_types: Array[Int8] = []
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Array[String] = []
