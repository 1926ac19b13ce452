"""BrokerHeartbeat (63): a broker shows that it lives, and asks to be fenced, unfenced or shut down (KIP-631)."""

from kcli.protocol.wire import *


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    """The state of a broker.

    `current_metadata_offset` is the highest offset of the metadata log that it has applied. v1 has the log directories
    that are offline, v2 those that get no new partitions (null: not known yet).
    """

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: Bool = False
    want_shut_down: Bool = False
    offline_log_dirs: Array[Uuid] = since(1, default=[], tag=0)
    cordoned_log_dirs: NullableArray[Uuid] = since(2, default=None, tag=1)


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse(Message):
    """State of the broker: it has caught up with its registration, is fenced, may shut down."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool = False
