"""LeaveGroup (13): leave a classic group, or remove members from it."""

from kcli.protocol.wire import *


@struct
class MemberIdentity:
    """A leaving member, by member id or instance id."""

    member_id: String = ""
    group_instance_id: NullableString = None
    reason: NullableString = since(5, default=None, ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """Remove one member, from v3 on several, so that an administrator can remove static ones. v5 adds a reason."""

    group_id: String = ""
    member_id: String = since(until=2, default="")
    members: Array[MemberIdentity] = since(3, default=[])


@struct
class MemberResponse:
    """The result for one member."""

    member_id: String = ""
    group_instance_id: NullableString = ""
    error_code: Int16 = 0


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    """The result; v3: also by member."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: Array[MemberResponse] = since(3, default=[])
