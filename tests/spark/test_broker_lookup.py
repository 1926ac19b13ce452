"""Look-ups of planning on the embedded broker and Apache Kafka, for topics written by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kcli.clock import ManualClock
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, NotFound
from kcli.spark.batch_plan import plan_batch
from kcli.spark.broker_lookup import LogEnds, Lookup
from kcli.spark.options import SourceOptions, parse_options
from kcli.spark.stream_plan import StreamPlanner
from kcli.spark.task_ranges import TaskRange
from kcli.structs import TopicPartition
from tests.real_kafka import Kafka

BASE_MS = 1_700_000_000_000


def read(kafka: Kafka, **given: object) -> SourceOptions:
    named = {name.replace("_", "."): str(value) for name, value in given.items()}
    return parse_options({"kafka.bootstrap.servers": kafka.bootstrap_servers, **named})


def write(kafka: Kafka, topic: str, *counts: int, **settings: object) -> Any:
    """Write these numbers of records to partitions 0, 1, ...; record n has the time BASE_MS + n."""
    producer = kafka.ordered_producer(**settings)
    if settings:
        producer.init_transactions(30)
        producer.begin_transaction()
    for partition, count in enumerate(counts):
        for number in range(count):
            producer.produce(topic, b"v", partition=partition, timestamp=BASE_MS + number)
    producer.flush(30)
    return producer


def administer(kafka: Kafka, ask: Callable[[Any], Mapping[Any, Any]]) -> None:
    """Call librdkafka's admin client, which must outlive its own futures."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in ask(admin).values():
        future.result(30)


@pytest.fixture(scope="module")
def orders(any_kafka: Kafka) -> str:
    """Create a topic with 10, 4 and no records, the first 3 of which are deleted."""
    from confluent_kafka import TopicPartition as Position

    topic = any_kafka.new_topic(3, prefix="facts-orders")
    write(any_kafka, topic, 10, 4)
    administer(any_kafka, lambda admin: admin.delete_records([Position(topic, 0, 3)]))
    return topic


def test_log_bounds_offsets_by_time_and_topic_ids(any_kafka: Kafka, orders: str) -> None:
    first, second, third = (TopicPartition(orders, number) for number in range(3))
    with Lookup(read(any_kafka, subscribe=orders)) as lookup:
        assert lookup.partitions() == {first, second, third}
        assert lookup.ends([first, second, third]) == {
            first: LogEnds(3, 10),
            second: LogEnds(0, 4),
            third: LogEnds(0, 0),
        }
        times = lookup.at_times({first: BASE_MS + 5, second: BASE_MS + 4, third: BASE_MS})
        assert times == {first: 5, second: -1, third: -1}
        assert lookup.high_watermarks([second]) == {second: 4}
        assert lookup.topic_ids([orders, "nobody"])[orders] is not None
        assert abs(lookup.now_ms() - time.time() * 1000) < 10_000


def test_a_batch_is_planned_from_broker_answers(any_kafka: Kafka, orders: str) -> None:
    def ranges(**given: object) -> list[TaskRange]:
        options = read(any_kafka, **{"subscribe": orders, **given})
        with Lookup(options) as lookup:
            return plan_batch(options, lookup).ranges

    assert ranges() == [TaskRange(orders, 0, 3, 10), TaskRange(orders, 1, 0, 4)]
    by_time = {"startingOffsetsByTimestampStrategy": "latest", "endingTimestamp": BASE_MS + 8}
    assert ranges(startingTimestamp=BASE_MS + 2, **by_time) == [TaskRange(orders, 0, 3, 8), TaskRange(orders, 1, 2, 4)]


def test_selected_partitions(any_kafka: Kafka, orders: str) -> None:
    def selected(**given: object) -> set[TopicPartition]:
        with Lookup(read(any_kafka, **given)) as lookup:
            return lookup.partitions()

    other = any_kafka.new_topic(1, prefix=orders)
    assert selected(subscribePattern=f"{orders}-.*") == {TopicPartition(other, 0)}
    assert selected(subscribePattern=orders[:-1]) == set()  # the whole name must match
    assert selected(assign=f'{{"{orders}":[1,7]}}') == {TopicPartition(orders, 1)}
    assert selected(subscribe=f"{other},{other}-not-there") == {TopicPartition(other, 0)}
    everything = selected(view="offsets")
    assert {TopicPartition(orders, 2), TopicPartition(other, 0)} <= everything
    assert not any(tp.topic.startswith("__") for tp in everything)


def test_a_look_up_does_not_create_a_topic(any_kafka: Kafka) -> None:
    name = any_kafka.new_name("facts-absent")
    options = read(any_kafka, subscribe=name)
    for _ in range(2):
        with Lookup(options) as lookup, pytest.raises(NotFound, match=f"topic {name} does not exist"):
            plan_batch(options, lookup)


