"""SyncGroup (14): the leader hands in the assignment, and every member gets its part."""

from kcli.protocol.wire import (
    Array,
    Bytes,
    Int16,
    Int32,
    Message,
    NullableString,
    Request,
    String,
    message,
    since,
    struct,
)


@struct
class SyncGroupRequestAssignment:
    """What one member gets."""

    member_id: String = ""
    assignment: Bytes = b""


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """Ask for our assignment; the leader sends everybody's. v3 static members, v5 protocol type and name to check."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignments: Array[SyncGroupRequestAssignment] = []


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """Our assignment. v5 protocol type and name."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignment: Bytes = b""
