"""The consumer as a Python user sees it, against an embedded broker: constructor, iteration, columns, commits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.consumer.consumer import Consumer, ConsumerRecord
from kcli.errors import BrokerError, ConfigError, KcliError
from kcli.producer.producer import Producer
from kcli.structs import OffsetAndMetadata, TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
COMMON = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": "g"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """The address of a broker with a topic `orders` of 2 partitions with the values 1, 2, 3 and 4, 5."""
    with EmbeddedBroker(**{"group.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", 2)
        with Producer(bootstrap_servers=broker.address) as producer:
            for value in (b"1", b"2", b"3"):
                producer.send("orders", value, key=b"k" + value, partition=0)
            for value in (b"4", b"5"):
                producer.send("orders", value, partition=1)
        yield broker.address


def values(records: Iterator[ConsumerRecord]) -> dict[int, list[bytes | None]]:
    """The values by partition."""
    found: dict[int, list[bytes | None]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record.value)
    return found


def test_without_a_group_all_partitions_are_read(bootstrap: str) -> None:
    with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert consumer.assignment == [P0, P1]
        assert values(consumer.records(to_end=True)) == {0: [b"1", b"2", b"3"], 1: [b"4", b"5"]}
        assert values(consumer.records(to_end=True)) == {}
        assert (consumer.position(P0), consumer.position(P1)) == (3, 2)


def test_a_record_has_its_place_and_contents(bootstrap: str) -> None:
    with Consumer(bootstrap_servers=[bootstrap], auto_offset_reset="earliest") as consumer:
        consumer.assign([P0])
        record = next(iter(consumer))
        assert (record.topic, record.partition, record.offset, record.key, record.value) == (
            "orders",
            0,
            0,
            b"k1",
            b"1",
        )
        assert record.timestamp_ms > 1_600_000_000_000
        assert list(record.headers) == []


def test_iteration_continues_after_the_last_returned_record(bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([P0])
        assert [record.value for record in islice(consumer, 1)] == [b"1"]
        assert consumer.position(P0) == 1
        assert [record.value for record in consumer.records(to_end=True)] == [b"2", b"3"]


def test_a_seek_takes_effect_in_the_middle_of_a_batch(bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([P0])
        read = []
        for record in consumer.records(to_end=True):
            read.append(record.value)
            if len(read) == 1:
                consumer.seek(P0, 2)
        assert read == [b"1", b"3"]


def test_columns_contain_the_records_of_one_partition(bootstrap: str) -> None:
    with Consumer("orders", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        sizes = {P0: 0, P1: 0}
        for tp, columns in consumer.columns(to_end=True):
            sizes[tp] += len(columns)
        assert sizes == {P0: 3, P1: 2}


def test_commit_in_an_iteration_includes_the_returned_record_and_no_later_one(bootstrap: str) -> None:
    settings: Any = {**COMMON, "group_id": "commit"}
    with Consumer("orders", bootstrap_servers=bootstrap, **settings) as consumer:
        for record in consumer.records(to_end=True):
            if record.value == b"2":
                consumer.commit()
                break
        committed = consumer.committed([P0])
        assert committed[P0] == OffsetAndMetadata(2)
    with Consumer("orders", bootstrap_servers=bootstrap, **settings) as consumer:
        assert values(consumer.records(to_end=True))[0] == [b"3"]


def test_an_automatic_commit_at_the_end_excludes_records_that_were_not_returned(bootstrap: str) -> None:
    settings: Any = {**COMMON, "group_id": "automatic", "enable_auto_commit": True}
    with Consumer("orders", bootstrap_servers=bootstrap, **settings) as consumer:
        iteration = consumer.records()
        while next(iteration).value != b"1":
            pass
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        committed = consumer.committed([P0])[P0]
        assert committed is not None
        assert committed.offset == 1


def test_a_misspelled_setting_is_an_error_with_a_suggestion(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="did you mean fetch_min_bytes"):
        Consumer("orders", bootstrap_servers=bootstrap, fetch_min_byte=1)


def test_an_unknown_topic_is_an_error(bootstrap: str) -> None:
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        Consumer("ordrs", bootstrap_servers=bootstrap)


def test_a_commit_requires_a_group(bootstrap: str) -> None:
    with (
        Consumer("orders", bootstrap_servers=bootstrap) as consumer,
        pytest.raises(KcliError, match=r"cannot commit without a group\.id"),
    ):
        consumer.commit()
