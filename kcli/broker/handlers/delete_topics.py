"""DeleteTopics (20), v1-6: topics that go, by name or (v6) by id, with their records and committed offsets.

Done before it is answered. Internal topics can be deleted, too, as with Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kcli.broker.request_context import RequestContext
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.cluster_state import ClusterState
    from kcli.broker.topic_store import Topic

_NO_ID = UUID(int=0)
_FIRST_BY_ID = 6
_FIRST_WITH_DISABLED = 3  # TOPIC_DELETION_DISABLED


class _Asked(NamedTuple):
    name: str | None
    topic_id: UUID

    def result(self, error: BrokerError) -> DeletableTopicResult:
        return DeletableTopicResult(
            name=self.name, topic_id=self.topic_id, error_code=error.code, error_message=error.detail
        )


def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """A result per topic; one that comes twice is refused."""
    asked = _asked(request, context.api_version)
    if not broker.cluster.settings.delete_topic_enable:
        return DeleteTopicsResponse(responses=[one.result(_disabled(context.api_version)) for one in asked])
    return DeleteTopicsResponse(responses=list(_delete_all(broker.cluster, asked, context.now_wall_ms)))


def _asked(request: DeleteTopicsRequest, version: int) -> list[_Asked]:
    if version < _FIRST_BY_ID:
        return [_Asked(name, _NO_ID) for name in request.topic_names]
    return [_Asked(topic.name, topic.topic_id) for topic in request.topics]


def _delete_all(cluster: ClusterState, asked: list[_Asked], now_wall_ms: int) -> Iterator[DeletableTopicResult]:
    times = Counter(asked)
    asked_both_ways = [topic for topic in cluster.topics.values() if _is_asked_both_ways(topic, times)]
    for topic in asked_both_ways:
        del times[_Asked(topic.name, _NO_ID)], times[_Asked(None, topic.topic_id)]
        yield _Asked(topic.name, topic.topic_id).result(_invalid("The topic is in the request by name and by id"))
    for one, count in times.items():
        fault = _fault(one, count)
        if fault:
            yield one.result(_invalid(fault))
        else:
            yield _delete(cluster, one, now_wall_ms)


def _is_asked_both_ways(topic: Topic, times: Counter[_Asked]) -> bool:
    return _Asked(topic.name, _NO_ID) in times and _Asked(None, topic.topic_id) in times


def _fault(one: _Asked, count: int) -> str | None:
    """What is wrong with the way in which a topic is asked for."""
    if one.name is None and one.topic_id == _NO_ID:
        return "The topic has neither a name nor an id"
    if one.name is not None and one.topic_id != _NO_ID:
        return "The topic has both a name and an id"
    if count > 1:
        return "The topic is in the request more than once"
    return None


def _delete(cluster: ClusterState, one: _Asked, now_wall_ms: int) -> DeletableTopicResult:
    try:
        topic = cluster.delete_topic(one.topic_id if one.name is None else one.name, now_wall_ms=now_wall_ms)
    except BrokerError as error:
        return one.result(error)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _invalid(fault: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, fault)


def _disabled(version: int) -> BrokerError:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= _FIRST_WITH_DISABLED else ErrorCode.INVALID_REQUEST
    return BrokerError(code, "delete.topic.enable is false")
