"""One workload of a Kafka library for Python, measured in a process of its own; `tests.bench.library` runs it.

    python -m tests.bench.library_clients CASE CLIENT ADDRESS TOPIC COUNT

It first runs a small part of the workload, which does the imports, and prints "SECONDS CPU-SECONDS" of the whole. A
sender is measured from the answer to its first record until the last one is acknowledged, a receiver from its
constructor until it has the last record. The CPU is that of all threads. Each function does what the documentation of
its client teaches. Senders have the same settings: acks=all, idempotence, linger.ms=5, and batches of 16 KiB; receivers
have the defaults of their client. No module but that of the client is imported, because aiokafka has an environment of
its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import chain, islice, repeat
from typing import Any

WARM_UP = 1_000
"""Records of the part that is not measured. Each of the two parts of a sender begins with one record more."""
SOME_VALUES = [
    b'{"order":%07d,"customer":"c%06d","note":"%b"}' % (i, i * 7919 % 100_003, b"x" * 52) for i in range(997)
]
SOME_KEYS = [b"customer-%d" % i for i in range(1009)]
LINGER_MS, BATCH_BYTES, AT_ONCE = 5, 16_384, 500

Run = Callable[[str, str, int], object]


class Stopwatch:
    """Wall clock and CPU of the process since `start`."""

    def start(self) -> None:
        self._began, self._began_cpu = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self.wall_s, self.cpu_s = time.perf_counter() - self._began, time.process_time() - self._began_cpu


stopwatch = Stopwatch()


def values(count: int) -> Iterator[bytes]:
    return islice(chain.from_iterable(repeat(SOME_VALUES)), count)


def keys() -> Iterator[bytes]:
    return chain.from_iterable(repeat(SOME_KEYS))


# Sending, record by record


@contextmanager
def kcli_producer(at: str, topic: str) -> Iterator[Any]:
    from kcli import Producer

    with Producer(bootstrap_servers=at, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        producer.send(topic, b"first")
        producer.flush()
        stopwatch.start()
        yield producer
        producer.flush()
        stopwatch.stop()


def kcli_send(at: str, topic: str, count: int) -> None:
    with kcli_producer(at, topic) as producer:
        for value in values(count):
            producer.send(topic, value)


def kcli_send_keyed(at: str, topic: str, count: int) -> None:
    with kcli_producer(at, topic) as producer:
        for value, key in zip(values(count), keys(), strict=False):
            producer.send(topic, value, key)


@contextmanager
def kafka_python_producer(at: str, topic: str) -> Iterator[Any]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=at, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
    producer.send(topic, b"first").get(60)
    stopwatch.start()
    yield producer
    producer.flush()
    stopwatch.stop()
    producer.close()


def kafka_python_send(at: str, topic: str, count: int) -> None:
    with kafka_python_producer(at, topic) as producer:
        for value in values(count):
            producer.send(topic, value)


def kafka_python_send_keyed(at: str, topic: str, count: int) -> None:
    with kafka_python_producer(at, topic) as producer:
        for value, key in zip(values(count), keys(), strict=False):
            producer.send(topic, value, key)


@contextmanager
def confluent_producer(at: str, topic: str) -> Iterator[Any]:
    from confluent_kafka import Producer

    alike = {"enable.idempotence": True, "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
    producer = Producer({"bootstrap.servers": at, **alike})
    producer.produce(topic, b"first")
    producer.flush(60)
    stopwatch.start()
    yield producer
    if left := producer.flush(300):
        raise SystemExit(f"{left} records were not sent")
    stopwatch.stop()


def confluent_send(at: str, topic: str, count: int) -> None:
    with confluent_producer(at, topic) as producer:
        for value in values(count):
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)


def confluent_send_keyed(at: str, topic: str, count: int) -> None:
    with confluent_producer(at, topic) as producer:
        for value, key in zip(values(count), keys(), strict=False):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)


# Sending in bulk


def kcli_send_many(at: str, topic: str, count: int) -> None:
    from kcli.protocol.records.record import NewRecords

    with kcli_producer(at, topic) as producer:
        remaining = values(count)
        while rows := list(islice(remaining, AT_ONCE)):
            producer.send_many(topic, NewRecords(rows, int(time.time() * 1000)), _kcli_outcome)


def _kcli_outcome(outcome: Any) -> None:
    if outcome.error is not None:
        raise outcome.error


def confluent_produce_batch(at: str, topic: str, count: int) -> None:
    with confluent_producer(at, topic) as producer:
        remaining = values(count)
        while rows := [{"value": value} for value in islice(remaining, AT_ONCE)]:
            while rows:
                producer.produce_batch(topic, rows)
                rows = [row for row in rows if "_error" in row]  # those without room in the queue
                producer.poll(0.1 if rows else 0)
                for row in rows:
                    del row["_error"]


# Sending with asyncio


def kcli_async_send(at: str, topic: str, count: int) -> None:
    from kcli import AsyncProducer

    async def run() -> None:
        async with AsyncProducer(bootstrap_servers=at, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
            await (await producer.send(topic, b"first"))
            stopwatch.start()
            for value in values(count):
                await producer.send(topic, value)
            await producer.flush()
            stopwatch.stop()

    asyncio.run(run())


@asynccontextmanager
async def aiokafka_producer(at: str, topic: str) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=at, enable_idempotence=True, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"first")
        stopwatch.start()
        yield producer
        await producer.flush()
        stopwatch.stop()
    finally:
        await producer.stop()


def aiokafka_send(at: str, topic: str, count: int) -> None:
    async def run() -> None:
        async with aiokafka_producer(at, topic) as producer:
            for value in values(count):
                await producer.send(topic, value)

    asyncio.run(run())


def aiokafka_send_keyed(at: str, topic: str, count: int) -> None:
    async def run() -> None:
        async with aiokafka_producer(at, topic) as producer:
            for value, key in zip(values(count), keys(), strict=False):
                await producer.send(topic, value, key)

    asyncio.run(run())


# Reading, record by record


def kcli_consume(at: str, topic: str, count: int) -> int:
    from kcli import Consumer

    read = 0
    with Consumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
        for record in islice(consumer, count):
            read += len(record.value)
    return read


def kcli_async_consume(at: str, topic: str, count: int) -> int:
    from kcli import AsyncConsumer

    async def run() -> int:
        read, left = 0, count
        async with AsyncConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                read += len(record.value)
                left -= 1
                if not left:
                    break
        return read

    return asyncio.run(run())


def kafka_python_consume(at: str, topic: str, count: int) -> int:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest")
    read = 0
    for record in islice(consumer, count):
        read += len(record.value)
    consumer.close()
    return read


def confluent_consumer(at: str, topic: str) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": at, "group.id": "bench", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    return consumer


def confluent_poll(at: str, topic: str, count: int) -> int:
    consumer = confluent_consumer(at, topic)
    read = 0
    while count:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            read += len(message.value())
            count -= 1
    consumer.close()
    return read


def aiokafka_consume(at: str, topic: str, count: int) -> int:
    from aiokafka import AIOKafkaConsumer

    async def run() -> int:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest")
        await consumer.start()
        read, left = 0, count
        async for message in consumer:
            read += len(message.value)
            left -= 1
            if not left:
                break
        await consumer.stop()
        return read

    return asyncio.run(run())


# Reading many records at once; each value is looked at


def kcli_columns(at: str, topic: str, count: int) -> int:
    from kcli import Consumer

    read = 0
    with Consumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
        while count > 0:
            for columns in consumer.poll(1000).values():
                for value in columns.values()[:count]:
                    read += len(value or b"")
                count -= len(columns)
    return read


def kafka_python_poll(at: str, topic: str, count: int) -> int:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest")
    read = 0
    while count > 0:
        for records in consumer.poll(timeout_ms=1000, max_records=AT_ONCE).values():
            for record in records[:count]:
                read += len(record.value)
            count -= len(records)
    consumer.close()
    return read


def confluent_consume_500(at: str, topic: str, count: int) -> int:
    consumer = confluent_consumer(at, topic)
    read = 0
    while count:
        for message in consumer.consume(min(AT_ONCE, count), 1.0):
            if not message.error():
                read += len(message.value())
                count -= 1
    consumer.close()
    return read


def aiokafka_getmany(at: str, topic: str, count: int) -> int:
    from aiokafka import AIOKafkaConsumer

    async def run() -> int:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=at, auto_offset_reset="earliest")
        await consumer.start()
        read, left = 0, count
        while left > 0:
            received = await consumer.getmany(timeout_ms=1000, max_records=AT_ONCE)
            for messages in received.values():
                for message in messages[:left]:
                    read += len(message.value)
                left -= len(messages)
        await consumer.stop()
        return read

    return asyncio.run(run())


CASES: dict[str, dict[str, Run]] = {
    "send": {
        "kcli": kcli_send,
        "kafka-python": kafka_python_send,
        "confluent-kafka": confluent_send,
        "aiokafka": aiokafka_send,
    },
    "send-keyed": {
        "kcli": kcli_send_keyed,
        "kafka-python": kafka_python_send_keyed,
        "confluent-kafka": confluent_send_keyed,
        "aiokafka": aiokafka_send_keyed,
    },
    "send-many": {"kcli": kcli_send_many, "confluent-kafka": confluent_produce_batch},
    "async-send": {"kcli": kcli_async_send, "aiokafka": aiokafka_send},
    "consume": {
        "kcli": kcli_consume,
        "kafka-python": kafka_python_consume,
        "confluent-kafka": confluent_poll,
        "aiokafka": aiokafka_consume,
    },
    "async-consume": {"kcli": kcli_async_consume, "aiokafka": aiokafka_consume},
    "consume-many": {
        "kcli": kcli_columns,
        "kafka-python": kafka_python_poll,
        "confluent-kafka": confluent_consume_500,
        "aiokafka": aiokafka_getmany,
    },
}


def main(case: str, client: str, at: str, topic: str, count: int) -> None:
    run = CASES[case][client]
    run(at, topic, WARM_UP)
    stopwatch.start()
    read = run(at, topic, count)
    if "consume" in case:
        stopwatch.stop()
        if read != sum(map(len, values(count))):
            raise SystemExit(f"{client} has read {read} bytes of values")
    print(stopwatch.wall_s, stopwatch.cpu_s)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
