"""The log lines of the library: what is logged, how often, and that the command line prints none of them."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from kcli import Consumer, Producer, TopicPartition
from kcli.client.config import ConsumerConfig
from kcli.client.connect import connect
from kcli.error_codes import ErrorCode
from kcli.logs import RepeatedWarnings
from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.registry import ApiKey
from tests.client.fake_cluster import FakeCluster as Brokers
from tests.consumer.group.classic_cluster import ClassicCluster, Member
from tests.producer.fake_log import FakeLog
from tests.real_kafka import Kafka, OwnBroker


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_warning_that_recurs_is_logged_once_a_minute_with_its_number(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RepeatedWarnings("kcli.test")
    for now_ms in range(0, 120_000, 1000):
        warnings.warn("a", now_ms, "it fails")
    warnings.warn("b", 0, "another")
    assert lines(caplog) == ["it fails", "it fails (for 60 s; 59 more since the last line)", "another"]


def test_the_end_of_a_fault_is_logged_with_its_length_if_the_fault_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kcli")
    warnings = RepeatedWarnings("kcli.test")
    assert not warnings.ended(0, "it works", "a")
    for now_ms in range(0, 120_000, 2000):  # it fails and recovers again and again
        warnings.warn("a", now_ms, "it fails")
        warnings.ended(now_ms + 1000, "it works", "a", "b")
    assert lines(caplog) == ["it fails", "it fails (29 more since the last line)"]
    assert lines(caplog, logging.INFO) == ["it works, after 1 s"] * 2


def test_a_broker_that_fails_for_ever_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeLog()
    producer = cluster.producer(delivery_timeout_ms=200_000)
    producer.send("orders", b"v", partition=0)
    producer.flush()
    cluster.selector.refuse("kafka-1:9092")
    for peer in cluster.selector.peers:
        peer.hang_up()
    future = producer.send("orders", b"w", partition=0)
    while not future.done:
        producer.poll(1000)
    about = [line for line in lines(caplog) if line.startswith("no connection: ")]
    assert 1 <= len(about) <= 2 * (200_000 / 60_000 + 1)


def idle_consumer(cluster: Brokers, **settings: str) -> Consumer:
    """A consumer of `orders` in a cluster of one address, a member of a group if `settings` name one."""
    properties = {"bootstrap.servers": "kafka-1:9092", **{key.replace("_", "."): settings[key] for key in settings}}
    config = ConsumerConfig.from_properties(properties)
    client = connect(config, cluster.clock, selector=cluster.selector, resolve=cluster.resolve)
    consumer = Consumer.from_config(config, client, in_background=False)
    if settings:
        consumer.subscribe(["orders"])
    else:
        consumer.assign([TopicPartition("orders", 0)])
    return consumer


def poll_for(consumer: Consumer, seconds: int) -> None:
    for _ in range(seconds):
        assert consumer.poll(1000) == {}


def refuses(cluster: Brokers) -> None:
    cluster.selector.refuse("kafka-1:9092")


def has_no_address(cluster: Brokers) -> None:
    cluster.hosts["kafka-1"] = []


def is_silent(cluster: Brokers) -> None:
    cluster.answers[ApiKey.API_VERSIONS] = lambda *_: None


def hangs(cluster: Brokers) -> None:
    cluster.selector.hold("kafka-1:9092")


@pytest.mark.parametrize("settings", [{}, {"group_id": "g"}, {"group_id": "g", "group_protocol": "consumer"}])
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (refuses, "connection refused by kafka-1:9092"),
        (has_no_address, "the host name kafka-1 cannot be resolved: Name or service not known"),
        (is_silent, "connected, but no response for "),
        (hangs, "no connection after "),
    ],
)
def test_a_consumer_whose_broker_never_answers_logs_address_cause_and_duration_each_minute(
    settings: dict[str, str], fault: Callable[[Brokers], None], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kcli")
    cluster = Brokers("kafka-1:9092")
    fault(cluster)
    consumer = idle_consumer(cluster, **settings)
    poll_for(consumer, 185)
    about = [line for line in lines(caplog) if line.startswith("no connection: kafka-1:9092 (node -1)")]
    assert about[0].startswith("no connection: kafka-1:9092 (node -1): " + cause)
    assert 2 <= len(about) <= 4
    assert "(for " not in about[0]
    assert all(re.search(r"\(for \d+ s; \d+ more since the last line\)$", line) for line in about[1:])
    others = [line for line in lines(caplog) if line not in about]
    assert len(others) <= 4, "a line a minute says what this means for the consumer"
    assert not lines(caplog, logging.INFO)


def test_a_broker_that_is_back_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kcli")
    cluster = Brokers("kafka-1:9092")
    refuses(cluster)
    consumer = idle_consumer(cluster)
    poll_for(consumer, 110)
    cluster.selector.listen("kafka-1:9092")
    poll_for(consumer, 30)
    (line,) = [line for line in lines(caplog, logging.INFO) if "connected" in line]
    assert line.startswith("connected again: kafka-1:9092 (node -1), after 1")


def test_a_cluster_that_is_not_described_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kcli")
    cluster = Brokers("kafka-1:9092")
    answer = cluster.answers[ApiKey.METADATA]
    cluster.answers[ApiKey.METADATA] = lambda *_: MetadataResponse(brokers=[])
    consumer = idle_consumer(cluster, group_id="g")
    poll_for(consumer, 110)
    about = [line for line in lines(caplog) if "does not describe the cluster" in line]
    assert len(about) == 2
    assert about[0].startswith("kafka-1:9092 (node -1) does not describe the cluster: BROKER_NOT_AVAILABLE: ")
    cluster.answers[ApiKey.METADATA] = answer
    poll_for(consumer, 30)
    assert sum("describes the cluster again, after 1" in line for line in lines(caplog, logging.INFO)) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_coordinator_that_cannot_be_found_is_logged_and_its_return(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kcli")
    cluster = Brokers("kafka-1:9092")
    is_found = False

    def find(*_: object) -> FindCoordinatorResponse:
        if is_found:
            return FindCoordinatorResponse(node_id=1, host="kafka-1", port=9092)
        return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    cluster.answers[ApiKey.FIND_COORDINATOR] = find
    consumer = idle_consumer(cluster, group_id="g", group_protocol=protocol)
    poll_for(consumer, 110)
    first, second = [line for line in lines(caplog) if "coordinator" in line]
    assert first.startswith("group g: the coordinator cannot be found yet: COORDINATOR_NOT_AVAILABLE")
    assert " (for " in second
    is_found = True
    poll_for(consumer, 3)
    (found,) = [line for line in lines(caplog, logging.INFO) if "the coordinator is kafka-1:9092" in line]
    assert ", after " in found


@pytest.mark.parametrize("protocol", ["none", "classic", "consumer"])
def test_a_broker_that_dies_while_it_is_read_is_logged_and_its_return(
    any_own_kafka: Callable[..., OwnBroker], protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kcli")
    kafka = any_own_kafka()
    topic = kafka.new_topic(1, prefix="dies")
    group = {} if protocol == "none" else {"group_id": "g", "group_protocol": protocol}
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest", **group}
    with Consumer(topic, **settings) as consumer:
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send(topic, b"before")
        assert next(iter(consumer)).value == b"before"
        kafka.kill()
        while not any(line.startswith("no connection: ") for line in lines(caplog)):
            consumer.poll(100)
        address = kafka.bootstrap_servers
        (line,) = [line for line in lines(caplog) if line.startswith("no connection: ")]
        assert line.startswith(f"no connection: {address}")
        assert f"connection refused by {address}" in line
        kafka.start()
        with Producer(bootstrap_servers=address) as producer:
            producer.send(topic, b"after")
        assert next(iter(consumer)).value == b"after"
        again = [line for line in lines(caplog, logging.INFO) if line.startswith(f"connected again: {address}")]
        assert len(again) == 1


def test_a_closed_producer_logs_how_many_records_are_not_stored_and_the_first_error(
    any_kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    topic = any_kafka.new_topic(1, prefix="unstored")
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers, max_request_size=1000) as producer:
        producer.send(topic, b"v")
        producer.send(topic, b"v" * 2000)
        producer.send(topic, b"v" * 2000)
    (line,) = lines(caplog)
    assert line.startswith("the producer is closed: 2 records are not stored; the first error: MESSAGE_TOO_LARGE: ")


def test_a_producer_whose_records_are_all_stored_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with FakeLog().producer() as producer:
        producer.send("orders", b"v")
    assert lines(caplog) == []


def test_a_position_that_is_reset_is_logged_with_both_offsets(
    any_kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    tp = TopicPartition(any_kafka.new_topic(1, prefix="reset"), 0)
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        for _ in range(5):
            producer.send(tp.topic, b"v")
    with Consumer(bootstrap_servers=any_kafka.bootstrap_servers) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 1000)
        while consumer.position(tp) == 1000:
            consumer.poll(1000)
    text = f"{tp}: the position 1000 is outside the log; it is reset to 5 by auto.offset.reset=latest"
    assert lines(caplog) == [text]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_logs_that_it_joins_and_leaves(
    any_kafka: Kafka, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = any_kafka.new_topic(1, prefix="joined")
    with (
        caplog.at_level(logging.INFO, "kcli"),
        Consumer(
            topic, bootstrap_servers=any_kafka.bootstrap_servers, group_id=f"g-{topic}", group_protocol=protocol
        ) as consumer,
    ):
        while not consumer.assignment:
            consumer.poll(1000)
    joined = [line for line in lines(caplog, logging.INFO) if line.startswith(f"joined group g-{topic} as ")]
    assert any(line.endswith(f"new partitions: {topic} 0") or f"{topic}-0" in line for line in joined)
    assert f"leaving group g-{topic}: the consumer is being closed" in lines(caplog, logging.INFO)


def test_the_command_line_prints_no_line_of_the_library() -> None:
    lookup = "topic", "list", "-b", "127.0.0.1:1", "--timeout", "1"
    run = subprocess.run([sys.executable, "-m", "kcli", *lookup], capture_output=True, text=True, check=False)
    assert run.stderr.count("\n") == 1
    assert "no connection: " not in run.stderr
    library = "from kcli import Admin; Admin(bootstrap_servers='127.0.0.1:1', timeout_ms=500).list_topics()"
    run = subprocess.run([sys.executable, "-c", library], capture_output=True, text=True, check=False)
    assert run.stderr.startswith("no connection: 127.0.0.1:1")


def test_an_expelled_member_logs_the_reason_and_the_lost_partitions(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ClassicCluster()
    cluster.topic("t").append("a")
    member = Member(cluster)
    assert member.poll() == ["a"]
    cluster.answer_next(ApiKey.HEARTBEAT, lambda _: HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    for _ in range(10):
        member.poll()
    removed, lost = lines(caplog)
    assert "must join again" in removed
    assert "UNKNOWN_MEMBER_ID" in removed
    assert lost.endswith("this member was removed, and its partitions may belong to others: t-0")
