"""The transactional producer with kcli's broker and Apache Kafka: what readers with read_committed see."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kcli import (
    BrokerError,
    Consumer,
    KcliError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionFailed,
)
from kcli.error_codes import ErrorCode
from kcli.structs import GroupMetadata
from tests.limits import Limit
from tests.real_kafka import Kafka, read_until_equal


def producer_of(kafka: Kafka, transactional_id: str, **settings: int | str) -> Producer:
    return Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=transactional_id, **settings)


def read(kafka: Kafka, topic: str, level: str = "read_committed") -> list[bytes | None]:
    """The values in partition 0."""
    settings = {"isolation_level": level, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.records(to_end=True)]


def assert_committed(kafka: Kafka, topic: str, *values: bytes) -> None:
    """Check what read_committed returns: the end of a transaction is answered before its markers are written."""
    assert read_until_equal([*values], lambda: read(kafka, topic)) == [*values]


def committed(kafka: Kafka, group: str, tp: TopicPartition) -> int | None:
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group) as consumer:
        found = consumer.committed([tp])[tp]
        return None if found is None else found.offset


def interrupted(producer: Producer, act: Callable[[], object]) -> None:
    """A transaction whose block raises an exception after `act`."""
    with producer.transaction():
        act()
        producer.flush()
        raise ZeroDivisionError


def test_readers_see_committed_transactions_only(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with producer_of(any_kafka, topic) as producer:
        with producer.transaction():
            future = producer.send(topic, b"1", partition=0)
            producer.send(topic, b"2", partition=0)
        with pytest.raises(ZeroDivisionError):
            interrupted(producer, lambda: producer.send(topic, b"3", partition=0))
        with producer.transaction():
            producer.send(topic, b"4", partition=0)
        with producer.transaction():
            pass  # an empty transaction
    assert future.value().offset == 0
    assert_committed(any_kafka, topic, b"1", b"2", b"4")
    assert read(any_kafka, topic, "read_uncommitted") == [b"1", b"2", b"3", b"4"]


def test_a_record_that_fails_aborts_the_transaction_and_the_producer_goes_on(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with producer_of(any_kafka, topic) as producer:
        for bad in ((topic, b"x" * (2 << 20)), ("no-such-topic", b"x")):
            producer.begin_transaction()
            producer.send(topic, b"1", partition=0)
            producer.flush()
            future = producer.send(*bad)
            assert future.exception() is not None
            with pytest.raises(TransactionFailed, match=re.escape(future.error.message)):
                producer.send(topic, b"1", partition=0)
            with pytest.raises(TransactionFailed, match=re.escape(future.error.message)):
                producer.commit_transaction()
            producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"2", partition=0)
    assert_committed(any_kafka, topic, b"2")


def test_a_second_producer_with_the_id_ends_the_transaction_of_the_first(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with producer_of(any_kafka, topic) as first, producer_of(any_kafka, topic) as second:
        first.begin_transaction()
        first.send(topic, b"lost", partition=0)
        first.flush()
        second.init_transactions()
        with second.transaction():
            second.send(topic, b"kept", partition=0)
        with pytest.raises(BrokerError, match="another producer with the same transactional id") as fenced:
            first.commit_transaction()
        assert fenced.value.code == ErrorCode.PRODUCER_FENCED
        with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
            first.begin_transaction()
    assert_committed(any_kafka, topic, b"kept")


def test_offsets_are_committed_with_the_transaction_or_not_at_all(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    tp, group = TopicPartition(topic, 0), f"g-{topic}"
    with producer_of(any_kafka, topic) as producer:
        with producer.transaction():
            producer.send_offsets({tp: OffsetAndMetadata(7)}, group)
        assert committed(any_kafka, group, tp) == 7
        with pytest.raises(ZeroDivisionError):
            interrupted(producer, lambda: producer.send_offsets({tp: OffsetAndMetadata(9)}, group))
        assert committed(any_kafka, group, tp) == 7


def test_offsets_of_a_consumer_that_is_not_a_member_abort_the_transaction(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    tp, group = TopicPartition(topic, 0), f"g-{topic}"
    with producer_of(any_kafka, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"1", partition=0)
        with pytest.raises(BrokerError) as refused:
            producer.send_offsets({tp: OffsetAndMetadata(7)}, GroupMetadata(group, 3, "nobody"))
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        producer.abort_transaction()
        assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        with producer.transaction():
            producer.send(topic, b"2", partition=0)
    assert_committed(any_kafka, topic, b"2")
    assert committed(any_kafka, group, tp) is None


def test_consume_transform_produce(any_kafka: Kafka) -> None:
    """The loop in the docstring of `send_offsets`: each record is transformed once, over two consumers."""
    source, target, group = any_kafka.new_topic(), any_kafka.new_topic(), any_kafka.new_topic()
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as plain:
        for number in range(20):
            plain.send(source, b"%d" % number, partition=0)
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    for stop_after in (7, 20):
        with (
            Consumer(bootstrap_servers=any_kafka.bootstrap_servers, fetch_max_bytes=1, **settings) as consumer,
            producer_of(any_kafka, group) as producer,
        ):
            producer.init_transactions()
            consumer.subscribe([source])
            limit = Limit(f"{stop_after} transformed records")
            while len(read(any_kafka, target)) < stop_after:
                limit.check()
                batch = consumer.poll(timeout_ms=200)
                with producer.transaction():
                    for columns in batch.values():
                        for row in columns:
                            producer.send(target, (row.value or b"") + b"!", partition=0)
                    offsets = {tp: OffsetAndMetadata(consumer.position(tp)) for tp in batch}
                    producer.send_offsets(offsets, consumer.group_metadata())
    assert_committed(any_kafka, target, *(b"%d!" % number for number in range(20)))


def test_a_record_needs_an_open_transaction(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with producer_of(any_kafka, topic) as producer:
        with pytest.raises(KcliError, match="no transaction is open"):
            producer.send(topic, b"1")
        producer.begin_transaction()
        with pytest.raises(KcliError, match=r"the transaction before .* has not ended"):
            producer.begin_transaction()


def test_an_open_transaction_is_aborted_by_close(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with producer_of(any_kafka, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"1", partition=0)
        producer.flush()
    assert_committed(any_kafka, topic)
