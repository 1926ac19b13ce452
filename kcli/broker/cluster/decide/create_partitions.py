"""CreatePartitions (37), v0-3: more partitions for existing topics.

The response comes after the partitions exist, so `timeout_ms` never expires. Deliberately missing: nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kcli.broker.cluster.decide.mutations import Mutations
from kcli.broker.handlers.rights import allowed_names
from kcli.broker.serving.request_context import RequestContext
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
    from kcli.broker.cluster.decide.parts import Parts

_FIRST_WITH_QUOTA = 3


def handle(parts: Parts, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Return a result per topic; a duplicate name is refused."""
    counts = Counter(topic.name for topic in request.topics)
    duplicate = BrokerError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once")
    results = [_error_result(name, duplicate) for name, count in counts.items() if count > 1]
    single = [topic for topic in request.topics if counts[topic.name] == 1]
    names = (topic.name for topic in single)
    allowed = allowed_names(parts.authorizer, context, AclOperation.ALTER, ResourceType.TOPIC, names)
    denied = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    results += [_error_result(topic.name, denied) for topic in single if topic.name not in allowed]
    mutations = Mutations(parts, context, refused_since=_FIRST_WITH_QUOTA)
    results += [_grow(parts, topic, request.validate_only, mutations) for topic in single if topic.name in allowed]
    return CreatePartitionsResponse(throttle_time_ms=mutations.wait_ms, results=results)


def _grow(
    parts: Parts, topic: CreatePartitionsTopic, validate_only: bool, mutations: Mutations
) -> CreatePartitionsTopicResult:
    assignments = None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
    grow = partial(parts.cluster.create_partitions, topic.name, topic.count, assignments=assignments)
    try:
        if mutations.are_counted and not validate_only:
            grow(validate_only=True)
            mutations.charge(topic.count - len(parts.cluster.topics[topic.name].partitions))
        grow(validate_only=validate_only)
    except BrokerError as error:
        return _error_result(topic.name, error)
    return CreatePartitionsTopicResult(name=topic.name)


def _error_result(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.detail)
