"""FindCoordinator (10): the coordinator of a group or a transactional id."""

from kcli.protocol.wire import *


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """Ask for the coordinator of `key`; v4: of all `coordinator_keys`.

    `key_type`: 0 group, 1 transactional id (v1), 2 share group (v6).
    """

    key: String = since(until=3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: Array[String] = since(4, default=[])


@struct
class Coordinator:
    """The coordinator of one key, or the error for it."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    """The coordinator; v4: one per key."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = since(until=3, default=0)
    error_message: NullableString = since(1, until=3, default="", ignorable=True)
    node_id: Int32 = since(until=3, default=0)
    host: String = since(until=3, default="")
    port: Int32 = since(until=3, default=0)
    coordinators: Array[Coordinator] = since(4, default=[])
