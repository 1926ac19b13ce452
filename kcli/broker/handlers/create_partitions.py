"""CreatePartitions (37), v0-3: more partitions for existing topics.

The response comes after the partitions exist, so `timeout_ms` never expires. Deliberately missing: more than one
replica.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Return a result per topic; a duplicate name is refused."""
    counts = Counter(topic.name for topic in request.topics)
    duplicate = BrokerError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once")
    results = [_error_result(name, duplicate) for name, count in counts.items() if count > 1]
    single = [topic for topic in request.topics if counts[topic.name] == 1]
    allowed = {
        topic.name
        for topic in single
        if broker.authorizer.allows(context, AclOperation.ALTER, ResourceType.TOPIC, topic.name)
    }
    denied = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    results += [_error_result(topic.name, denied) for topic in single if topic.name not in allowed]
    results += [_grow(broker, topic, request.validate_only) for topic in single if topic.name in allowed]
    return CreatePartitionsResponse(results=results)


def _grow(broker: Broker, topic: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    assignments = None if topic.assignments is None else [one.broker_ids for one in topic.assignments]
    try:
        broker.cluster.create_partitions(topic.name, topic.count, assignments=assignments, validate_only=validate_only)
    except BrokerError as error:
        return _error_result(topic.name, error)
    return CreatePartitionsTopicResult(name=topic.name)


def _error_result(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.detail)
