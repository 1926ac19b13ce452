"""A producer that threads share, its own thread, and the records that it cannot store."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest

from kcli import BrokerError, Consumer, KcliError, Producer, TimeoutExpired, TransactionFailed
from kcli.broker.testing.embedded import EmbeddedBroker
from kcli.client.request_future import RequestFuture
from kcli.producer.batches import RecordMetadata
from kcli.producer.callables import ProducerRecord
from tests.producer.sending_threads import check_over_restarts, send_in_threads, stored
from tests.real_kafka import Kafka, OwnBroker


def test_threads_share_a_producer(any_kafka: Kafka) -> None:
    """KeyError, and 1,409 of 5,852 futures that were never done."""
    topic = any_kafka.new_topic(partitions=3)
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        futures = send_in_threads(producer, topic, threads=8, records=2000)
        producer.flush()
        assert {value for value, future in futures.items() if not future.succeeded} == set()
    records = stored(any_kafka, topic)
    assert Counter(value for _, _, value in records) == Counter(futures.keys())
    places = {value: future.value() for value, future in futures.items()}
    assert {(places[value].partition, places[value].offset, value) for value in places} == set(records)
    for number in range(8):  # each thread's records of a partition are in the order of its calls
        for partition in range(3):
            own = [value for at, _, value in records if at == partition and value.startswith(b"%d-" % number)]
            assert own == sorted(own, key=lambda value: int(value.split(b"-")[1]))


def test_each_record_of_many_threads_is_stored_once_over_broker_kills(any_own_kafka: Callable[..., OwnBroker]) -> None:
    check_over_restarts(any_own_kafka(), threads=8, records=10_000, kills=1)


def test_a_record_is_sent_without_another_call(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers, linger_ms=1) as producer:
        assert producer.send(topic, b"1").result(timeout_ms=30_000).offset == 0
        called = threading.Event()
        producer.send(topic, b"2").add_done_callback(lambda _: called.set())
        assert called.wait(30)
        assert producer.send_many(topic, [b"3", None], lambda outcome: called.set()) is None
        producer.flush(timeout_ms=30_000)
    assert [value for _, _, value in stored(any_kafka, topic)] == [b"1", b"2", b"3", None]


def test_threads_share_a_transaction(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            futures = send_in_threads(producer, topic, threads=4, records=500)
        assert all(future.succeeded for future in futures.values())
        producer.begin_transaction()
        aborted = send_in_threads(producer, topic, threads=4, records=500)
        producer.abort_transaction()
        assert {type(future.exception()) for future in aborted.values()} <= {type(None), TransactionFailed}
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(topic, bootstrap_servers=any_kafka.bootstrap_servers, **settings) as consumer:  # type: ignore[arg-type]
        values = [record.value for record in consumer.records(to_end=True)]
    assert Counter(values) == Counter(futures.keys())


def test_a_callback_may_send_but_not_wait(any_kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    topic = any_kafka.new_topic()
    second: list[RequestFuture[RecordMetadata]] = []
    errors: list[KcliError | None] = []

    def send_next(_: RequestFuture[RecordMetadata]) -> None:
        second.append(producer.send(topic, b"2"))
        for wait in (producer.flush, lambda: second[0].result(timeout_ms=10_000)):
            try:
                wait()
            except KcliError as error:
                errors.append(error)
        raise ZeroDivisionError

    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        first = producer.send(topic, b"1")
        first.add_done_callback(send_next)
        first.result()
        producer.flush()
        producer.flush()
        assert second[0].result().offset == 1
    assert ["must not wait for the producer" in str(error) for error in errors] == [True, True]
    assert "a callback of a record has failed; its exception is ignored" in caplog.text


def test_a_partitioner_chooses_the_partition(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=3)
    asked: list[tuple[ProducerRecord, int]] = []

    def by_first_byte(record: ProducerRecord, partition_count: int) -> int | None:
        asked.append((record, partition_count))
        return None if record.key is None else record.key[0] % partition_count

    with Producer(
        bootstrap_servers=any_kafka.bootstrap_servers, partitioner=by_first_byte, key_serializer=bytes
    ) as producer:
        futures = [producer.send(topic, b"v", key=[number]) for number in range(6)]
        given = producer.send(topic, b"v", key=[0], partition=2)
        producer.send(topic, b"v").result()
        assert [future.result().partition for future in futures] == [0, 1, 2, 0, 1, 2]
        assert given.result().partition == 2
    assert [(record.key, count) for record, count in asked] == [(bytes([n]), 3) for n in range(6)] + [(None, 3)]


def test_a_full_buffer_waits_for_room(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers, buffer_memory=20_000, linger_ms=60_000) as producer:
        futures = [producer.send(topic, b"x" * 1000) for _ in range(100)]
        assert sum(future.done for future in futures) > 60  # the others are in the buffer
    assert [future.value().offset for future in futures] == list(range(100))


def test_a_record_without_room_fails_after_max_block_ms() -> None:
    with Producer(
        bootstrap_servers="127.0.0.1:1",
        buffer_memory=0,
        max_block_ms=20,
        delivery_timeout_ms=2000,
        request_timeout_ms=500,
    ) as producer:
        error = producer.send("orders", b"x").exception()
    assert isinstance(error, TimeoutExpired)


def test_close_says_how_many_records_are_not_stored_and_why(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        producer = Producer(bootstrap_servers=broker.address)
        producer.send("orders", b"1").result()
    futures = [producer.send("orders", b"2") for _ in range(3)]
    producer.close(timeout_ms=50)
    assert {type(future.exception()) for future in futures} == {KcliError}
    assert "the producer is closed: 3 records are not stored" in caplog.text
    with pytest.raises(KcliError, match="the producer is closed"):
        producer.send("orders", b"3")


FORGETFUL = """
import sys
from kcli import Producer
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
producer.send(sys.argv[2], b"1")
producer.send(sys.argv[2], b"2")
if len(sys.argv) > 3: producer.flush()
"""


@pytest.mark.parametrize("flush", [False, True])
def test_records_that_are_forgotten_at_the_end_of_the_program_are_reported(any_kafka: Kafka, flush: bool) -> None:
    topic = any_kafka.new_topic()
    arguments = [any_kafka.bootstrap_servers, topic, *(["flush"] if flush else [])]
    run = subprocess.run(
        [sys.executable, "-c", FORGETFUL, *arguments], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert run.returncode == 0
    text = "the program ends, and its producer was not closed: 2 records are not stored"
    assert (text in run.stderr) == (not flush), run.stderr
    assert len(stored(any_kafka, topic)) == (2 if flush else 0)


def test_a_failure_of_its_thread_fails_the_records_and_later_calls(
    any_kafka: Kafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = any_kafka.new_topic()
    producer = Producer(bootstrap_servers=any_kafka.bootstrap_servers)
    producer.send(topic, b"1").result()
    monkeypatch.setattr(producer._loop.sender, "run", lambda: 1 / 0)
    with caplog.at_level(logging.WARNING):
        assert producer.send(topic, b"2").exception(timeout_ms=30_000) is not None
    with pytest.raises(KcliError, match="the thread of the producer has failed: ZeroDivisionError"):
        producer.flush(timeout_ms=30_000)
    assert producer.send(topic, b"3").exception(timeout_ms=30_000) is not None
    monkeypatch.undo()
    producer.close()


class Interrupted(Exception):
    """Raised by a signal handler, like KeyboardInterrupt."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the signal came in a finalizer
