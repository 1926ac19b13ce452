"""JoinGroup (11): join a classic group and wait until all its members have joined."""

from kcli.protocol.wire import *


@struct
class JoinGroupRequestProtocol:
    """An assignor of the member, with the subscription as its metadata; in order of preference."""

    name: String = ""
    metadata: Bytes = b""


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """Join, or rejoin in a rebalance. An empty member id asks for one; from v4 on the broker answers it with error 79.

    v1 adds a rebalance timeout, v5 static members (KIP-345), v8 a reason for the logs.
    """

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None)
    protocol_type: String = ""
    protocols: Array[JoinGroupRequestProtocol] = []
    reason: NullableString = since(8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    """A member with its subscription, for the leader's assignment."""

    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None, ignorable=True)
    metadata: Bytes = b""


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """Member id, generation, and all members for the leader. v7 adds the protocol type, v9 skip_assignment."""

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = since(7, default=None, ignorable=True)
    protocol_name: NullableString = since(default="", nullable_from=7)
    leader: String = ""
    skip_assignment: Bool = since(9, default=False)
    member_id: String = ""
    members: Array[JoinGroupResponseMember] = []
