"""CreateTopics (19): new topics, by partition count or by an explicit replica assignment."""

from kcli.protocol.wire import *


@struct
class CreatableReplicaAssignment:
    """The brokers that hold one partition; the first is the preferred leader."""

    partition_index: Int32 = 0
    broker_ids: Array[Int32] = []


@struct
class CreatableTopicConfig:
    """A topic setting that differs from the broker's default."""

    name: String = ""
    value: NullableString = ""


@struct
class CreatableTopic:
    """A topic by counts, or with counts of -1 and assignments."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Array[CreatableReplicaAssignment] = []
    configs: Array[CreatableTopicConfig] = []


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """Create topics, or only validate the request. v4: -1 partitions or replicas is the default (KIP-464)."""

    topics: Array[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs:
    """A setting of the new topic, with its source."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@struct
class CreatableTopicResult:
    """A created topic, or the error for it."""

    name: String = ""
    topic_id: Uuid = since(7, default_factory=zero_uuid, ignorable=True)
    error_code: Int16 = 0
    error_message: NullableString = ""
    topic_config_error_code: Int16 = since(5, default=0, tag=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: NullableArray[CreatableTopicConfigs] = since(5, default=[], ignorable=True)


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    """The results by topic. v5 adds counts and settings (KIP-525), v7 topic ids."""

    throttle_time_ms: Int32 = 0
    topics: Array[CreatableTopicResult] = []
