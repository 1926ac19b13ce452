"""SyncGroup (14): the leader sends the assignment, and every member receives its part."""

from kcli.protocol.wire import *


@struct
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: String = ""
    assignment: Bytes = b""


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """Ask for the member's assignment; the leader sends all. v3 adds static members, v5 protocol type and name."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignments: Array[SyncGroupRequestAssignment] = []


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """The member's assignment. v5 adds protocol type and name."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: NullableString = since(5, default=None, ignorable=True)
    protocol_name: NullableString = since(5, default=None, ignorable=True)
    assignment: Bytes = b""
