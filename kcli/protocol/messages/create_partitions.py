"""CreatePartitions (37): add partitions to existing topics (KIP-195)."""

from kcli.protocol.wire import *


@struct
class CreatePartitionsAssignment:
    """The brokers that hold one new partition; the first is the preferred leader."""

    broker_ids: Array[Int32] = []


@struct
class CreatePartitionsTopic:
    """The new total; null assignments: the broker places the new partitions."""

    name: String = ""
    count: Int32 = 0
    assignments: NullableArray[CreatePartitionsAssignment] = []


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """Raise the partition counts of topics, or only validate the request."""

    topics: Array[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    """The results by topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = []
