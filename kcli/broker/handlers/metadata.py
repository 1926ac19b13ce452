"""Metadata (3), v0-13: the address of the broker, and its topics.

An unknown topic is created if the request and auto.create.topics.enable allow it, but this response still returns it
as unknown (3), as Apache Kafka does; clients retry. Deliberately missing: other brokers. One node leads all partitions
and is the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.handlers.rights import cluster_operations, may_create_topic
from kcli.broker.request_context import RequestContext
from kcli.broker.topic_rules import name_fault
from kcli.broker.topic_store import Topic
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.structs import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

_NO_ID = UUID(int=0)
_FIRST_BY_ID = 12


def handle(broker: Broker, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Return the broker and the requested topics; null, and in v0 an empty list, requests all topics."""
    version = context.api_version
    if any(not _is_valid(topic, version) for topic in request.topics or ()):
        return _invalid_request(request, version)
    cluster = broker.cluster
    host, port = cluster.address(context.listener)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=cluster.node_id, host=host, port=port, rack=broker.config.broker_rack)],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.node_id,
        topics=_topics(broker, request, context),
    )
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.topic_authorized_operations = broker.authorizer.operations(
                    context, ResourceType.TOPIC, topic.name
                )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker.authorizer, context)
    return response


def _is_valid(topic: MetadataRequestTopic, version: int) -> bool:
    """Return True for a name or an id. The ids in v10 and v11 must not be used."""
    by_id = topic.topic_id != _NO_ID
    return (topic.name is not None or by_id) and (version >= _FIRST_BY_ID or not by_id)


def _invalid_request(request: MetadataRequest, version: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name if version >= _FIRST_BY_ID else topic.name or "",
                topic_id=topic.topic_id,
            )
            for topic in request.topics or ()
        ]
    )


def _topics(broker: Broker, request: MetadataRequest, context: RequestContext) -> list[MetadataResponseTopic]:
    """Return a row per topic. Of all topics, those that the client must not describe are left out."""
    topics = broker.cluster.topics
    allows = broker.authorizer.allows
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [
            _topic_row(broker, topic)
            for topic in topics.values()
            if allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    denied: list[MetadataResponseTopic] = []
    rows: list[MetadataResponseTopic] = []
    names: dict[str, None] = {}
    for requested in request.topics:
        if requested.topic_id == _NO_ID:
            names[requested.name or ""] = None
            continue
        existing = broker.cluster.topic_by_id(requested.topic_id)
        if existing is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            rows.append(MetadataResponseTopic(error_code=code, name=None, topic_id=requested.topic_id))
        elif allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, existing.name):
            names[existing.name] = None
        else:
            denied.append(_denied_row(None, requested.topic_id))
    may_create = request.allow_auto_topic_creation and broker.cluster.settings.auto_create_topics_enable
    for name in names:
        topic = topics.get(name)
        if not allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            denied.append(_denied_row(name))
        elif topic is not None:
            rows.append(_topic_row(broker, topic))
        elif may_create and not may_create_topic(broker.authorizer, context, name):
            denied.append(_denied_row(name, is_internal=name in INTERNAL_TOPICS))
        else:
            rows.append(_unknown_topic_row(broker, name, may_create))
    return rows + denied


def _denied_row(name: str | None, topic_id: UUID = _NO_ID, *, is_internal: bool = False) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, is_internal=is_internal
    )


def _unknown_topic_row(broker: Broker, name: str, may_create: bool) -> MetadataResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_fault(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif may_create:
        try:
            broker.cluster.auto_create(name)
        except BrokerError as failure:
            if failure.code is ErrorCode.INVALID_REPLICATION_FACTOR:
                error = failure.code
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic_row(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    node = broker.cluster.node_id
    find = broker.replica_manager.partition
    partitions = []
    for number in range(topic.partitions):
        partition = find(TopicPartition(topic.name, number))
        partitions.append(
            MetadataResponsePartition(
                partition_index=number,
                leader_id=node,
                leader_epoch=partition.leader_epoch if partition else 0,
                replica_nodes=[node],
                isr_nodes=[node],
            )
        )
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions
    )
