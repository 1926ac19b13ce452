"""Ten programs that kafka-python's README, documentation and examples teach, written anew with kcli.

Each gets the address of a broker and the name of a topic with three partitions, and returns what it has seen.
"""

from __future__ import annotations

import json
import logging
import threading
import time

from kcli import (
    Admin,
    BrokerError,
    Consumer,
    KcliError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    RequestFuture,
    TopicPartition,
    WakeupError,
    Wanted,
)


def send_and_wait(at: str, topic: str) -> tuple[str, int, int]:
    """docs/usage.rst, KafkaProducer: an asynchronous send, and a wait of ten seconds for its metadata."""
    with Producer(bootstrap_servers=at) as producer:
        future = producer.send(topic, b"raw_bytes", partition=1)
        try:
            metadata = future.result(timeout_ms=10_000)
        except KcliError:
            logging.exception("not stored")
            raise
    return metadata.topic, metadata.partition, metadata.offset


def hundred_messages(at: str, topic: str) -> int:
    """README.rst, KafkaProducer: many messages, `flush`, then a KafkaConsumer that reads them with its own timeout."""
    with Producer(bootstrap_servers=at, compression_type="gzip") as producer:
        for number in range(100):
            producer.send(topic, b"some_message_bytes %d" % number)
        producer.flush(timeout_ms=30_000)
    with Consumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
        return sum(1 for _ in consumer.records(to_end=True))


def json_messages(at: str, topic: str) -> list[object]:
    """docs/usage.rst: value_serializer and value_deserializer with JSON; messages with the same key stay in order."""
    with Producer(
        bootstrap_servers=at,
        key_serializer=str.encode,
        value_serializer=lambda value: json.dumps(value).encode(),
    ) as producer:
        for number in range(3):
            producer.send(topic, {"number": number}, key="ping")
    with Consumer(
        topic,
        bootstrap_servers=at,
        auto_offset_reset="earliest",
        key_deserializer=bytes.decode,
        value_deserializer=json.loads,
    ) as consumer:
        return [(record.key, record.value["number"]) for record in consumer.records(to_end=True)]


def callbacks_of_sends(at: str, topic: str) -> tuple[list[int], list[str]]:
    """docs/usage.rst: add_callback for the success, add_errback for the failure of a send."""
    stored: list[int] = []
    failed: list[str] = []

    def report(future: RequestFuture[RecordMetadata]) -> None:
        if future.error is None:
            stored.append(future.value().offset)
        else:
            failed.append(future.error.message)

    with Producer(bootstrap_servers=at, max_request_size=1_000) as producer:
        producer.send(topic, b"small", partition=0).add_done_callback(report)
        producer.send(topic, b"x" * 2_000, partition=0).add_done_callback(report)
    return stored, failed


def headers_of_messages(at: str, topic: str) -> list[tuple[str, bytes | None]]:
    """README.rst: headers are a list of pairs."""
    with Producer(bootstrap_servers=at) as producer:
        producer.send(topic, b"c29tZSB2YWx1ZQ==", headers=[("content-encoding", b"base64"), ("empty", None)])
    with Consumer(topic, bootstrap_servers=at, auto_offset_reset="earliest") as consumer:
        record = next(consumer.records(to_end=True))
    return list(record.headers)


def manual_assignment(at: str, topic: str) -> list[int]:
    """README.rst: assign a partition, seek, and read; without a group."""
    with Producer(bootstrap_servers=at) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=2)
    tp = TopicPartition(topic, 2)
    with Consumer(bootstrap_servers=at) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 3)
        return [record.offset for record in consumer.records(to_end=True)]


def manual_commit(at: str, topic: str) -> tuple[int, int | None]:
    """docs/usage.rst: enable_auto_commit=False, a commit of the offset after each message, and the committed offset."""
    with Producer(bootstrap_servers=at) as producer:
        for number in range(4):
            producer.send(topic, b"%d" % number, partition=0)
    group, handled = f"{topic}-group", 0
    with Consumer(
        topic, bootstrap_servers=at, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        for record in consumer.records(to_end=True):
            tp = TopicPartition(record.topic, record.partition)
            consumer.commit({tp: OffsetAndMetadata(record.offset + 1)})
            handled += 1
        committed = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    return handled, None if committed is None else committed.offset


def topics_by_pattern(at: str, topic: str) -> tuple[list[TopicPartition], list[str]]:
    """README.rst and docs: subscribe(pattern=...) with a ConsumerRebalanceListener."""
    events: list[str] = []
    with Consumer(bootstrap_servers=at, group_id=f"{topic}-group", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(
            pattern=f"{topic}.*",
            on_assigned=lambda partitions: events.append(f"assigned {len(partitions)}"),
            on_revoked=lambda partitions: events.append(f"revoked {len(partitions)}"),
        )
        list(consumer.records(to_end=True))
        assignment = consumer.assignment
    return assignment, events


def topics_and_settings(at: str, topic: str) -> tuple[str, int, str | None, bool]:
    """docs/usage.rst, KafkaAdminClient: create, describe, more partitions, settings, delete."""
    name = f"{topic}-new"
    with Admin(at, client_id="test") as admin:
        admin.create_topics([NewTopic(name, partitions=1, replication=1)])
        try:
            admin.create_topic(name)
            answer = ""
        except BrokerError as error:
            answer = error.code.name
        wanted = Wanted(partitions=3, settings={"retention.ms": "60000"})
        admin.alter(admin.plan_alterations({name: wanted}))
        setting = admin.describe_configs(name, keys=["retention.ms"])[name]["retention.ms"]
        partitions = len(admin.describe_topics(name)[name].partitions)
        admin.delete_topics(admin.plan_topic_deletion(name))
        exists = any(info.name == name for info in admin.list_topics())
    return answer, partitions, setting.value, exists


def producer_and_consumer_threads(at: str, topic: str) -> tuple[bool, bool]:
    """example.py: a thread that produces, and one that consumes until it is told to stop."""
    stop = threading.Event()
    messages: list[bytes] = []

    def produce() -> None:
        with Producer(bootstrap_servers=at) as producer:
            while not stop.is_set():
                producer.send(topic, b"test")
                producer.send(topic, b"\xc2Hola, mundo!")
                time.sleep(0.01)

    def consume() -> None:
        try:
            for record in consumer:
                messages.append(record.value)
                if len(messages) == 10:
                    stop.set()
        except WakeupError:
            pass
        finally:
            consumer.close()

    consumer = Consumer(topic, bootstrap_servers=at, auto_offset_reset="earliest", group_id=f"{topic}-group")
    threads = [threading.Thread(target=produce), threading.Thread(target=consume)]
    for thread in threads:
        thread.start()
    enough = stop.wait(30)
    stop.set()
    consumer.wakeup()
    for thread in threads:
        thread.join(30)
    return enough, not any(thread.is_alive() for thread in threads)
