"""StreamsGroupDescribe (89): the state, topology and members of Kafka Streams applications (KIP-1071)."""

from kcli.protocol.wire import *


@message(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    """Ask the coordinator for groups."""

    group_ids: Array[String] = []
    include_authorized_operations: Bool = False


@struct
class KeyValue:
    """A setting or a tag."""

    key: String = ""
    value: String = ""


@struct
class TopicInfo:
    """An internal topic. 0 partitions or replicas: the number needed, or the default."""

    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Array[KeyValue] = []


@struct
class Subtopology:
    """A part of the application whose tasks read the same topics; task N reads partition N of each source topic."""

    subtopology_id: String = ""
    source_topics: Array[String] = []
    repartition_sink_topics: Array[String] = []
    state_changelog_topics: Array[TopicInfo] = []
    repartition_source_topics: Array[TopicInfo] = []


@struct
class Topology:
    """The parts of the application; null subtopologies: its source topics are missing or do not match."""

    epoch: Int32 = 0
    subtopologies: NullableArray[Subtopology] = None


@struct
class Endpoint:
    """The address of a member for interactive queries."""

    host: String = ""
    port: UInt16 = 0


@struct
class TaskOffset:
    """The position of a task in its changelog."""

    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


@struct
class TaskIds:
    """Tasks of a subtopology, by partition."""

    subtopology_id: String = ""
    partitions: Array[Int32] = []


@struct
class Assignment:
    """The tasks of a member: active, standby and warm-up ones."""

    active_tasks: Array[TaskIds] = []
    standby_tasks: Array[TaskIds] = []
    warmup_tasks: Array[TaskIds] = []


@struct
class Member:
    """A member with its current and its target assignment."""

    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Nullable[Endpoint] = None
    client_tags: Array[KeyValue] = []
    task_offsets: Array[TaskOffset] = []
    task_end_offsets: Array[TaskOffset] = []
    assignment: Assignment = since(default_factory=Assignment)
    target_assignment: Assignment = since(default_factory=Assignment)
    is_classic: Bool = False


@struct
class DescribedGroup:
    """A group by its state, epochs, topology and members, or the error for it."""

    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Nullable[Topology] = None
    members: Array[Member] = []
    authorized_operations: Int32 = -2147483648


@message(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = []
