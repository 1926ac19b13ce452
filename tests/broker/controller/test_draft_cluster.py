"""Topics: creation with placement, growth, deletion and settings."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from tests.broker.controller.conftest import MakeScene
from tests.broker.controller.quorum import Quorum, Scene, directory


def test_topic_is_created_with_its_settings_before_its_partitions() -> None:
    quorum = Quorum().start(1, 2, 3)
    result = quorum.create("t", [1, 2], [2, 3], configs={"retention.ms": "1000"})
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    topic, config, first, second = quorum.records
    assert topic == TopicRecord(name="t", topic_id=result.topic_id)
    assert config == ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000")
    assert first == PartitionRecord(
        partition_id=0,
        topic_id=result.topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory(1), directory(2)],
    )
    assert second.partition_id == 1
    assert {one.name: one.value for one in result.configs or []}["retention.ms"] == "1000"


def test_fenced_replica_is_not_in_the_isr_of_a_new_partition(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2)
    quorum.register(3)
    assert quorum.create("t", [3, 2]).error_code == 0
    state = quorum.partition("t")
    assert (state.replicas, state.isr, state.leader) == ((3, 2), (2,), 2)
    assert quorum.create("u", [3]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("replicas", "fields", "code"),
    [
        ([[1, 9]], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[1, 1]], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[1], [1, 2]], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[]], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[1]], {"partitions": 1}, ErrorCode.INVALID_REQUEST),
        ([], {"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([], {"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([], {"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ([], {"configs": {"retention.ms": "x"}}, ErrorCode.INVALID_CONFIG),
        ([], {"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
        ([], {"configs": {"no.such": "x"}}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_topic_is_refused_as_a_whole(
    make_scene: MakeScene, replicas: list[list[int]], fields: dict[str, Any], code: ErrorCode
) -> None:
    quorum = make_scene().start(1, 2, 3)
    assert quorum.create("t", *replicas, **fields).error_code == code


def test_defaults_come_from_the_settings_of_the_controller() -> None:
    quorum = Quorum(num_partitions=4, default_replication_factor=2).start(1, 2)
    result = quorum.create("t")
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_topics_of_one_request_see_each_other() -> None:
    quorum = Quorum().start(1)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a.b", "a_b", "c", "d")]
    response = quorum.send(CreateTopicsRequest(topics=topics))
    codes = {one.name: one.error_code for one in response.topics}
    assert codes == {"a.b": 0, "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION, "c": 0, "d": 0}
    assert list(quorum.image.topics) == ["a.b", "c", "d"]
    assert quorum.create("c").error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_validation_alone_writes_nothing() -> None:
    quorum = Quorum().start(1)
    assert quorum.create("t", validate_only=True).error_code == 0
    assert quorum.records == []


def test_replicas_are_spread_over_racks_and_leaders_over_brokers(make_scene: MakeScene) -> None:
    quorum = make_scene()
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    for node_id, rack in racks.items():
        quorum.start(node_id, rack=rack)
    quorum.create("t", partitions=8, replication_factor=2)
    states = [quorum.partition("t", number) for number in range(8)]
    assert all({racks[one] for one in state.replicas} == {"a", "b"} for state in states)
    leaders = Counter(state.leader for state in states)
    assert leaders[1] + leaders[2] == leaders[3] + leaders[4] == 4


def test_leaders_are_on_unfenced_brokers_and_fenced_ones_come_last(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2)
    quorum.register(3)
    quorum.create("t", partitions=6, replication_factor=3)
    for number in range(6):
        assert quorum.partition("t", number).replicas[-1] == 3
        assert quorum.partition("t", number).isr == quorum.partition("t", number).replicas[:2]


def test_no_topic_is_created_while_all_brokers_are_fenced(make_scene: MakeScene) -> None:
    quorum = make_scene()
    quorum.register(1)
    assert quorum.create("t").error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def grow(
    quorum: Scene, count: int, *assignments: list[int], validate_only: bool = False
) -> CreatePartitionsTopicResult:
    topic = CreatePartitionsTopic(
        name="t",
        count=count,
        assignments=[CreatePartitionsAssignment(broker_ids=one) for one in assignments] or None,
    )
    return quorum.send(CreatePartitionsRequest(topics=[topic], validate_only=validate_only, timeout_ms=10_000)).results[
        0
    ]


def test_topic_grows_with_the_replication_factor_that_it_has(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2, 3)
    quorum.create("t", [1, 2])
    assert grow(quorum, 3).error_code == 0
    assert [len(quorum.partition("t", number).replicas) for number in range(3)] == [2, 2, 2]
    assert grow(quorum, 4, [3, 1]).error_code == 0
    assert quorum.partition("t", 3).replicas == (3, 1)


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (1, [], ErrorCode.INVALID_PARTITIONS),
        (0, [], ErrorCode.INVALID_PARTITIONS),
        (3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_growth_is_refused(
    make_scene: MakeScene, count: int, assignments: list[list[int]], code: ErrorCode
) -> None:
    quorum = make_scene().start(1, 2)
    quorum.create("t", [1, 2])
    assert grow(quorum, count, *assignments).error_code == code


def test_topic_is_deleted_by_name_or_id_with_its_settings(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1)
    quorum.create("t", [1], configs={"retention.ms": "1"})
    topic_id = quorum.create("u", [1]).topic_id
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t"), DeleteTopicState(topic_id=topic_id), DeleteTopicState(name="no")],
        timeout_ms=10_000,
    )
    codes = [one.error_code for one in quorum.send(request).responses]
    assert sorted(codes) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not quorum.image.topics
    assert (2, "t") not in quorum.image.configs


def test_decision_that_was_not_appended_has_changed_nothing() -> None:
    quorum = Quorum().start(1)
    quorum.create("t", [1])
    quorum.append = lambda records: None  # type: ignore[method-assign]
    assert grow(quorum, 5).error_code == 0
    assert len(quorum.image.topics["t"].partitions) == 1
