"""Threads that share one producer, and the check that each of their records is stored once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from kcli import Consumer, Producer
from kcli.client.request_future import RequestFuture
from kcli.producer.batches import RecordMetadata
from tests.real_kafka import Kafka, OwnBroker


def stored(kafka: Kafka | OwnBroker, topic: str) -> list[tuple[int, int, bytes | None]]:
    with Consumer(topic, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return [(record.partition, record.offset, record.value) for record in consumer.records(to_end=True)]


def send_in_threads(
    producer: Producer, topic: str, threads: int, records: int, while_they_send: Callable[[], object] = lambda: None
) -> dict[bytes, RequestFuture[RecordMetadata]]:
    """Send from several threads at a time; return the future of each value."""
    futures: dict[bytes, RequestFuture[RecordMetadata]] = {}
    failed: list[BaseException] = []

    def send(number: int) -> None:
        try:
            for row in range(records):
                value = b"%d-%d" % (number, row)
                futures[value] = producer.send(topic, value, key=b"%d" % (row % 17) if number % 2 else None)
        except BaseException as error:
            failed.append(error)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(threads)]
    for sender in senders:
        sender.start()
    while_they_send()
    for sender in senders:
        sender.join(120)
    assert failed == []
    return futures


def check_over_restarts(node: OwnBroker, *, threads: int, records: int, kills: int) -> None:
    """Kill and start the broker while threads send; each future is done once, and each record is stored once."""
    topic = node.new_topic(partitions=3)
    done: Counter[bytes] = Counter()

    def restart() -> None:
        for number in range(kills):
            producer.send(topic, b"before kill %d" % number).result()
            node.kill()
            node.start()

    with Producer(bootstrap_servers=node.bootstrap_servers) as producer:
        futures = send_in_threads(producer, topic, threads, records, while_they_send=restart)
        for value, future in futures.items():
            future.add_done_callback(lambda _, value=value: done.update([value]))  # type: ignore[misc]
        producer.flush()
        assert [future.error for future in futures.values() if not future.succeeded] == []
    assert done == Counter(futures.keys())
    values = Counter(value for _, _, value in stored(node, topic))
    assert values == Counter([*futures, *(b"before kill %d" % number for number in range(kills))])
