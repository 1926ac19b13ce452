"""CreateTopics (19), v2-7: new topics, with counts or with a manual replica assignment.

The response comes after the topic exists, so `timeout_ms` never expires. Deliberately missing: create-topic policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kcli.broker.cluster.config_entries import topic_entries
from kcli.broker.cluster.decide.mutations import Mutations
from kcli.broker.cluster.topic_rules import METADATA_LOG, check_new_name
from kcli.broker.cluster.view import DEFAULT
from kcli.broker.handlers.rights import may_create_topic
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.parts import Parts

_FIRST_WITH_QUOTA = 6


def handle(parts: Parts, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Return a result per topic; a duplicate name is refused."""
    counts = Counter(topic.name for topic in request.topics)
    single = [topic for topic in request.topics if counts[topic.name] == 1]
    is_allowed = {topic.name: _is_allowed(parts, context, topic.name) for topic in single}
    entries = _Entries(parts)
    mutations = Mutations(parts, context, refused_since=_FIRST_WITH_QUOTA)
    results = [
        _create(parts, topic, request.validate_only, context, entries, mutations)
        for topic in single
        if is_allowed[topic.name]
    ]
    results += [
        _error_result(name, BrokerError(ErrorCode.INVALID_REQUEST, "The topic is in the request more than once"))
        for name, count in counts.items()
        if count > 1
    ]
    denied = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    results += [_error_result(name, denied) for name, allowed in is_allowed.items() if not allowed]
    return CreateTopicsResponse(throttle_time_ms=mutations.wait_ms, topics=results)


def _is_allowed(parts: Parts, context: RequestContext, name: str) -> bool:
    """Return whether the client may create the topic. The metadata log has an error of its own."""
    return name == METADATA_LOG or may_create_topic(parts.authorizer, context, name)


def _create(
    parts: Parts,
    requested: CreatableTopic,
    validate_only: bool,
    context: RequestContext,
    entries: _Entries,
    mutations: Mutations,
) -> CreatableTopicResult:
    try:
        check_new_name(requested.name, parts.cluster.topics)  # errors of the name come before all others
        configs = _configs(requested)
        create = partial(
            parts.cluster.create_topic,
            requested.name,
            requested.num_partitions,
            requested.replication_factor,
            configs,
            assignments=_assignments(requested),
        )
        if mutations.are_counted and not validate_only:
            mutations.charge(len(create(validate_only=True).partitions))
        topic = create(validate_only=validate_only)
    except BrokerError as error:
        return _error_result(requested.name, error)
    if not parts.authorizer.allows(context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=entries.of(configs),
    )


class _Entries:
    """The settings of new topics, as the response has them. Most topics of a request have the same overrides."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._listed: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Return all settings of a topic with these overrides."""
        key = tuple(sorted(overrides.items()))
        if key not in self._listed:
            self._listed[key] = [
                CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
                for entry in topic_entries(self._parts.cluster.dynamic, overrides)
            ]
        return self._listed[key]


def _configs(requested: CreatableTopic) -> dict[str, str]:
    """Return the overrides; the last of duplicate settings applies, as in Apache Kafka."""
    configs = {}
    for config in requested.configs:
        if config.value is None:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{config.name} cannot be null")
        configs[config.name] = config.value
    return configs


def _assignments(requested: CreatableTopic) -> dict[int, list[int]] | None:
    if not requested.assignments:
        return None
    if (requested.num_partitions, requested.replication_factor) != (DEFAULT, DEFAULT):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, "With a replica assignment, partition count and replication factor must be -1"
        )
    replicas: dict[int, list[int]] = {}
    for assignment in requested.assignments:
        if assignment.partition_index in replicas:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {assignment.partition_index} is assigned twice"
            )
        replicas[assignment.partition_index] = assignment.broker_ids
    return replicas


def _error_result(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.detail)
