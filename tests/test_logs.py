"""The log lines of the library: what is logged, how often, and that the command line prints none of them."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from kcli import Consumer, Producer, TopicPartition
from kcli.error_codes import ErrorCode
from kcli.logs import RepeatedWarnings
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.registry import ApiKey
from tests.consumer.group.classic_cluster import ClassicCluster, Member
from tests.producer.fake_log import FakeLog
from tests.real_kafka import Kafka


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_warning_that_recurs_is_logged_once_a_minute_with_its_number(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RepeatedWarnings("kcli.test")
    for now_ms in range(0, 120_000, 1000):
        warnings.warn("a", now_ms, "it fails")
    warnings.warn("b", 0, "another")
    assert lines(caplog) == ["it fails", "it fails (59 times more since the last line)", "another"]


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
