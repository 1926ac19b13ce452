"""Metadata: responses applied, and the time of the next request."""

from uuid import UUID

from kcli.client.backoff import Backoff
from kcli.client.metadata import LeaderAndEpoch, Metadata
from kcli.error_codes import ErrorCode
from kcli.errors import DisconnectedError
from kcli.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.structs import Node, TopicPartition

ID, OTHER_ID = UUID(int=1), UUID(int=2)
TP = TopicPartition("orders", 0)


def new_metadata() -> Metadata:
    return Metadata([("boot", 9092)], max_age_ms=300_000, backoff=Backoff(100, 1_000, uniform=lambda low, high: 1.0))


def response(
    leader: int = 1, epoch: int = 5, topic_id: UUID = ID, name: str = "orders", error: int = 0
) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=error, partitions=[] if error else [partition]
    )
    brokers = [MetadataResponseBroker(node_id=n, host=f"k{n}", port=9092) for n in (1, 2)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=2, topics=[topic])


def ask(metadata: Metadata, received: MetadataResponse, now_ms: float = 0) -> None:
    metadata.next_request(now_ms)
    metadata.update(received, now_ms)


def test_nothing_is_requested_before_a_topic_or_an_update_is() -> None:
    metadata = new_metadata()
    assert metadata.time_to_refresh(0) == float("inf")
    assert metadata.is_bootstrap
    assert metadata.cluster.nodes == {-1: Node(-1, "boot", 9092)}
    metadata.add_topics(["orders"])
    assert metadata.time_to_refresh(0) == 0
    request = metadata.next_request(0)
    assert [topic.name for topic in request.topics or []] == ["orders"]
    assert request.allow_auto_topic_creation is False


def test_one_request_is_in_flight_at_a_time() -> None:
    metadata = new_metadata()
    metadata.request_update()
    metadata.next_request(0)
    assert metadata.time_to_refresh(0) == float("inf")
    metadata.request_update()
    assert metadata.time_to_refresh(0) == float("inf")
    metadata.update(response(), 10)
    assert metadata.time_to_refresh(10) == 100


def test_a_response_sets_leaders_topic_ids_and_the_controller() -> None:
    metadata = new_metadata()
    metadata.add_topics(["orders"])
    ask(metadata, response())
    assert metadata.leader(TP) == LeaderAndEpoch(Node(1, "k1", 9092), 5)
    assert metadata.leader(TopicPartition("orders", 9)) == LeaderAndEpoch(None, -1)
    assert metadata.leader(TopicPartition("nope", 0)) == LeaderAndEpoch(None, -1)
    assert metadata.topic_id("orders") == ID
    assert metadata.cluster.controller == Node(2, "k2", 9092)
    assert not metadata.is_bootstrap
    assert metadata.update_version == 1


def test_a_partition_without_leader_has_an_epoch_but_no_node() -> None:
    metadata = new_metadata()
    ask(metadata, response(leader=-1))
    assert metadata.leader(TP) == LeaderAndEpoch(None, 5)


def test_metadata_is_requested_again_after_its_maximum_age() -> None:
    metadata = new_metadata()
    ask(metadata, response(), 1_000)
    assert metadata.time_to_refresh(1_000) == 300_000
    assert metadata.time_to_refresh(301_000) == 0


def test_an_update_is_requested_at_most_once_per_backoff() -> None:
    metadata = new_metadata()
    ask(metadata, response(), 1_000)
    metadata.request_update()
    assert metadata.time_to_refresh(1_010) == 90
    assert metadata.time_to_refresh(5_000) == 0


def test_new_topics_are_requested_without_backoff() -> None:
    metadata = new_metadata()
    metadata.add_topics(["orders"])
    ask(metadata, response(), 1_000)
    metadata.add_topics(["orders"])
    assert metadata.time_to_refresh(1_001) > 0
    metadata.add_topics(["orders", "payments"])
    assert metadata.time_to_refresh(1_001) == 0
    assert metadata.requested_topics == ["orders", "payments"]
    metadata.drop_topics(["orders"])
    assert [topic.name for topic in metadata.next_request(1_001).topics or []] == ["payments"]


def test_the_backoff_grows_while_responses_are_the_same() -> None:
    metadata, now_ms, waits = new_metadata(), 0.0, []
    for _ in range(6):
        ask(metadata, response(leader=-1), now_ms)
        metadata.request_update()
        waits.append(metadata.time_to_refresh(now_ms))
        now_ms += waits[-1]
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    ask(metadata, response(leader=2), now_ms)
    metadata.request_update()
    assert metadata.time_to_refresh(now_ms) == 100