def test_committed_offsets_of_a_group(any_kafka: Kafka, orders: str) -> None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Position

    group = any_kafka.new_name("facts-group")
    consumer = Consumer({"bootstrap.servers": any_kafka.bootstrap_servers, "group.id": group})
    done = consumer.commit(offsets=[Position(orders, 0, 6), Position(orders, 1, 4)], asynchronous=False)
    assert [it.error for it in done] == [None, None]
    consumer.close()
    options = read(any_kafka, subscribe=orders, startingOffsets=f"group:{group}", startingGroupStrategy="earliest")
    with Lookup(options) as lookup:
        assert lookup.group_offsets(group) == {TopicPartition(orders, 0): 6, TopicPartition(orders, 1): 4}
        assert lookup.group_offsets(any_kafka.new_name("nobody")) == {}
        assert plan_batch(options, lookup).ranges == [TaskRange(orders, 0, 6, 10)]


def test_read_committed_ends_before_an_open_transaction(real_kafka: Kafka) -> None:
    topic = real_kafka.new_topic(1, prefix="facts-tx")
    tp = TopicPartition(topic, 0)
    write(real_kafka, topic, 2)
    producer = write(real_kafka, topic, 5, transactional_id=real_kafka.new_name("facts-tx"))
    committed = read(real_kafka, subscribe=topic, kafka_isolation_level="read_committed")
    with Lookup(committed) as lookup, Lookup(read(real_kafka, subscribe=topic)) as all_of_it:
        assert lookup.ends([tp]) == {tp: LogEnds(0, 2)}
        assert lookup.high_watermarks([tp]) == {tp: 7}
        assert all_of_it.ends([tp]) == {tp: LogEnds(0, 7)}
        producer.commit_transaction(30)
        deadline = time.monotonic() + 20
        while lookup.ends([tp]) != {tp: LogEnds(0, 8)}:  # five records and a control record
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_deleted_partitions_are_omitted_after_repeated_look_ups(any_kafka: Kafka) -> None:
    kept, dropped = any_kafka.new_topic(1, prefix="facts-kept"), any_kafka.new_topic(1, prefix="facts-gone")
    gone = TopicPartition(dropped, 0)
    options = read(any_kafka, subscribe=f"{kept},{dropped}", fetchOffset_numRetries=2, fetchOffset_retryIntervalMs=50)
    with Lookup(options) as lookup:
        assert lookup.logs({gone: 0}).keys() == {gone, TopicPartition(kept, 0)}
        administer(any_kafka, lambda admin: admin.delete_topics([dropped]))
        deadline = time.monotonic() + 20
        while lookup.logs({gone: 0}).keys() != {TopicPartition(kept, 0)}:
            assert time.monotonic() < deadline
        assert lookup.ends([gone]) == {}


def test_a_recreated_topic_is_noticed_by_its_id(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1, prefix="facts-again")
    write(any_kafka, topic, 3)
    tp = TopicPartition(topic, 0)
    options = parse_options(
        {
            "kafka.bootstrap.servers": any_kafka.bootstrap_servers,
            "subscribe": topic,
            "failOnDataLoss": "false",
            "offsetPollIntervalMs": "0",
        },
        stream=True,
    )
    with Lookup(options) as lookup:
        planner = StreamPlanner(options, lookup)
        start = planner.initial()
        assert start == planner.latest(start, None, 0).end == {tp: 3}
        administer(any_kafka, lambda admin: admin.delete_topics([topic]))
        deadline = time.monotonic() + 20
        while lookup.partitions():
            assert time.monotonic() < deadline
        any_kafka.create_topic(topic)
        write(any_kafka, topic, 9)
        end = planner.latest(start, None, 1).end
        plan = planner.plan(start, end)
        assert plan.ranges == [TaskRange(topic, 0, 0, 9)]
        assert plan.reports == [f"{tp}: the topic was recreated after it was read up to offset 3; reading from 0"]


def test_a_look_up_is_tried_num_retries_times() -> None:
    class Refusing(Lookup):
        tried = 0

        def _partitions(self, deadline_ms: float) -> set[TopicPartition]:
            self.tried += 1
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="orders")  # TOPIC_AUTHORIZATION_FAILED

    options = parse_options(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": "orders",
            "fetchOffset.numRetries": "4",
            "fetchOffset.retryIntervalMs": "0",
        }
    )
    lookup = Refusing(options, ManualClock())
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        lookup.partitions()
    assert lookup.tried == 4


def test_nothing_is_readable_if_the_log_starts_within_an_open_transaction(any_kafka: Kafka) -> None:
    """Apache's last stable offset is then the start of the batch, before the start of the log."""
    from confluent_kafka import TopicPartition as Position

    topic = any_kafka.new_topic(1, prefix="facts-tx")
    tp = TopicPartition(topic, 0)
    write(any_kafka, topic, 2)
    producer = write(any_kafka, topic, 5, transactional_id=any_kafka.new_name("facts-tx"), linger_ms=500)
    administer(any_kafka, lambda admin: admin.delete_records([Position(topic, 0, 4)]))
    options = read(any_kafka, subscribe=topic, kafka_isolation_level="read_committed")
    with Lookup(options) as lookup:
        assert lookup.ends([tp]) == {tp: LogEnds(4, 4)}
        assert plan_batch(options, lookup).ranges == []
    producer.abort_transaction(30)
