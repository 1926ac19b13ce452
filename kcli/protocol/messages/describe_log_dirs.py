"""DescribeLogDirs (35): the data directories of a broker and the sizes of the partitions in them (KIP-113)."""

from kcli.protocol.wire import *


@struct
class DescribableLogDirTopic:
    """Partitions of a topic."""

    topic: String = ""
    partitions: Array[Int32] = []


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """Ask about these partitions; null: all."""

    topics: NullableArray[DescribableLogDirTopic] = []


@struct
class DescribeLogDirsPartition:
    """Size and lag of a replica; `is_future_key` is true for a copy that will replace the current replica."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic:
    """A topic's partitions in a directory."""

    name: String = ""
    partitions: Array[DescribeLogDirsPartition] = []


@struct
class DescribeLogDirsResult:
    """A directory, with the size of its volume (v4); `is_cordoned` (v5): it gets no new partitions."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: Array[DescribeLogDirsTopic] = []
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, default=False, ignorable=True)


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    """The results by directory. v3 adds a top-level error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0, ignorable=True)
    results: Array[DescribeLogDirsResult] = []
