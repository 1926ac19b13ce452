"""DescribeGroups (15): the state and members of classic groups."""

from kcli.protocol.wire import *


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """Ask the coordinator for groups. v3 adds authorized operations."""

    groups: Array[String] = []
    include_authorized_operations: Bool = since(3, default=False)


@struct
class DescribedGroupMember:
    """A member; its subscription and assignment are in the format of the protocol type ("consumer")."""

    member_id: String = ""
    group_instance_id: NullableString = since(4, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    """State, assignor (`protocol_data`) and members of a group."""

    error_code: Int16 = 0
    error_message: NullableString = since(6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Array[DescribedGroupMember] = []
    authorized_operations: Int32 = since(3, default=-2147483648)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    """The groups. Up to v5 an unknown group is "Dead" without an error, from v6 it is error 69."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    groups: Array[DescribedGroup] = []
