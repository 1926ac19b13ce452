"""Records of both brokers as tables of pyarrow, pandas and polars, and the examples in the docstrings."""

from __future__ import annotations

import doctest
from collections.abc import Iterator

import confluent_kafka
import pytest

from kcli import Consumer, Producer
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.protocol.records import columns as module
from kcli.protocol.records.columns import RecordColumns
from tests.needs import needs_package
from tests.real_kafka import Kafka


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """The address of a broker with the topic that the examples use."""
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=broker.address) as producer:
            for partition, key, value in ((0, b"a", b"1"), (1, b"b", b"2"), (0, b"c", b"3")):
                producer.send("orders", value, key=key, partition=partition)
        yield broker.address


@pytest.mark.parametrize(("name", "package"), [("arrow", "pyarrow"), ("pandas", "pandas"), ("polars", "polars")])
def test_the_example_of_the_docstring_runs(name: str, package: str, bootstrap: str) -> None:
    needs_package(package, name)
    method = getattr(RecordColumns, f"to_{name}")
    (test,) = doctest.DocTestFinder().find(method, method.__name__, module=module)
    assert test.examples
    test.globs = {"bootstrap": bootstrap}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_a_whole_poll_is_one_table(any_kafka: Kafka) -> None:
    needs_package("polars", "polars")
    import polars
    import pyarrow

    topic = any_kafka.new_topic(3, prefix="tables")
    writer = confluent_kafka.Producer({"bootstrap.servers": any_kafka.bootstrap_servers, "compression.type": "lz4"})
    for number in range(300):
        value = None if number % 7 == 0 else b"%d" % number
        writer.produce(
            topic, value, b"k", number % 3, timestamp=1_700_000_000_000 + number, headers={"n": b"%d" % number}
        )
    assert writer.flush(30) == 0

    tables, frames = [], []
    with Consumer(topic, bootstrap_servers=any_kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        while sum(map(len, tables)) < 300:
            polled = consumer.poll(1000)
            if polled:
                tables.append(pyarrow.concat_tables(columns.to_arrow(tp) for tp, columns in polled.items()))
                frames.append(polars.concat(columns.to_polars(tp) for tp, columns in polled.items()))
    rows = sorted(pyarrow.concat_tables(tables).to_pylist(), key=lambda row: row["timestamp"])
    assert [row["partition"] for row in rows] == [number % 3 for number in range(300)]
    assert [row["offset"] for row in rows] == [number // 3 for number in range(300)]
    assert [row["value"] for row in rows] == [None if n % 7 == 0 else b"%d" % n for n in range(300)]
    assert [row["headers"] for row in rows] == [[{"name": "n", "value": b"%d" % n}] for n in range(300)]
    assert polars.concat(frames).sort("timestamp").to_dicts() == rows
