"""`kcli consume topic t -o start -e` ends with status 0 even if the last offset holds no visible record."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop import shapes
from tests.interop.process import Finished, kcli
from tests.real_kafka import Kafka


def consume(kafka: Kafka, topic: str, *options: str) -> Finished:
    return kcli("consume", "topic", topic, "-o", "start", "-e", "-b", kafka.bootstrap_servers, *options, timeout_s=40)


@pytest.mark.parametrize("make", [shapes.empty, shapes.head_deleted, shapes.compacted_with_holes])
def test_it_ends_and_shows_what_is_visible(make: Callable[[Kafka], shapes.Shape], any_kafka: Kafka) -> None:
    shape = make(any_kafka)
    run = consume(any_kafka, shape.topic)
    assert run.status == 0, run.err
    assert run.lines == shape.visible


def test_it_ends_after_control_records(real_kafka: Kafka) -> None:
    shape = shapes.ending_in_markers(real_kafka)
    run = consume(real_kafka, shape.topic)
    assert run.status == 0, run.err
    assert run.lines == shape.visible


def test_read_committed_ends_after_an_aborted_transaction(real_kafka: Kafka) -> None:
    shape = shapes.aborted_at_the_end(real_kafka)
    run = consume(real_kafka, shape.topic, "--isolation-level", "read_committed")
    assert run.status == 0, run.err
    assert run.lines == shape.visible


def test_read_uncommitted_returns_aborted_records_and_no_control_records(real_kafka: Kafka) -> None:
    shape = shapes.aborted_at_the_end(real_kafka)
    run = consume(real_kafka, shape.topic)
    assert run.status == 0, run.err
    assert run.lines == [b"%d.%d" % (n, i) for n in range(4) for i in range(3)]


def test_read_committed_stops_before_an_open_transaction(real_kafka: Kafka) -> None:
    """For read_committed the end is the last stable offset: an open transaction hides every later record."""
    topic = real_kafka.new_topic(prefix="open")
    shapes.produce(real_kafka, topic, [b"before"])
    producer = shapes.transactional(real_kafka)
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    producer.flush(30)
    shapes.produce(real_kafka, topic, [b"behind"])
    try:
        run = consume(real_kafka, topic, "--isolation-level", "read_committed")
        assert run.status == 0, run.err
        assert run.lines == [b"before"]
        assert consume(real_kafka, topic).lines == [b"before", b"undecided", b"behind"]
    finally:
        producer.abort_transaction()
