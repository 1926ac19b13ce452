"""LeaveGroup (13): leave a classic group, or remove members from it."""

from kcli.protocol.wire import Array, Int16, Int32, Message, NullableString, Request, String, message, since, struct


@struct
class MemberIdentity:
    """Who leaves, by member id or by instance id."""

    member_id: String = ""
    group_instance_id: NullableString = None
    reason: NullableString = since(5, default=None, ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """Leave: up to v2 one member, from v3 several, which lets an administrator remove static ones. v5 a reason."""

    group_id: String = ""
    member_id: String = since(until=2, default="")
    members: Array[MemberIdentity] = since(3, default=[])


@struct
class MemberResponse:
    """Whether this member has left."""

    member_id: String = ""
    group_instance_id: NullableString = ""
    error_code: Int16 = 0


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    """The result, v3: also per member."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: Array[MemberResponse] = since(3, default=[])
