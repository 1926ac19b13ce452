"""DeleteTopics (20): delete topics by name or by id."""

from kcli.protocol.wire import *


@struct
class DeleteTopicState:
    """A topic by name, or by id with a null name."""

    name: NullableString = None
    topic_id: Uuid = since(default_factory=zero_uuid)


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """Delete topics by name; v6: by name or id."""

    topics: Array[DeleteTopicState] = since(6, default=[])
    topic_names: Array[String] = since(until=5, default=[], ignorable=True)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult:
    """A deleted topic, or the error for it."""

    name: NullableString = since(default="", nullable_from=6)
    topic_id: Uuid = since(6, default_factory=zero_uuid, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = since(5, default=None, ignorable=True)


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    """The results by topic. v5 adds error messages, v6 topic ids."""

    throttle_time_ms: Int32 = 0
    responses: Array[DeletableTopicResult] = []
