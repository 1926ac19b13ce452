"""Topics: results by name, failures as errors by name, older brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

import pytest

from kcli.admin.plan import Plan, Row
from kcli.admin.topics import (
    NewTopic,
    TopicSize,
    apply_topic_deletion,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topics,
    list_topics,
    partition_bounds,
)
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.client.consumer_network_client import ConsumerNetworkClient
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, OutcomeUnknown, TimeoutExpired
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kcli.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kcli.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.metadata import MetadataResponseTopic
from kcli.protocol.registry import ApiKey
from kcli.protocol.wire import Message
from kcli.structs import TopicPartition
from tests.cli.loopback import LoopbackBroker, loopback_broker
from tests.client.fake_cluster import FakeCluster
from tests.network.memory import MemoryPeer

A, B = UUID(int=1), UUID(int=2)


@contextmanager
def asking(broker: LoopbackBroker) -> Iterator[tuple[ConsumerNetworkClient, float]]:
    config = ClientConfig.from_properties({"bootstrap.servers": broker.address})
    with closing(connect(config)) as client:
        yield client, client.clock.now_ms() + 10_000


def code(error: KcliError) -> ErrorCode:
    assert isinstance(error, BrokerError)
    return error.code


def test_topics_are_listed_by_name() -> None:
    with loopback_broker(topics={"b": 1, "a": 2, "__x": 1}) as broker, asking(broker) as (client, deadline):
        assert [(t.name, len(t.partitions), t.internal) for t in list_topics(client, deadline)] == [
            ("__x", 1, True),
            ("a", 2, False),
            ("b", 1, False),
        ]


def test_a_missing_topic_is_an_error_under_its_name() -> None:
    with loopback_broker(topics={"a": 2}) as broker, asking(broker) as (client, deadline):
        found = describe_topics(client, ["a", "b", "a"], deadline)
    assert list(found.values) == ["a"]
    assert code(found.errors["b"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_failure_of_one_partition_leaves_the_bounds_of_the_others() -> None:
    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        def one(p: Any) -> ListOffsetsPartitionResponse:
            failed = p.partition_index == 1
            return ListOffsetsPartitionResponse(
                partition_index=p.partition_index,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED if failed else 0,
                offset=-1 if failed else 5 if p.timestamp == -2 else 9,
            )

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(name=t.name, partitions=list(map(one, t.partitions))) for t in request.topics
            ]
        )

    good, bad = TopicPartition("a", 0), TopicPartition("a", 1)
    with loopback_broker({ListOffsetsRequest: answer}, topics={"a": 2}) as broker, asking(broker) as (client, deadline):
        bounds = partition_bounds(client, [good, bad], deadline)
    assert bounds.values == {good: (5, 9)}
    assert code(bounds.errors[bad]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_created_and_refused_topics_are_separate() -> None:
    def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
        made, refused = request.topics
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=made.name, topic_id=A, num_partitions=3, replication_factor=1),
                CreatableTopicResult(
                    name=refused.name, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message="bad name"
                ),
            ]
        )

    with loopback_broker({CreateTopicsRequest: answer}) as broker, asking(broker) as (client, deadline):
        made = create_topics(client, [NewTopic("a", 3, 1, {"x": "y"}), NewTopic("b b")], deadline)
        request = broker.requests[-1]
    assert made.values == {"a": ("a", A, 3, 1)}
    assert str(made.errors["b b"]) == "INVALID_TOPIC_EXCEPTION: bad name (topic b b)"
    assert 0 < request.timeout_ms <= 9_000


def test_fields_that_an_old_broker_does_not_return_are_unknown() -> None:
    def answer(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=t.name) for t in request.topics])

    old = {CreateTopicsRequest: (2, 3)}
    with loopback_broker({CreateTopicsRequest: answer}, versions=old) as broker, asking(broker) as (client, deadline):
        assert create_topics(client, [NewTopic("a", 3, 1)], deadline).values == {"a": ("a", None, -1, -1)}


def deleting(answered: Callable[[DeleteTopicsRequest], list[DeletableTopicResult]]) -> dict[type, Any]:
    return {DeleteTopicsRequest: lambda request: DeleteTopicsResponse(responses=answered(request))}


def test_topics_are_deleted_by_id() -> None:
    def answer(request: DeleteTopicsRequest) -> list[DeletableTopicResult]:
        return [
            # made anew meanwhile: that id is gone
            DeletableTopicResult(name=None, topic_id=A, error_code=ErrorCode.UNKNOWN_TOPIC_ID),
            DeletableTopicResult(name="b"),
        ]

    with loopback_broker(deleting(answer)) as broker, asking(broker) as (client, deadline):
        gone = delete_topics(client, {"a": A, "b": None}, deadline)
        request = broker.requests[-1]
    assert [(t.name, t.topic_id.int) for t in request.topics] == [(None, 1), ("b", 0)]
    assert list(gone.values) == ["b"]
    assert code(gone.errors["a"]) == ErrorCode.UNKNOWN_TOPIC_ID


def test_topics_are_deleted_by_name_on_an_old_broker() -> None:
    answers = deleting(lambda request: [DeletableTopicResult(name=name) for name in request.topic_names])
    with (
        loopback_broker(answers, versions={DeleteTopicsRequest: (1, 5)}) as broker,
        asking(broker) as (client, deadline),
    ):
        gone = delete_topics(client, {"a": A, "b": B}, deadline)
    assert gone.values == {"a": A, "b": B}


def test_only_planned_topics_without_an_error_are_deleted() -> None:
    answers = deleting(lambda request: [DeletableTopicResult(name=t.name, topic_id=t.topic_id) for t in request.topics])
    with loopback_broker(answers) as broker, asking(broker) as (client, deadline):
        missing: Row[TopicSize] = Row("b", error=BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="b"))
        assert apply_topic_deletion(client, Plan("delete", (Row("a", TopicSize(A, 1, 0)), missing)), deadline) == {}
        assert [t.topic_id for t in broker.requests[-1].topics] == [A]
        asked = len(broker.requests)
        assert apply_topic_deletion(client, Plan("delete", (missing,)), deadline) == {}
        assert len(broker.requests) == asked


def test_partitions_are_added_per_topic() -> None:
    def answer(request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=t.name, error_code=0 if t.count > 1 else 37, error_message=None)
                for t in request.topics
            ]
        )

    with loopback_broker({CreatePartitionsRequest: answer}) as broker, asking(broker) as (client, deadline):
        raised = create_partitions(client, {"a": 4, "b": 1}, deadline)
        assert broker.requests[-1].topics[0].assignments is None
    assert raised.values == {"a": 4}
    assert code(raised.errors["b"]) == ErrorCode.INVALID_PARTITIONS


# Lost responses


class LossyController(FakeCluster):
    """A broker that carries out changes of topics, and whose response to the first `lost` of them is lost.

    `fault`: "cut" (the connection breaks) or "silent" (it stays open).
    """

    def __init__(self, lost: int, fault: str = "cut") -> None:
        super().__init__("a:9092")
        self.lost = lost
        self.fault = fault
        self.ids: dict[str, UUID] = {}
        self.answers |= {
            ApiKey.CREATE_TOPICS: self._create,
            ApiKey.DELETE_TOPICS: self._delete,
            ApiKey.CREATE_PARTITIONS: self._extend,
        }

    def add(self, name: str, count: int) -> None:
        self.topics[name] = dict.fromkeys(range(count), (1, 0))
        self.ids[name] = UUID(int=len(self.ids) + 1)

    def _topic(self, name: str) -> MetadataResponseTopic:
        topic = super()._topic(name)
        topic.topic_id = self.ids[name] if name in self.topics else UUID(int=0)
        return topic

    def _unless_lost(self, peer: MemoryPeer, response: Message) -> Message | None:
        self.lost -= 1
        if self.lost < 0:
            return response
        if self.fault == "cut":
            peer.reset()
        return None

    def _create(self, peer: MemoryPeer, request: Any, _version: int) -> Message | None:
        results = []
        for topic in request.topics:
            code = 36 if topic.name in self.topics else 0
            if not code:
                self.add(topic.name, topic.num_partitions)
            results.append(CreatableTopicResult(name=topic.name, error_code=code, topic_id=self.ids[topic.name]))
        return self._unless_lost(peer, CreateTopicsResponse(topics=results))

    def _delete(self, peer: MemoryPeer, request: Any, _version: int) -> Message | None:
        names = {topic_id: name for name, topic_id in self.ids.items()}
        results = []
        for topic in request.topics:
            name = names[topic.topic_id]
            gone = self.topics.pop(name, None) is None
            results.append(
                DeletableTopicResult(
                    name=name, topic_id=topic.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID if gone else 0
                )
            )
        return self._unless_lost(peer, DeleteTopicsResponse(responses=results))

    def _extend(self, peer: MemoryPeer, request: Any, _version: int) -> Message | None:
        results = []
        for topic in request.topics:
            code = 37 if len(self.topics[topic.name]) >= topic.count else 0
            if not code:
                self.topics[topic.name] = dict.fromkeys(range(topic.count), (1, 0))
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code))
        return self._unless_lost(peer, CreatePartitionsResponse(results=results))


@pytest.mark.parametrize("fault", ["cut", "silent"])
def test_topics_whose_creation_is_not_answered_are_created(fault: str) -> None:
    cluster = LossyController(lost=9, fault=fault)
    with cluster.connect("a:9092") as client:
        made = create_topics(client, [NewTopic("a", 3), NewTopic("b", 1)], 10_000)
    assert made.errors == {}
    assert made.values == {"a": ("a", A, 3, 1), "b": ("b", B, 1, 1)}
    assert len(cluster.requests(ApiKey.CREATE_TOPICS)) == 1


def test_a_topic_that_existed_before_is_not_reported_as_created_after_a_lost_response() -> None:
    cluster = LossyController(lost=1)
    cluster.add("old", 1)
    with cluster.connect("a:9092") as client:
        made = create_topics(client, [NewTopic("new", 1), NewTopic("old", 1)], 10_000)
    assert list(made.values) == ["new"]
    assert code(made.errors["old"]) == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_creation_that_is_neither_answered_nor_visible_has_an_unknown_outcome() -> None:
    cluster = LossyController(lost=0)
    cluster.answers[ApiKey.CREATE_TOPICS] = lambda *_: None
    with cluster.connect("a:9092") as client:
        made = create_topics(client, [NewTopic("a", 1)], 10_000)
    assert isinstance(made.errors["a"], OutcomeUnknown)


@pytest.mark.parametrize("fault", ["cut", "silent"])
def test_topics_whose_deletion_is_not_answered_are_deleted(fault: str) -> None:
    cluster = LossyController(lost=9, fault=fault)
    cluster.add("a", 1)
    cluster.add("b", 1)
    with cluster.connect("a:9092") as client:
        gone = delete_topics(client, {"a": A, "b": B}, 10_000)
    assert (gone.values, gone.errors) == ({"a": A, "b": B}, {})
    assert len(cluster.requests(ApiKey.DELETE_TOPICS)) == 1


def test_partitions_whose_creation_is_not_answered_are_created() -> None:
    cluster = LossyController(lost=1)
    cluster.add("a", 1)
    with cluster.connect("a:9092") as client:
        raised = create_partitions(client, {"a": 4}, 10_000)
    assert (raised.values, raised.errors) == ({"a": 4}, {})


def test_an_unreachable_broker_is_a_time_out_with_its_address() -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"})
    with closing(connect(config)) as client, pytest.raises(TimeoutExpired, match=r"127\.0\.0\.1:1"):
        list_topics(client, client.clock.now_ms() + 200)
