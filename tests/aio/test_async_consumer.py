"""`AsyncConsumer` on both brokers: reading, cancellation, several tasks, rebalances, and its end."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import confluent_kafka
import pytest

from kcli import Admin, AsyncConsumer, Consumer, OffsetAndMetadata, SerializationError, TopicPartition
from kcli.errors import BrokerError, ConfigError, KcliError
from tests.limits import killed_after
from tests.real_kafka import Kafka
from tests.test_public_api import public_members

R = TypeVar("R")
LIMIT_S = 60.0
#: Members of `Consumer` that an `AsyncConsumer` does not have, each with the reason.
ABSENT = {
    "commit_async": "a commit that a task does not wait for is a task of its own",
    "wakeup": "a task is cancelled instead",
    "from_config": "of the library itself",
    "membership": "of the library itself",
}


def run(test: Coroutine[Any, Any, R], limit_s: float = LIMIT_S) -> R:
    async def bounded() -> R:
        return await asyncio.wait_for(test, limit_s)

    return asyncio.run(bounded())


def topic_of(kafka: Kafka, count: int, partitions: int = 1) -> str:
    """Return a new topic with the values 0, 1, ..., spread over its partitions, written by librdkafka."""
    topic = kafka.new_topic(partitions, prefix="aio")
    write(kafka, topic, range(count), partitions)
    return topic


def write(kafka: Kafka, topic: str, numbers: range, partitions: int = 1) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def consumer_of(kafka: Kafka, *topics: str, **settings: Any) -> AsyncConsumer:
    given = {"auto_offset_reset": "earliest", **settings}
    return AsyncConsumer(*topics, bootstrap_servers=kafka.bootstrap_servers, **given)


def member_of(kafka: Kafka, topic: str, group: str, **settings: Any) -> AsyncConsumer:
    return consumer_of(kafka, topic, group_id=group, enable_auto_commit=False, **settings)


async def next_of(records: AsyncIterator[R]) -> R:
    return await records.__anext__()


async def first(consumer: AsyncConsumer, count: int) -> list[int]:
    """Return the values of the next records."""
    numbers: list[int] = []
    async for record in consumer:
        numbers.append(int(record.value))
        if len(numbers) == count:
            break
    return numbers


# --- the interface


def test_every_public_member_of_consumer_is_there() -> None:
    missing = [name for name, _ in public_members(Consumer) if not hasattr(AsyncConsumer, name)]
    assert sorted(missing) == sorted(ABSENT)
    for name, member in public_members(Consumer):
        of_async = inspect.getattr_static(AsyncConsumer, name, None)
        if name in ABSENT or name in ("assignment", "metrics", "records", "columns"):
            assert not inspect.iscoroutinefunction(of_async)
            continue
        assert inspect.iscoroutinefunction(of_async), name
        if name not in ("close", "poll"):
            assert list(inspect.signature(of_async).parameters) == list(inspect.signature(member).parameters)


def test_arguments_are_checked_by_the_constructor() -> None:
    misspelt: Any = {"group_idd": "g"}
    with pytest.raises(ConfigError, match="did you mean group_id"):
        AsyncConsumer("orders", **misspelt)
    with pytest.raises(TypeError, match="list is not the name of a topic"):
        AsyncConsumer(["orders"])  # type: ignore[arg-type]

    async def interceptor(_: object) -> None: ...

    with pytest.raises(TypeError, match="on_consume must be a function, not a coroutine function"):
        AsyncConsumer(on_consume=interceptor)  # type: ignore[arg-type]


# --- reading


def test_records_columns_and_polls_return_each_record_once(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 1000, partitions=3)
    p0 = TopicPartition(topic, 0)

    async def use() -> None:
        async with consumer_of(any_kafka, topic, max_poll_records=100) as consumer:
            assert len(consumer.assignment) == 3
            assert sorted([int(record.value) async for record in consumer.records(to_end=True)]) == list(range(1000))
            assert [record async for record in consumer.records(to_end=True)] == []
            assert await consumer.position(p0) == (await consumer.end_offsets([p0]))[p0] == 334
            await consumer.seek_to_beginning(consumer.assignment)
            read = [(tp, columns) async for tp, columns in consumer.columns(to_end=True)]
            assert sum(len(columns) for _, columns in read) == 1000
            await consumer.seek_to_beginning(consumer.assignment)
            polled: Counter[TopicPartition] = Counter()
            while sum(polled.values()) < 1000:
                polled.update({tp: len(columns) for tp, columns in (await consumer.poll(5000)).items()})
            assert sum(polled.values()) == 1000
            assert await consumer.poll(0) == {}
            assert any(name.startswith("consumer-fetch-manager-metrics") for name in consumer.metrics())

    run(use())


def test_a_poll_continues_where_an_iteration_stopped(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 10)
    tp = TopicPartition(topic, 0)

    async def use() -> None:
        async with consumer_of(any_kafka, topic) as consumer:
            assert await first(consumer, 3) == [0, 1, 2]
            assert await consumer.position(tp) == 3
            assert [int(value or b"") for value in (await consumer.poll())[tp].values()] == [3, 4, 5, 6, 7, 8, 9]
            assert await consumer.position(tp) == 10

    run(use())


def test_a_seek_in_an_iteration_drops_the_rest(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 10)
    tp = TopicPartition(topic, 0)

    async def use() -> list[int]:
        numbers = []
        async with consumer_of(any_kafka, topic) as consumer:
            async for record in consumer.records(to_end=True):
                numbers.append(int(record.value))
                if len(numbers) == 2:
                    await consumer.seek(tp, 8)
                if record.value == b"8":
                    assert await consumer.position(tp) == 9
        return numbers

    assert run(use()) == [0, 1, 8, 9]


def test_a_pause_by_another_task_loses_and_doubles_no_record(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 2_000)
    tp = TopicPartition(topic, 0)

    async def pause_and_resume(consumer: AsyncConsumer) -> None:
        for _ in range(5):
            await consumer.pause([tp])
            await consumer.resume([tp])
            await asyncio.sleep(0.01)

    async def read(consumer: AsyncConsumer) -> list[int]:
        offsets: list[int] = []
        async for record in consumer.records(to_end=True):
            offsets.append(record.offset)
            if record.offset % 10 == 0:
                await asyncio.sleep(0)
        return offsets

    async def use() -> list[int]:
        async with consumer_of(any_kafka, topic, fetch_max_wait_ms=5) as consumer:
            offsets, _ = await asyncio.gather(read(consumer), pause_and_resume(consumer))
            return offsets + await read(consumer)  # a paused partition ends an iteration to the end

    assert run(use()) == list(range(2_000))


def test_two_tasks_share_the_records_of_a_consumer(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 500, partitions=2)

    async def read(consumer: AsyncConsumer, numbers: list[int]) -> None:
        async for record in consumer.records(to_end=True):
            numbers.append(int(record.value))
            await asyncio.sleep(0)

    async def use() -> tuple[list[int], list[int]]:
        one: list[int] = []
        other: list[int] = []
        async with consumer_of(any_kafka, topic, max_poll_records=50) as consumer:
            await asyncio.gather(read(consumer, one), read(consumer, other))
        return one, other

    one, other = run(use())
    assert sorted(one + other) == list(range(500))
    assert one
    assert other


def test_a_deserializer_that_fails_leaves_the_position_at_its_record(any_kafka: Kafka) -> None:
    topic = any_kafka.new_topic()
    tp = TopicPartition(topic, 0)
    producer = confluent_kafka.Producer({"bootstrap.servers": any_kafka.bootstrap_servers})
    for value in (b"1", b"{", b"3"):
        producer.produce(topic, value)
    assert producer.flush(30) == 0

    async def use() -> None:
        async with consumer_of(any_kafka, topic, value_deserializer=json.loads) as consumer:
            records = consumer.records(to_end=True)
            assert (await next_of(records)).value == 1
            for _ in range(2):
                with pytest.raises(SerializationError, match="offset 1"):
                    await next_of(records)
                assert await consumer.position(tp) == 1
            await consumer.seek(tp, 2)
            assert [record.value async for record in records] == [3]

    run(use())


def test_an_unknown_topic_is_an_error_of_the_first_call_and_ends_the_thread(any_kafka: Kafka) -> None:
    async def use() -> None:
        consumer = consumer_of(any_kafka, "absent")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            async with consumer:
                raise AssertionError("not reached")
        with pytest.raises(KcliError, match="is closed"):
            await consumer.poll(0)

    run(use())


# --- several calls


def test_a_poll_that_waits_gives_way_to_other_calls(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 0), any_kafka.new_name("g")
    tp = TopicPartition(topic, 0)

    async def use() -> float:
        async with member_of(any_kafka, topic, group) as consumer:
            waiting = asyncio.ensure_future(consumer.poll())
            while not consumer.assignment:
                await asyncio.sleep(0.01)
            begun = time.monotonic()
            for offset in range(5):
                await consumer.commit({tp: OffsetAndMetadata(offset)})
                assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(offset)
            took_s = time.monotonic() - begun
            assert not waiting.done()
            write(any_kafka, topic, range(1))
            assert [len(columns) for columns in (await waiting).values()] == [1]
            return took_s

    assert run(use()) < 20


def test_a_poll_gets_records_although_other_tasks_call_without_pause(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 2000, partitions=2)

    async def call(consumer: AsyncConsumer) -> None:
        while True:
            await consumer.position(TopicPartition(topic, 0))

    async def use() -> list[int]:
        async with consumer_of(any_kafka, topic, max_poll_records=200) as consumer:
            calls = [asyncio.ensure_future(call(consumer)) for _ in range(5)]
            numbers = [int(record.value) async for record in consumer.records(to_end=True)]
            for task in calls:
                task.cancel()
            await asyncio.wait(calls)
            return numbers

    assert sorted(run(use())) == list(range(2000))


# --- cancellation


def test_cancelled_polls_and_steps_lose_and_double_no_record(any_kafka: Kafka) -> None:
    """Records arrive while polls and steps are cancelled after random times; the commit at the end has their number."""
    topic, group, count = topic_of(any_kafka, 0, partitions=2), any_kafka.new_name("g"), 3000
    chance = random.Random(1)

    async def step(consumer: AsyncConsumer, records: AsyncIterator[Any]) -> list[int]:
        if chance.random() < 0.5:
            polled = await consumer.poll(100)
            return [int(value or b"") for columns in polled.values() for value in columns.values()]
        return [int((await next_of(records)).value)]

    async def use() -> tuple[list[int], int]:
        numbers: list[int] = []
        cancelled = 0
        async with member_of(any_kafka, topic, group, max_poll_records=20) as consumer:
            records = consumer.records()
            loop = asyncio.get_running_loop()
            writing = loop.run_in_executor(None, write, any_kafka, topic, range(count), 2)
            while len(numbers) < count:
                task = asyncio.ensure_future(step(consumer, records))
                await asyncio.wait([task], timeout=chance.choice([0, 0.0005, 0.001, 0.003, 0.02]))
                task.cancel()
                try:
                    numbers += await task
                except asyncio.CancelledError:
                    cancelled += 1
            await writing
            await consumer.commit()
            committed = await consumer.committed(consumer.assignment)
            assert sum(offset.offset for offset in committed.values() if offset) == count
            assert await consumer.poll(0) == {}
        return numbers, cancelled

    numbers, cancelled = run(use())
    assert sorted(numbers) == list(range(count))
    assert cancelled > 20


def test_a_cancelled_poll_frees_the_thread_at_once(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 0)

    async def use() -> float:
        async with consumer_of(any_kafka, topic, fetch_max_wait_ms=29_000) as consumer:
            await consumer.poll(100)
            begun = time.monotonic()
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(consumer.poll(), 0.05)
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(next_of(consumer.records()), 0.05)
                assert await consumer.position(TopicPartition(topic, 0)) == 0
            return time.monotonic() - begun

    assert run(use()) < 15


def test_records_that_no_task_has_got_are_not_committed(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 10), any_kafka.new_name("g")
    tp = TopicPartition(topic, 0)

    async def use() -> None:
        async with member_of(any_kafka, topic, group) as consumer:
            assert await first(consumer, 4) == [0, 1, 2, 3]
            await consumer.commit()
            assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(4)
            assert await first(consumer, 1) == [4]
        async with consumer_of(any_kafka, topic, group_id=group) as consumer:  # commits automatically at its end
            assert await first(consumer, 2) == [4, 5]
        async with consumer_of(any_kafka, topic, group_id=group) as consumer:
            assert await first(consumer, 4) == [6, 7, 8, 9]

    run(use())


async def committed_after(kafka: Kafka, topic: str, use: Callable[[AsyncConsumer], Coroutine[Any, Any, None]]) -> int:
    """Return the offset that a consumer with automatic commits stores when an exception ends its block."""
    group, tp = kafka.new_name("g"), TopicPartition(topic, 0)
    with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
        async with consumer_of(kafka, topic, group_id=group, max_poll_records=4) as consumer:
            await use(consumer)
    async with consumer_of(kafka, group_id=group) as consumer:
        committed = (await consumer.committed([tp]))[tp]
        return committed.offset if committed else 0


def test_an_exception_commits_no_record_that_was_in_hand(any_kafka: Kafka) -> None:
    topic = topic_of(any_kafka, 10)
    tp = TopicPartition(topic, 0)

    async def by_record(consumer: AsyncConsumer) -> None:
        async for record in consumer:
            1 // (5 - record.offset)

    async def by_poll(consumer: AsyncConsumer) -> None:
        while (await consumer.poll())[tp].offsets[-1] < 6:
            pass
        raise ZeroDivisionError

    async def after_commit(consumer: AsyncConsumer) -> None:
        async for record in consumer:
            if record.offset == 5:
                await consumer.commit()
                raise ZeroDivisionError

    async def after_commit_of_a_part(consumer: AsyncConsumer) -> None:
        await consumer.poll()
        await consumer.commit({tp: OffsetAndMetadata(2)})
        raise ZeroDivisionError

    async def by_seek(consumer: AsyncConsumer) -> None:
        await consumer.poll()
        await consumer.seek(tp, 3)
        raise ZeroDivisionError

    async def by_cancellation(consumer: AsyncConsumer) -> None:
        async for record in consumer:
            if record.offset == 5:
                raise asyncio.CancelledError

    async def use() -> list[int]:
        return [
            await committed_after(any_kafka, topic, fail)
            for fail in (by_record, by_poll, after_commit, after_commit_of_a_part, by_seek, by_cancellation)
        ]

    assert run(use()) == [5, 4, 6, 2, 3, 5]


# --- rebalances


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_coroutine_callbacks_commit_before_partitions_move(any_kafka: Kafka, protocol: str) -> None:
    """Two members: the first commits in on_revoked what it has read, so that the second doubles nothing."""
    topic, group = topic_of(any_kafka, 200, partitions=2), any_kafka.new_name("g")
    threads: list[tuple[str, threading.Thread]] = []
    numbers: list[int] = []

    async def read(consumer: AsyncConsumer, until: Callable[[], bool]) -> None:
        while not until():
            for columns in (await consumer.poll(100)).values():
                numbers.extend(int(value or b"") for value in columns.values())

    async def use() -> None:
        settings: Any = {"group_protocol": protocol, "max_poll_records": 10, "enable_auto_commit": False}
        async with consumer_of(any_kafka, group_id=group, **settings) as one:

            async def on_revoked(partitions: list[TopicPartition]) -> None:
                threads.append(("on_revoked", threading.current_thread()))
                await one.commit({tp: OffsetAndMetadata(await one.position(tp)) for tp in partitions})
                for refused in (one.poll(0), one.close()):
                    with pytest.raises(KcliError, match="a callback of kcli-AsyncConsumer must not"):
                        await refused

            def on_assigned(partitions: list[TopicPartition]) -> None:
                threads.append(("on_assigned", threading.current_thread()))

            await one.subscribe([topic], on_assigned=on_assigned, on_revoked=on_revoked)
            await read(one, lambda: len(numbers) >= 20)
            async with member_of(any_kafka, topic, group, group_protocol=protocol, max_poll_records=10) as other:
                readers = [read(consumer, lambda: len(numbers) >= 200) for consumer in (one, other)]
                await asyncio.gather(*readers)
                await asyncio.gather(one.commit(), other.commit())

    run(use(), 120)
    assert sorted(numbers) == list(range(200))
    assert {thread is threading.main_thread() for name, thread in threads if name == "on_revoked"} == {True}
    assert {thread.name for name, thread in threads if name == "on_assigned"} == {"kcli-AsyncConsumer"}


def test_the_error_of_a_callback_is_raised_by_poll(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 1), any_kafka.new_name("g")

    async def on_assigned(_: object) -> None:
        raise LookupError("a callback")

    async def use() -> None:
        async with consumer_of(any_kafka, group_id=group) as consumer:
            await consumer.subscribe([topic], on_assigned=on_assigned)
            with pytest.raises(LookupError, match="a callback"):
                await consumer.poll()
            assert await first(consumer, 1) == [0]

    run(use())


def test_a_cancelled_poll_does_not_interrupt_its_callback(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 5), any_kafka.new_name("g")
    tp = TopicPartition(topic, 0)
    log: list[str] = []

    async def use() -> None:
        async with consumer_of(any_kafka, group_id=group, enable_auto_commit=False) as consumer:
            begun = asyncio.Event()

            async def on_assigned(_: object) -> None:
                begun.set()
                await asyncio.sleep(0.05)
                await consumer.commit({tp: OffsetAndMetadata(2)})
                log.append("committed")

            await consumer.subscribe([topic], on_assigned=on_assigned)
            task = asyncio.ensure_future(consumer.poll())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(2)
            assert log == ["committed"]
            assert await first(consumer, 3) == [2, 3, 4]  # the position is that commit

    run(use())


@pytest.mark.slow
def test_a_member_stays_in_its_group_while_the_loop_is_busy(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 10), any_kafka.new_name("g")
    settings: Any = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000, "group_protocol": "classic"}

    async def use() -> tuple[int, int]:
        async with member_of(any_kafka, topic, group, **settings) as consumer:
            assert await first(consumer, 1) == [0]
            before = await consumer.group_metadata()
            until = time.monotonic() + 8
            while time.monotonic() < until:
                sum(range(10_000))  # the loop does nothing else
            assert await first(consumer, 9) == list(range(1, 10))
            await consumer.commit()
            after = await consumer.group_metadata()
            return before.generation, after.generation

    before, after = run(use())
    assert before == after


# --- the end


def members_of(kafka: Kafka, group: str) -> int:
    with Admin(kafka.bootstrap_servers) as admin:
        return len(admin.describe_groups(group).values[group].members)


def test_asyncio_run_ends_a_task_that_reads_and_its_member_leaves(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 3), any_kafka.new_name("g")
    numbers: list[int] = []

    async def read() -> None:
        async with consumer_of(any_kafka, topic, group_id=group) as consumer:
            async for record in consumer:
                numbers.append(int(record.value))

    async def main() -> None:
        asyncio.ensure_future(read())  # noqa: RUF006
        while len(numbers) < 3:
            await asyncio.sleep(0.01)

    run(main())
    assert members_of(any_kafka, group) == 0


def test_a_cancelled_close_is_finished(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 3), any_kafka.new_name("g")

    async def use() -> None:
        consumer = member_of(any_kafka, topic, group)
        assert await first(consumer, 3) == [0, 1, 2]
        closing = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(KcliError, match="is closed"):
            await first(consumer, 1)

    run(use())
    assert members_of(any_kafka, group) == 0


def test_a_forgotten_consumer_leaves_its_group_with_a_warning(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 3), any_kafka.new_name("g")

    async def use() -> None:
        assert await first(consumer_of(any_kafka, topic, group_id=group), 1) == [0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(use())
        gc.collect()
        for thread in threading.enumerate():
            if thread.name == "kcli-AsyncConsumer":
                thread.join(LIMIT_S)
    texts = [str(entry.message) for entry in caught if entry.category is ResourceWarning]
    assert [text for text in texts if text.startswith("unclosed <AsyncConsumer of ")]
    assert members_of(any_kafka, group) == 0
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=any_kafka.bootstrap_servers, group_id=group) as consumer:
        assert consumer.committed([tp]) == {tp: OffsetAndMetadata(1)}


INTERRUPTED = """
import asyncio, sys
from kcli import AsyncConsumer

async def main():
    async with AsyncConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id=sys.argv[3],
                             auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.value.decode(), flush=True)

asyncio.run(main())
"""


def test_ctrl_c_ends_a_program_whose_member_leaves(any_kafka: Kafka) -> None:
    topic, group = topic_of(any_kafka, 1), any_kafka.new_name("g")
    command = [sys.executable, "-c", INTERRUPTED, any_kafka.bootstrap_servers, topic, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        with killed_after(program, "the first record and the end of the program"):
            assert program.stdout.readline() == "0\n"
            os.kill(program.pid, signal.SIGINT)
            errors = program.communicate()[1]
    assert "KeyboardInterrupt" in errors
    assert "Task was destroyed" not in errors
    assert members_of(any_kafka, group) == 0


def test_a_second_loop_is_an_error_and_the_consumer_can_be_made_anew(our_kafka: Kafka) -> None:
    topic = topic_of(our_kafka, 3)
    consumer = consumer_of(our_kafka, topic)

    assert run(first(consumer, 3)) == [0, 1, 2]
    with pytest.raises(KcliError, match="belongs to the event loop of its first call; make one for each loop"):
        run(first(consumer, 1))
