"""DeleteTopics (20), v1-6: delete topics by name or (v6) by id, with their records and committed offsets.

The response comes after the deletion, so `timeout_ms` never expires. Internal topics can be deleted, as in Apache
Kafka. Deliberately missing: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.broker.cluster.decide.mutations import Mutations
from kcli.broker.serving.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.acls import AclOperation, ResourceType
from kcli.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from kcli.broker.cluster.cluster_values import TopicState
    from kcli.broker.cluster.decide.draft_cluster import DraftCluster
    from kcli.broker.cluster.decide.parts import Parts

_NO_ID = UUID(int=0)
_FIRST_BY_ID = 6
_FIRST_WITH_QUOTA = 5
_FIRST_WITH_DISABLED = 3  # TOPIC_DELETION_DISABLED


class _Target(NamedTuple):
    name: str | None
    topic_id: UUID

    def result(self, error: BrokerError) -> DeletableTopicResult:
        return DeletableTopicResult(
            name=self.name, topic_id=self.topic_id, error_code=error.code, error_message=error.detail
        )


def handle(parts: Parts, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Return a result per topic; a duplicate is refused."""
    targets = _targets(request, context.api_version)
    if not parts.cluster.settings.delete_topic_enable:
        return DeleteTopicsResponse(responses=[target.result(_disabled(context.api_version)) for target in targets])
    mutations = Mutations(parts, context, refused_since=_FIRST_WITH_QUOTA)
    results = list(_delete_all(parts, targets, context, mutations))
    return DeleteTopicsResponse(throttle_time_ms=mutations.wait_ms, responses=results)


def _targets(request: DeleteTopicsRequest, version: int) -> list[_Target]:
    if version < _FIRST_BY_ID:
        return [_Target(name, _NO_ID) for name in request.topic_names]
    return [_Target(topic.name, topic.topic_id) for topic in request.topics]


def _delete_all(
    parts: Parts, targets: list[_Target], context: RequestContext, mutations: Mutations
) -> Iterator[DeletableTopicResult]:
    counts = Counter(targets)
    if not parts.authorizer.is_open:
        for target in [target for target in counts if _fault(target, counts[target]) is None]:
            denied = _denial(parts, target, context)
            if denied is not None:
                del counts[target]
                yield denied
    cluster = parts.cluster
    by_name_and_id = [topic for topic in cluster.topics.values() if _is_by_name_and_id(topic, counts)]
    for topic in by_name_and_id:
        del counts[_Target(topic.name, _NO_ID)], counts[_Target(None, topic.topic_id)]
        yield _Target(topic.name, topic.topic_id).result(_invalid("The topic is in the request by name and by id"))
    for target, count in counts.items():
        fault = _fault(target, count)
        if fault:
            yield target.result(_invalid(fault))
        else:
            yield _delete(cluster, target, mutations)


def _denial(parts: Parts, target: _Target, context: RequestContext) -> DeletableTopicResult | None:
    """Return the result for a topic that the client must not delete; the name only if it may describe the topic."""
    authorizer, name = parts.authorizer, target.name
    if name is None:
        topic = parts.cluster.topic_by_id(target.topic_id)
        if topic is None:
            return None
        name = topic.name
    if authorizer.allows_cluster(context, AclOperation.DELETE):
        return None
    is_visible = authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    if is_visible and (
        name not in parts.cluster.topics or authorizer.allows(context, AclOperation.DELETE, ResourceType.TOPIC, name)
    ):
        return None
    shown = target._replace(name=name) if is_visible else target
    return shown.result(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _is_by_name_and_id(topic: TopicState, counts: Counter[_Target]) -> bool:
    return _Target(topic.name, _NO_ID) in counts and _Target(None, topic.topic_id) in counts


def _fault(target: _Target, count: int) -> str | None:
    """Return the fault in the naming of a topic, None if there is none."""
    if target.name is None and target.topic_id == _NO_ID:
        return "The topic has neither a name nor an id"
    if target.name is not None and target.topic_id != _NO_ID:
        return "The topic has both a name and an id"
    if count > 1:
        return "The topic is in the request more than once"
    return None


def _delete(cluster: DraftCluster, target: _Target, mutations: Mutations) -> DeletableTopicResult:
    try:
        found = cluster.topic_by_id(target.topic_id) if target.name is None else cluster.topics.get(target.name)
        if found is not None:
            mutations.charge(len(found.partitions))
        topic = cluster.delete_topic(target.topic_id if target.name is None else target.name)
    except BrokerError as error:
        return target.result(error)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _invalid(fault: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, fault)


def _disabled(version: int) -> BrokerError:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= _FIRST_WITH_DISABLED else ErrorCode.INVALID_REQUEST
    return BrokerError(code, "delete.topic.enable is false")
