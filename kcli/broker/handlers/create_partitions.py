"""CreatePartitions (37), v0-3: more partitions for topics that exist. Done before it is answered."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """A result per name; a name that comes twice is refused as a whole."""
    times = Counter(topic.name for topic in request.topics)
    twice = BrokerError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once")
    results = [_refused(name, twice) for name, count in times.items() if count > 1]
    results += [_grow(broker, topic, request.validate_only) for topic in request.topics if times[topic.name] == 1]
    return CreatePartitionsResponse(results=results)


def _grow(broker: Broker, asked: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    by_hand = None if asked.assignments is None else [one.broker_ids for one in asked.assignments]
    try:
        broker.cluster.create_partitions(asked.name, asked.count, assignments=by_hand, validate_only=validate_only)
    except BrokerError as error:
        return _refused(asked.name, error)
    return CreatePartitionsTopicResult(name=asked.name)


def _refused(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.detail)
