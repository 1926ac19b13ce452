"""Metadata (3), v0-13: the live brokers, and topics with their leaders, replicas and in-sync replicas.

An unknown topic is created if the request and auto.create.topics.enable allow it. A single broker returns it in that
response; a node returns it as unknown (3) until its controller has created it, as Apache Kafka does, and clients retry.
The controller in the response is a broker that forwards changes.
A partition without a leader has the error 5, one whose leader lacks the listener of the request 72 (before v6: 5).
Before v1 only live replicas are returned, and the error 9 if some are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.cluster.cluster_values import TopicState
from kcli.broker.cluster.topic_rules import name_fault
from kcli.broker.handlers.rights import cluster_operations, may_create_topic
from kcli.broker.serving.request_context import RequestContext
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
from kcli.structs import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster.cluster_values import PartitionState
    from kcli.broker.cluster.view import ClusterView

_NO_ID = UUID(int=0)
_FIRST_BY_ID = 12
_FIRST_WITH_ALL_REPLICAS = 1
_FIRST_WITH_LISTENER_ERROR = 6
_NO_LEADER = -1


def handle(broker: Broker, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    """Return the broker and the requested topics; null, and in v0 an empty list, requests all topics."""
    version = context.api_version
    if any(not _is_valid(topic, version) for topic in request.topics or ()):
        return _invalid_request(request, version)
    cluster = broker.cluster
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster.brokers(context.listener)
        ],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
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
    rows_of = _PartitionRows(broker.cluster, context)
    allows = broker.authorizer.allows
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [
            _topic_row(topic, rows_of)
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
            rows.append(_topic_row(topic, rows_of))
        elif may_create and not may_create_topic(broker.authorizer, context, name):
            denied.append(_denied_row(name, is_internal=name in INTERNAL_TOPICS))
        else:
            rows.append(_unknown_topic_row(broker, name, rows_of, may_create))
    return rows + denied


def _denied_row(name: str | None, topic_id: UUID = _NO_ID, *, is_internal: bool = False) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, is_internal=is_internal
    )


def _unknown_topic_row(broker: Broker, name: str, rows_of: _PartitionRows, may_create: bool) -> MetadataResponseTopic:
    """Create the topic if the client may do it, and return it; the error if it does not exist then."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_fault(name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif may_create:
        try:
            return _topic_row(broker.cluster.auto_create(name), rows_of)
        except BrokerError as failure:
            if failure.code is ErrorCode.INVALID_REPLICATION_FACTOR:
                error = failure.code
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic_row(topic: TopicState, rows_of: _PartitionRows) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=rows_of.topic(topic)
    )


class _PartitionRows:
    """The rows of partitions in one response: leaders and replicas as the clients of one listener see them."""

    def __init__(self, cluster: ClusterView, context: RequestContext) -> None:
        self._cluster = cluster
        brokers = cluster.brokers(context.listener, with_fenced=True)
        self._reachable = {node.node_id for node in brokers}
        self._live = {node.node_id for node in brokers if not node.is_fenced}
        self._only_live = context.api_version < _FIRST_WITH_ALL_REPLICAS
        self._has_listener_error = context.api_version >= _FIRST_WITH_LISTENER_ERROR

    def topic(self, topic: TopicState) -> list[MetadataResponsePartition]:
        return [self._row(number, state) for number, state in sorted(topic.partitions.items())]

    def _row(self, number: int, state: PartitionState) -> MetadataResponsePartition:
        live = self._live
        offline = [replica for replica in state.replicas if replica not in live]
        row = MetadataResponsePartition(
            partition_index=number,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=offline,
        )
        if self._only_live and offline:
            row.replica_nodes = [replica for replica in state.replicas if replica in live]
            row.isr_nodes = [replica for replica in state.isr if replica in live]
            row.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
        if state.leader not in self._reachable:
            row.leader_id, row.error_code = _NO_LEADER, self._leader_error(state.leader)
        return row

    def _leader_error(self, leader: int) -> ErrorCode:
        if self._has_listener_error and leader in self._cluster.image.brokers:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE
