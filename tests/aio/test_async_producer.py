"""`AsyncProducer` on both brokers: outcomes, backpressure, cancellation, transactions, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import json
import logging
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from kcli import AsyncConsumer, AsyncProducer, Consumer, OffsetAndMetadata, Producer, TopicPartition
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError, SerializationError, TimeoutExpired, TransactionFailed
from tests.real_kafka import Kafka, OwnBroker
from tests.test_public_api import public_members

R = TypeVar("R")
LIMIT_S = 60.0
#: Members of `Producer` that an `AsyncProducer` does not have, each with the reason.
ABSENT = {
    "poll": "for a producer without a thread",
    "wait_for": "of the futures; tasks await them",
    "from_config": "of the library itself",
}
SMALL: Any = {"buffer_memory": 20_000, "batch_size": 2_000}


def run(test: Coroutine[Any, Any, R], limit_s: float = LIMIT_S) -> R:
    async def bounded() -> R:
        return await asyncio.wait_for(test, limit_s)

    return asyncio.run(bounded())


def producer_of(kafka: Kafka, **settings: Any) -> AsyncProducer:
    return AsyncProducer(bootstrap_servers=kafka.bootstrap_servers, **settings)


def values_of(kafka: Kafka, topic: str, isolation_level: str = "read_uncommitted") -> list[bytes]:
    """Return the values of all partitions, each in order."""
    settings: Any = {"bootstrap_servers": kafka.bootstrap_servers, "isolation_level": isolation_level}
    with Consumer(topic, auto_offset_reset="earliest", **settings) as consumer:
        return [record.value for record in consumer.records(to_end=True)]


@contextlib.contextmanager
def suspended(broker: OwnBroker) -> Iterator[Callable[[], None]]:
    """Stop the process of a broker; the connections stay open. Yield the function that lets it go on."""
    assert broker.pid is not None
    pid = broker.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield lambda: os.kill(pid, signal.SIGCONT)
    finally:
        os.kill(pid, signal.SIGCONT)


# --- the interface


def test_every_public_member_of_producer_is_there() -> None:
    missing = [name for name, _ in public_members(Producer) if not hasattr(AsyncProducer, name)]
    assert sorted(missing) == sorted(ABSENT)
    for name, member in public_members(Producer):
        of_async = inspect.getattr_static(AsyncProducer, name, None)
        if name in (*ABSENT, "metrics", "awaits_transaction_end", "transaction"):
            assert not inspect.iscoroutinefunction(of_async)
            continue
        assert inspect.iscoroutinefunction(of_async), name
        assert inspect.signature(of_async).parameters == inspect.signature(member).parameters, name
    assert inspect.signature(AsyncProducer.send_and_wait).parameters == inspect.signature(Producer.send).parameters


def test_arguments_are_checked() -> None:
    misspelt: Any = {"lingerms": 3}
    with pytest.raises(ConfigError, match="did you mean linger_ms"):
        AsyncProducer(**misspelt)

    async def serialize(value: object) -> bytes:
        return b""

    with pytest.raises(TypeError, match="value_serializer must be a function, not a coroutine function"):
        AsyncProducer(value_serializer=serialize)  # type: ignore[arg-type]

    async def use() -> None:
        async with AsyncProducer(bootstrap_servers="127.0.0.1:1") as producer:
            with pytest.raises(TypeError, match="topic"):
                await producer.send(3, b"")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="timeout_ms must not be negative"):
                await producer.flush(-1)

    run(use())


# --- outcomes


def test_sent_records_are_stored_in_order_with_their_metadata(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)

    async def use() -> None:
        async with producer_of(any_kafka) as producer:
            futures = [await producer.send(topic, b"%d" % number) for number in range(500)]
            metadata = [await future for future in futures]
            assert [entry.offset for entry in metadata] == list(range(500))
            stored = await producer.send_and_wait(topic, b"500", b"key", headers=[("h", b"v")], timestamp_ms=7)
            assert (stored.topic, stored.partition, stored.offset, stored.timestamp_ms) == (topic, 0, 500, 7)
            await producer.send_many(topic, [b"501", b"502"])
            await producer.flush()
            assert (await producer.partitions(topic)).name == topic
            assert producer.metrics()["producer-metrics"]["record-send-total"] >= 503

    run(use())
    assert values_of(any_kafka, topic) == [b"%d" % number for number in range(503)]


def test_the_sends_of_waiting_tasks_keep_their_order(any_kafka: Kafka) -> None:
    """They wait for the metadata of the topic, and then again and again for room."""
    topic = any_kafka.new_topic(1)

    async def use() -> None:
        async with producer_of(any_kafka, **SMALL) as producer:
            tasks = [producer.send_and_wait(topic, b"%d" % number + b" " * 100) for number in range(1000)]
            metadata = await asyncio.gather(*tasks)
            assert [entry.offset for entry in metadata] == list(range(1000))

    run(use())


def test_an_error_of_a_record_is_in_its_future(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(2)
    acknowledged: list[tuple[int, type | None]] = []

    def on_ack(metadata: Any, error: KcliError | None) -> None:
        acknowledged.append((metadata.partition, error and type(error)))

    async def use() -> None:
        async with producer_of(
            any_kafka, on_ack=on_ack, value_serializer=lambda it: json.dumps(it).encode()
        ) as producer:
            unknown = await producer.send("absent", 1)
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await unknown
            with pytest.raises(BrokerError) as caught:
                await producer.send_and_wait(topic, "x" * 2_000_000, partition=1)
            assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await producer.send_and_wait(topic, 1, partition=7)
            with pytest.raises(SerializationError):
                await producer.send(topic, object())
            assert (await producer.send_and_wait(topic, {"n": 3}, partition=0)).offset == 0

    run(use())
    assert acknowledged == [(-1, BrokerError), (1, BrokerError), (7, BrokerError), (-1, SerializationError), (0, None)]
    assert values_of(any_kafka, topic) == [b'{"n": 3}']


def test_a_partitioner_is_called_in_the_loop(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(3)
    threads: set[threading.Thread] = set()

    def choose(record: Any, count: int) -> int:
        threads.add(threading.current_thread())
        return int(record.value) % count

    async def use() -> list[int]:
        async with producer_of(any_kafka, partitioner=choose) as producer:
            return [(await producer.send_and_wait(topic, b"%d" % number)).partition for number in range(6)]

    assert run(use()) == [0, 1, 2, 0, 1, 2]
    assert threads == {threading.main_thread()}


# --- backpressure and cancellation


def test_a_full_buffer_lets_only_the_sending_task_wait(any_own_kafka: Callable[..., OwnBroker]) -> None:
    """The loop goes on while the broker does not answer; a cancelled send has added nothing."""
    broker = any_own_kafka()
    topic = broker.create_topic("orders")

    async def use() -> tuple[int, list[int]]:
        accepted: list[int] = []
        async with producer_of(broker, max_block_ms=30_000, **SMALL) as producer:
            await producer.send_and_wait(topic, b"first")

            async def write() -> None:
                for number in range(1_000):
                    future = await producer.send(topic, b"%d" % number + b" " * 100)
                    accepted.append(number)
                    futures.append(future)

            futures: list[Any] = []
            with suspended(broker) as go_on:
                writing = asyncio.ensure_future(write())
                while all(wait.is_over for wait in producer._waits.values()):  # for room
                    await asyncio.sleep(0.01)
                waiting_at = len(accepted)
                assert 100 < waiting_at < 300  # 20,000 bytes
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(producer.send(topic, b"cancelled"), 0.1)
                with pytest.raises(TimeoutExpired):
                    await producer.flush(timeout_ms=100)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(producer.flush(), 0.1)
                assert len(accepted) == waiting_at
                go_on()
                await writing
                await asyncio.gather(*futures)
        return waiting_at, accepted

    _, accepted = run(use(), 120)
    assert accepted == list(range(1000))
    values = values_of(broker, topic)
    assert [value.strip() for value in values] == [b"first", *(b"%d" % number for number in range(1000))]


def test_a_send_without_room_fails_after_max_block_ms(any_own_kafka: Callable[..., OwnBroker]) -> None:
    broker = any_own_kafka()
    topic = broker.create_topic("orders")

    async def use() -> None:
        async with producer_of(broker, max_block_ms=500, **SMALL) as producer:
            await producer.send_and_wait(topic, b"first")
            with suspended(broker):
                sends = [producer.send(topic, b" " * 1_000) for _ in range(60)]
                futures = await asyncio.gather(*sends)
                refused = [future for future in futures if future.done]
                assert 10 < len(refused) < 60
                assert {type(future.error) for future in refused} == {TimeoutExpired}
                assert "buffer.memory" in str(refused[0].error) or "buffer.memory" in repr(refused[0].error)
            await asyncio.gather(*(future for future in futures if not future.done))

    run(use(), 120)


def test_cancelled_sends_lose_and_double_no_record(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)

    chance = random.Random(1)

    async def use() -> list[int]:
        stored: list[int] = []
        async with producer_of(any_kafka, **SMALL) as producer:
            await producer.partitions(topic)
            for number in range(2_000):
                task = asyncio.ensure_future(producer.send(topic, b"%d" % number + b" " * 200))
                await asyncio.wait([task], timeout=chance.choice([0, 0.0001, 0.001]))
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                    stored.append(number)
        return stored

    stored = run(use())
    assert [int(value) for value in values_of(any_kafka, topic)] == stored
    assert 100 < len(stored) < 2_000


def test_nobody_waits_for_an_unreachable_broker_after_a_cancellation() -> None:
    async def use() -> float:
        begun = time.monotonic()
        async with AsyncProducer(bootstrap_servers="127.0.0.1:1") as producer:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(producer.send("orders", b"1"), 0.05)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(producer.partitions("orders"), 0.05)
            await producer.flush()
        return time.monotonic() - begun

    assert run(use()) < 20  # max.block.ms is 60 s


def test_the_loop_runs_other_tasks_while_one_sends_without_pause(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)

    async def use() -> int:
        turns = 0
        async with producer_of(any_kafka) as producer:

            async def write() -> None:
                for _ in range(2_000):
                    await producer.send(topic, b"x")

            writing = asyncio.ensure_future(write())
            while not writing.done():
                turns += 1
                await asyncio.sleep(0)
        return turns

    assert run(use()) >= 20


# --- transactions


def test_a_transaction_is_committed_or_aborted_as_a_whole(any_kafka: Kafka) -> None:
    topic, group = any_kafka.new_topic(1), any_kafka.new_name("g")
    tp = TopicPartition(topic, 0)

    async def use() -> None:
        async with producer_of(any_kafka, transactional_id=any_kafka.new_name("tx")) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"committed")
                await producer.send_offsets({tp: OffsetAndMetadata(5)}, group)

            async def fail() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"aborted")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            with pytest.raises(TransactionFailed):
                async with producer.transaction():
                    await producer.send(topic, b"x" * 2_000_000)
            with pytest.raises(KcliError):
                await producer.send(topic, b"outside")

            async def block() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"cancelled")
                    begun.set()
                    await asyncio.sleep(LIMIT_S)

            begun = asyncio.Event()
            task = asyncio.ensure_future(block())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                assert (await producer.send(topic, b"last")) is not None
            assert not producer.awaits_transaction_end
        async with AsyncConsumer(bootstrap_servers=any_kafka.bootstrap_servers, group_id=group) as consumer:
            assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(5)

    run(use())
    assert values_of(any_kafka, topic, "read_committed") == [b"committed", b"last"]


def test_a_cancellation_while_a_transaction_begins_leaves_none_open(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)

    async def use() -> None:
        async with producer_of(any_kafka, transactional_id=any_kafka.new_name("tx")) as producer:

            async def block(value: bytes) -> None:
                async with producer.transaction():
                    await producer.send(topic, value)

            task = asyncio.ensure_future(block(b"never"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await block(b"1")

    run(use())
    assert values_of(any_kafka, topic, "read_committed") == [b"1"]


def test_consume_transform_produce_loses_and_doubles_nothing(any_kafka: Kafka) -> None:
    """The loop of exactly once, with a failure in the middle."""
    source, sink, group = any_kafka.new_topic(1), any_kafka.new_topic(1), any_kafka.new_name("g")
    settings: Any = {"bootstrap_servers": any_kafka.bootstrap_servers}
    with Producer(**settings) as producer:
        for number in range(100):
            producer.send(source, b"%d" % number)

    async def work(fail_at: int | None) -> None:
        reading: Any = {**settings, "group_id": group, "enable_auto_commit": False, "max_poll_records": 10}
        reading.update(auto_offset_reset="earliest", isolation_level="read_committed")
        async with (
            AsyncProducer(transactional_id=group, **settings) as producer,
            AsyncConsumer(source, **reading) as consumer,
        ):
            await producer.init_transactions()
            done = 0
            while done < 100:
                batch = await consumer.poll()
                async with producer.transaction():
                    for columns in batch.values():
                        for record in columns:
                            await producer.send(sink, record.value)
                            if record.offset == fail_at:
                                raise ZeroDivisionError
                    offsets = {tp: OffsetAndMetadata(await consumer.position(tp)) for tp in batch}
                    await producer.send_offsets(offsets, await consumer.group_metadata())
                done = max(offset.offset for offset in offsets.values())

    with pytest.raises(ZeroDivisionError):
        run(work(fail_at=45))
    run(work(fail_at=None))
    assert values_of(any_kafka, sink, "read_committed") == [b"%d" % number for number in range(100)]


# --- the end


def test_the_end_of_the_block_flushes_and_an_exception_does_not(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)

    async def use(error: BaseException | None) -> Any:
        async with producer_of(any_kafka, linger_ms=60_000) as producer:
            await producer.partitions(topic)
            future = await producer.send(topic, b"1")
            if error is not None:
                futures.append(future)
                raise error
            return future

    futures: list[Any] = []
    assert run(use(None)).value().offset == 0
    with pytest.raises(ZeroDivisionError):
        run(use(ZeroDivisionError()))
    assert futures[0].failed
    assert values_of(any_kafka, topic) == [b"1"]


def test_a_cancellation_ends_the_flush_of_close(
    any_own_kafka: Callable[..., OwnBroker], caplog: pytest.LogCaptureFixture
) -> None:
    broker = any_own_kafka()
    topic = broker.create_topic("orders")

    async def use() -> float:
        producer = producer_of(broker)
        await producer.send_and_wait(topic, b"first")
        with suspended(broker):
            future = await producer.send(topic, b"second")
            begun = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(producer.close(), 0.2)
            took_s = time.monotonic() - begun
            assert future.failed
            with pytest.raises(KcliError, match="closed"):
                await producer.send(topic, b"third")
            await producer.close()
            return took_s

    with caplog.at_level(logging.WARNING, logger="kcli"):
        assert run(use(), 120) < 20  # delivery.timeout.ms is 120 s
    assert "1 record" in caplog.text


def test_a_forgotten_producer_sends_its_records_with_a_warning(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic(1)

    async def use() -> None:
        await producer_of(any_kafka, linger_ms=60_000).send(topic, b"1")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(use())
        gc.collect()
        for thread in threading.enumerate():
            if thread.name == "kcli-AsyncProducer":
                thread.join(LIMIT_S)
    assert [entry for entry in caught if "unclosed <AsyncProducer of " in str(entry.message)]
    assert values_of(any_kafka, topic) == [b"1"]


def test_a_send_in_a_second_loop_is_an_error(our_kafka: Kafka) -> None:
    producer = producer_of(our_kafka)
    run(producer.send_and_wait(our_kafka.new_topic(1), b"1"))
    with pytest.raises(KcliError, match="belongs to the event loop of its first call; make one for each loop"):
        run(producer.send_and_wait(our_kafka.new_topic(1), b"1"))
