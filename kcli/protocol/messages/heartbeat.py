"""Heartbeat (12): stay in a classic group."""

from kcli.protocol.wire import *


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Keep a member alive. v3 adds static members (KIP-345)."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """The result; error 27: the group rebalances, so join again."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