def test_a_failed_request_is_repeated_after_the_backoff_even_if_wanted_at_once() -> None:
    metadata = new_metadata()
    metadata.request_update(all_topics=True)
    metadata.next_request(0)
    metadata.failed(DisconnectedError("connection refused"), 10)
    metadata.request_update(at_once=True)
    assert metadata.time_to_refresh(10) == 100
    assert metadata.next_request(110).topics is None
    metadata.failed(DisconnectedError("connection refused"), 120)
    assert metadata.time_to_refresh(120) == 200
    assert metadata.error is not None
    ask(metadata, response(), 400)
    assert metadata.error is None


def test_a_response_with_an_error_or_without_brokers_is_a_failure() -> None:
    metadata = new_metadata()
    for useless in (MetadataResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), MetadataResponse(brokers=[])):
        metadata.request_update()
        ask(metadata, useless)
        assert metadata.error is not None
        assert metadata.is_bootstrap
        assert metadata.update_version == 0


def test_a_ticket_is_answered_by_a_request_sent_after_it() -> None:
    metadata = new_metadata()
    metadata.request_update()
    metadata.next_request(0)
    ticket = metadata.request_update(at_once=True)
    metadata.update(response(), 5)
    assert not metadata.is_answered(ticket)
    ask(metadata, response(), 10)
    assert metadata.is_answered(ticket)


def test_a_leader_with_an_older_epoch_is_ignored() -> None:
    metadata = new_metadata()
    ask(metadata, response(leader=2, epoch=7))
    ask(metadata, response(leader=1, epoch=6))
    assert metadata.leader(TP) == LeaderAndEpoch(Node(2, "k2", 9092), 7)
    ask(metadata, response(leader=1, epoch=8))
    assert metadata.leader(TP).epoch == 8


def test_leader_epochs_start_again_with_a_new_topic_id() -> None:
    metadata = new_metadata()
    ask(metadata, response(leader=2, epoch=7, topic_id=ID))
    ask(metadata, response(leader=1, epoch=0, topic_id=OTHER_ID))
    assert metadata.leader(TP) == LeaderAndEpoch(Node(1, "k1", 9092), 0)
    assert metadata.topic_id("orders") == OTHER_ID


def test_a_newer_leader_from_another_response_is_taken_over() -> None:
    metadata = new_metadata()
    ask(metadata, response(leader=1, epoch=5))
    before = metadata.cluster
    assert metadata.update_leader(TP, 3, 6, [Node(3, "k3", 9092)])
    assert metadata.leader(TP) == LeaderAndEpoch(Node(3, "k3", 9092), 6)
    assert not metadata.update_leader(TP, 1, 6)
    assert not metadata.update_leader(TP, 99, 7)
    assert before.topics["orders"].partitions[0].leader == 1


def test_a_topic_without_leaders_is_requested_again() -> None:
    metadata = new_metadata()
    metadata.add_topics(["orders"])
    ask(metadata, response(error=ErrorCode.LEADER_NOT_AVAILABLE))
    assert metadata.cluster.topics["orders"].error is ErrorCode.LEADER_NOT_AVAILABLE
    assert metadata.time_to_refresh(0) == 100
    ask(metadata, response(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 100)
    assert metadata.time_to_refresh(1_000) > 1_000


def test_rebootstrap_drops_the_brokers_and_keeps_the_topics() -> None:
    metadata = new_metadata()
    ask(metadata, response())
    metadata.rebootstrap(5_000)
    assert metadata.is_bootstrap
    assert metadata.leader(TP) == LeaderAndEpoch(None, 5)
    assert metadata.topic_id("orders") == ID
    assert metadata.time_to_refresh(5_000) == 0


def test_a_broker_can_demand_a_rebootstrap() -> None:
    metadata = new_metadata()
    ask(metadata, MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    assert metadata.needs_rebootstrap


def test_leader_id_minus_1_is_not_the_first_bootstrap_address() -> None:
    metadata = new_metadata()
    assert metadata.cluster.controller is None
    ask(metadata, response(leader=-1))
    metadata.rebootstrap(0)
    assert -1 in metadata.cluster.nodes
    assert metadata.leader(TP).node is None
    assert metadata.cluster.controller is None
