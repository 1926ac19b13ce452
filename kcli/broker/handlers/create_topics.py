"""CreateTopics (19), v2-7: new topics, by counts or with replicas placed by hand.

Done before it is answered, so `timeout_ms` never passes. There is no policy and no quota. One node: a replication
factor above 1 is refused (38).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcli.broker.cluster_state import DEFAULT
from kcli.broker.config_entries import topic_entries
from kcli.broker.request_context import RequestContext
from kcli.broker.topic_rules import check_new_name
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.broker import Broker


def handle(broker: Broker, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """A result per name; a name that comes twice is refused as a whole."""
    times = Counter(topic.name for topic in request.topics)
    results = [_create(broker, topic, request.validate_only) for topic in request.topics if times[topic.name] == 1]
    results += [
        _refused(name, BrokerError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once"))
        for name, count in times.items()
        if count > 1
    ]
    return CreateTopicsResponse(topics=results)


def _create(broker: Broker, asked: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    try:
        check_new_name(asked.name, broker.cluster.topics)  # what is wrong with it is told first
        topic = broker.cluster.create_topic(
            asked.name,
            asked.num_partitions,
            asked.replication_factor,
            _configs(asked),
            assignments=_assignments(asked),
            validate_only=validate_only,
        )
    except BrokerError as error:
        return _refused(asked.name, error)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
            for entry in topic_entries(broker.cluster.dynamic, topic.configs)
        ],
    )


def _configs(asked: CreatableTopic) -> dict[str, str]:
    """Of a setting that comes twice, the last is taken, as Apache Kafka does."""
    found = {}
    for config in asked.configs:
        if config.value is None:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{config.name} cannot be null")
        found[config.name] = config.value
    return found


def _assignments(asked: CreatableTopic) -> dict[int, list[int]] | None:
    if not asked.assignments:
        return None
    if (asked.num_partitions, asked.replication_factor) != (DEFAULT, DEFAULT):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Replicas are placed by hand, so both counts must be -1")
    found: dict[int, list[int]] = {}
    for assignment in asked.assignments:
        if assignment.partition_index in found:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {assignment.partition_index} is placed by hand twice"
            )
        found[assignment.partition_index] = assignment.broker_ids
    return found


def _refused(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.detail)
