"""DescribeLogDirs (35), v1-5: the one data directory and the sizes of the partitions in it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_UNKNOWN = -1


def handle(broker: Broker, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """The directory; null asks for all partitions, and those that are not there are left out."""
    directory = broker.log_manager.data_dir
    total, usable = _volume(directory)
    result = DescribeLogDirsResult(log_dir=os.path.abspath(directory), total_bytes=total, usable_bytes=usable)
    if broker.log_manager.failed is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.topics = _topics(broker, request)
    return DescribeLogDirsResponse(results=[result])


def _topics(broker: Broker, request: DescribeLogDirsRequest) -> list[DescribeLogDirsTopic]:
    held = broker.replica_manager.partitions
    if request.topics is None:
        wanted = sorted(held)
    else:
        asked = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
        wanted = sorted(tp for tp in asked if tp in held)
    found: dict[str, DescribeLogDirsTopic] = {}
    for tp in wanted:
        topic = found.setdefault(tp.topic, DescribeLogDirsTopic(name=tp.topic))
        size = held[tp].log.size_bytes
        topic.partitions.append(DescribeLogDirsPartition(partition_index=tp.partition, partition_size=size))
    return list(found.values())


def _volume(directory: str) -> tuple[int, int]:
    """Total and usable bytes of a directory's volume."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return _UNKNOWN, _UNKNOWN
    return usage.total, usage.free