def test_signals_that_interrupt_calls_lose_and_double_no_record(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(partitions=3)
    futures: dict[bytes, RequestFuture[RecordMetadata]] = {}
    interrupted: set[bytes] = set()

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if frame is not None and "kcli" in frame.f_globals["__name__"]:
            raise Interrupted
        signal.setitimer(signal.ITIMER_REAL, 0.000_01)  # not inside a call of the producer

    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        producer.send(topic, b"first").result()
        previous = signal.signal(signal.SIGALRM, interrupt)
        try:
            for row in range(30_000):
                if row % 300 == 0:
                    signal.setitimer(signal.ITIMER_REAL, 0.000_2)
                value = b"%d" % row
                try:
                    if row % 1000 == 999:
                        producer.flush()
                    futures[value] = producer.send(topic, value, key=value if row % 2 else None)
                except Interrupted:
                    interrupted.add(value)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        producer.flush()
        assert [value for value, future in futures.items() if not future.succeeded] == []
    assert interrupted
    values = Counter(value for _, _, value in stored(any_kafka, topic))
    assert set(values.values()) == {1}
    assert futures.keys() - values.keys() == set()
    assert values.keys() - futures.keys() - {b"first"} <= interrupted


def test_sys_exit_in_a_callback_ends_nothing(any_kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    topic = any_kafka.new_topic()

    def leave(*_: object) -> None:
        sys.exit(3)

    with Producer(bootstrap_servers=any_kafka.bootstrap_servers, on_ack=leave) as producer:
        futures = [producer.send(topic, b"%d" % number) for number in range(3)]
        futures[0].add_done_callback(leave)
        producer.send_many(topic, [b"3"], leave)
        assert [future.result(timeout_ms=30_000).offset for future in futures] == [0, 1, 2]
        assert producer.send(topic, b"4").result(timeout_ms=30_000).offset == 4
    names = ("on_ack", "a callback of a record", "a callback of send_many")
    assert all(f"{name} has failed; its exception is ignored" in caplog.text for name in names)


@pytest.mark.parametrize("name", ["a" * 40_000, "\ud800", "ö"])
def test_a_name_that_no_topic_can_have_disturbs_no_other_topic(any_kafka: Kafka, name: str) -> None:
    topic = any_kafka.new_topic()
    with Producer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        error = producer.send(name, b"1").exception(timeout_ms=30_000)
        assert isinstance(error, BrokerError)
        assert error.code.name == "INVALID_TOPIC_EXCEPTION"
        assert producer.send(topic, b"1").result(timeout_ms=30_000).offset == 0
