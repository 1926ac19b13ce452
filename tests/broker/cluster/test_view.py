"""The cluster as a node reads it: topics, brokers and settings follow the image of the metadata log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcli.broker.cluster.image import BROKER_CONFIG, TOPIC_CONFIG, MetadataImage
from kcli.broker.cluster.view import ClusterView
from kcli.broker.config import BrokerConfig
from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol import metadata_records as records
from kcli.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kcli.structs import OFFSETS_TOPIC, TopicPartition
from tests.broker.node.images import apply, broker_record, config_record, image_of, topic_id, topic_records

ORDERS = topic_id(1)


class Followed:
    """A node's cluster, and the requests that it has sent to the controller."""

    def __init__(self, image: MetadataImage, **properties: Any) -> None:
        self.image = image
        self.asked: list[tuple[CreateTopicsRequest, Callable[[Any], None]]] = []
        self.deleted: list[str] = []
        texts = {name.replace("_", "."): str(value) for name, value in properties.items()}
        config = BrokerConfig.from_properties({"node.id": "2", **texts})
        self.cluster = ClusterView(image, config, "c1", ManualClock(), lambda *asked: self.asked.append(asked))
        self.cluster.on_topic_deleted.append(lambda name, _now: self.deleted.append(name))

    def apply(self, *applied: Any) -> None:
        self.cluster.apply(self.image, apply(self.image, *applied))


def test_a_topic_comes_grows_and_goes_with_its_records() -> None:
    node = Followed(image_of(*topic_records("orders", ORDERS, [1, 2])))
    assert len(node.cluster.topics["orders"].partitions) == 1
    node.apply(*topic_records("orders", ORDERS, [1, 2], [2, 1])[2:])
    assert len(node.cluster.topics["orders"].partitions) == 2
    assert node.cluster.topic_by_id(ORDERS) is node.cluster.topics["orders"]
    state = node.cluster.partition_state(TopicPartition("orders", 1))
    assert state is not None
    assert (state.leader, state.replicas) == (2, (2, 1))
    node.apply(records.RemoveTopicRecord(topic_id=ORDERS))
    assert node.cluster.topics == {}
    assert node.cluster.topic_by_id(ORDERS) is None
    assert node.deleted == ["orders"]


def test_a_topic_that_is_made_again_in_the_same_batch_has_its_new_id() -> None:
    node = Followed(image_of(*topic_records("orders", ORDERS, [1])))
    again = topic_id(2)
    node.apply(records.RemoveTopicRecord(topic_id=ORDERS), *topic_records("orders", again, [2], [1]))
    assert node.deleted == ["orders"]
    assert node.cluster.topics["orders"].topic_id == again
    assert len(node.cluster.topics["orders"].partitions) == 2
    assert node.cluster.topic_by_id(ORDERS) is None


def test_an_image_of_a_snapshot_replaces_all_topics() -> None:
    node = Followed(image_of(*topic_records("orders", ORDERS, [1]), *topic_records("kept", topic_id(3), [1])))
    image = image_of(*topic_records("kept", topic_id(3), [1], [1]), *topic_records("new", topic_id(4), [1]))
    node.cluster.apply(image, apply(MetadataImage()))
    assert set(node.cluster.topics) == {"kept", "new"}
    assert len(node.cluster.topics["kept"].partitions) == 2
    assert node.deleted == ["orders"]


def test_fenced_brokers_are_not_live_and_the_controller_is_any_live_broker() -> None:
    node = Followed(image_of(broker_record(1), broker_record(2, fenced=True, rack="b"), broker_record(3)))
    cluster = node.cluster
    assert [one.node_id for one in cluster.brokers("PLAINTEXT")] == [1, 3]
    assert [
        (one.node_id, one.port, one.rack, one.is_fenced) for one in cluster.brokers("PLAINTEXT", with_fenced=True)
    ] == [
        (1, 9091, None, False),
        (2, 9092, "b", True),
        (3, 9093, None, False),
    ]
    assert cluster.brokers("OTHER") == []
    assert cluster.controller_id == 1
    node.apply(records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, fenced=-1))
    assert cluster.controller_id == 2  # itself, once it is unfenced


def test_settings_of_topics_and_brokers_follow() -> None:
    node = Followed(image_of(*topic_records("orders", ORDERS, [1]), *topic_records("other", topic_id(2), [1])))
    node.apply(config_record(TOPIC_CONFIG, "orders", "retention.ms", "5000"))
    assert node.cluster.log_config("orders").retention_ms == 5000
    node.apply(config_record(BROKER_CONFIG, "", "log.retention.ms", "7000"))
    assert node.cluster.log_config("other").retention_ms == 7000
    node.apply(config_record(BROKER_CONFIG, "2", "log.retention.ms", "8000"))
    assert node.cluster.log_config("other").retention_ms == 8000
    node.apply(config_record(BROKER_CONFIG, "3", "log.retention.ms", "9000"))  # of another broker
    assert node.cluster.log_config("other").retention_ms == 8000
    node.apply(config_record(TOPIC_CONFIG, "orders", "retention.ms", None))
    assert node.cluster.log_config("orders").retention_ms == 8000


def test_settings_of_another_version_are_reported_and_left_out() -> None:
    node = Followed(image_of(*topic_records("orders", ORDERS, [1])))
    node.apply(
        config_record(TOPIC_CONFIG, "orders", "shiny.new", "1"),
        config_record(TOPIC_CONFIG, "orders", "retention.ms", "soon"),
        config_record(BROKER_CONFIG, "", "shinier.new", "1"),
    )
    assert node.cluster.topic_configs("orders") == {}
    assert len(node.cluster.reports) == 3
    assert "topic orders: the setting shiny.new has no effect" in node.cluster.reports[0]


def test_an_internal_topic_is_requested_from_the_controller_once_at_a_time() -> None:
    node = Followed(image_of(broker_record(2)), offsets_topic_replication_factor=3, offsets_topic_num_partitions=5)
    for _ in range(2):
        with pytest.raises(BrokerError) as refused:
            node.cluster.ensure_internal(OFFSETS_TOPIC)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ((request, done),) = node.asked
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (OFFSETS_TOPIC, 5, 3)
    assert {one.name: one.value for one in topic.configs}["cleanup.policy"] == "compact"
    row = CreatableTopicResult(name=OFFSETS_TOPIC, error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="why")
    done(CreateTopicsResponse(topics=[row]))
    assert node.cluster.reports == [f"topic {OFFSETS_TOPIC} was not created: INVALID_REPLICATION_FACTOR: why"]
    with pytest.raises(BrokerError):
        node.cluster.ensure_internal(OFFSETS_TOPIC)
    assert len(node.asked) == 2
    node.apply(*topic_records(OFFSETS_TOPIC, topic_id(9), [2]))
    assert node.cluster.ensure_internal(OFFSETS_TOPIC).topic_id == topic_id(9)


def test_a_topic_of_a_metadata_request_is_requested_with_the_defaults_of_this_broker() -> None:
    node = Followed(image_of(), num_partitions=4, default_replication_factor=2)
    with pytest.raises(BrokerError) as refused:
        node.cluster.auto_create("orders")
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (topic,) = node.asked[0][0].topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", 4, 2)
    with pytest.raises(BrokerError, match="must not be"):
        node.cluster.auto_create(".")
    assert len(node.asked) == 1
