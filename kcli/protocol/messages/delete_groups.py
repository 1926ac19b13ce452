"""DeleteGroups (42): remove empty groups with their offsets (KIP-229)."""

from kcli.protocol.wire import *


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """Delete groups that have no members."""

    groups_names: Array[String] = []


@struct
class DeletableGroupResult:
    """The result for one group."""

    group_id: String = ""
    error_code: Int16 = 0


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse(Message):
    """The results by group."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult] = []
