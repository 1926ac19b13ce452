"""ListGroups (16): the groups that one broker coordinates."""

from kcli.protocol.wire import *


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """Ask one broker for its groups. v4 filters by state (KIP-518), v5 by type (KIP-848)."""

    states_filter: Array[String] = since(4, default=[])
    types_filter: Array[String] = since(5, default=[])


@struct
class ListedGroup:
    """A group with its protocol type ("consumer" for consumers), v4 adds the state, v5 the type."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: String = since(4, default="", ignorable=True)
    group_type: String = since(5, default="", ignorable=True)


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """The broker's groups."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = []
