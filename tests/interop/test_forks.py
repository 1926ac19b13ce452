"""Forks of a process with a Producer, a Consumer and an Admin: nothing is lost, nothing is stored twice, nobody leaves.

On both brokers, without TLS and with it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kcli import Consumer, Producer, TopicPartition
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.errors import ForkedClient
from tests.children import in_child
from tests.interop.prefork import RECORDS, WORKERS, admin_of, creations, send, values
from tests.secured_kafka import SecuredKafka

ROOT = Path(__file__).parent.parent.parent


class World:
    """A topic of one partition, and clients of this process, which are closed after the test."""

    def __init__(self, kafka: SecuredKafka, listener: str) -> None:
        self.properties = {**kafka.properties(listener), "bootstrap.servers": kafka.servers(listener)}
        self.topic = kafka.new_topic(1, prefix="forks")
        self.tp = TopicPartition(self.topic, 0)
        self.clients = ExitStack()

    def producer(self, **settings: str) -> Producer:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = ProducerConfig.from_properties({**self.properties, **given})
        return self.clients.enter_context(Producer.from_config(config))

    def consumer(self, **settings: str) -> Consumer:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = ConsumerConfig.from_properties({**self.properties, "auto.offset.reset": "earliest", **given})
        return self.clients.enter_context(Consumer.from_config(config))

    def stored(self, isolation: str = "read_uncommitted") -> list[str]:
        """Return the values of all records, sorted."""
        with self.consumer(isolation_level=isolation) as consumer:
            consumer.assign([self.tp])
            return sorted(record.value.decode() for record in consumer.records(to_end=True))


def named(*names: str) -> list[str]:
    return sorted(f"{name}-{number}" for name in names for number in range(RECORDS))


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def world(any_secured: SecuredKafka, request: pytest.FixtureRequest) -> Iterator[World]:
    found = World(any_secured, request.param)
    with found.clients:
        yield found


def test_the_records_of_a_parent_and_of_its_child_are_stored_once_each(world: World) -> None:
    producer = world.producer(linger_ms="60000")
    send(producer, world.topic, "before")
    producer.flush()
    send(producer, world.topic, "at")
    pending = producer.send(world.topic, b"at-last")
    connections = creations(producer)

    def work() -> None:
        for call in (
            lambda: producer.send(world.topic, b"lost"),
            lambda: producer.flush(10_000),
            lambda: pending.result(10_000),
        ):
            with pytest.raises(ForkedClient, match="make a new one in this process"):
                call()
        producer.close()
        with world.producer() as own:
            send(own, world.topic, "child")

    in_child(work)
    send(producer, world.topic, "after")
    producer.flush(30_000)
    assert pending.result(0).offset >= RECORDS
    assert creations(producer) == connections
    assert world.stored() == sorted([*named("before", "at", "child", "after"), "at-last"])


def test_a_transaction_that_is_open_at_the_fork_is_committed_by_the_parent(world: World) -> None:
    producer = world.producer(transactional_id=f"t-{world.topic}")
    producer.begin_transaction()
    send(producer, world.topic, "before")
    producer.flush()

    def work() -> None:
        for call in (producer.abort_transaction, producer.commit_transaction, producer.begin_transaction):
            with pytest.raises(ForkedClient):
                call()
        with pytest.raises(ZeroDivisionError), producer:
            1 / 0  # noqa: B018
        producer.close()

    in_child(work)
    send(producer, world.topic, "after")
    assert world.stored("read_committed") == []
    producer.commit_transaction()
    # Kafka answers EndTxn before it writes the markers to the partitions, so the records become visible a little later.
    with world.consumer(isolation_level="read_committed") as consumer:
        consumer.assign([world.tp])
        committed = [record.value.decode() for record in islice(consumer.records(), 2 * RECORDS)]
    assert sorted(committed) == named("before", "after") == world.stored("read_committed")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_member_of_a_parent_stays_in_its_group(world: World, protocol: str) -> None:
    producer = world.producer()
    send(producer, world.topic, "before")
    producer.flush()
    group, events = f"g-{world.topic}", list[str]()
    heartbeat = {"heartbeat_interval_ms": "300"} if protocol == "classic" else {}
    consumer = world.consumer(group_id=group, group_protocol=protocol, **heartbeat)
    consumer.subscribe([world.topic], on_assigned=lambda _: events.append("+"), on_revoked=lambda _: events.append("-"))
    read = list[str]()
    while len(read) < RECORDS:
        read += values(consumer.poll(1000))
    before, connections = consumer.group_metadata(), creations(consumer)
    admin = world.clients.enter_context(admin_of(world.properties))
    [member] = admin.describe_groups(group)[group].members

    def work() -> list[str]:
        for call in (lambda: consumer.poll(0), consumer.commit, consumer.unsubscribe):
            with pytest.raises(ForkedClient):
                call()
        consumer.close()
        with pytest.raises(ForkedClient):
            admin.list_topics()
        admin.close()
        with admin_of(world.properties) as own:
            return [row.id for row in own.describe_groups(group)[group].members]

    assert in_child(work) == [member.id]
    send(producer, world.topic, "after")
    while len(read) < 2 * RECORDS:
        read += values(consumer.poll(1000))
    consumer.commit()
    assert sorted(read) == named("before", "after")
    assert consumer.group_metadata() == before
    assert (events, creations(consumer)) == (["+"], connections)
    assert [row.id for row in admin.describe_groups(group)[group].members] == [member.id]


@pytest.mark.parametrize("kind", ["records", "columns"])
def test_an_iteration_returns_no_more_records_in_a_child(world: World, kind: str) -> None:
    """A worker for each record, which forgets to leave the loop, would handle the records of the parent, too."""
    producer = world.producer()
    send(producer, world.topic, "before")
    producer.flush()
    consumer = world.consumer()
    consumer.assign([world.tp])
    if kind == "columns":
        columns = consumer.columns()
        assert next(columns)[1].values()[0] == b"before-0"
        with pytest.raises(ForkedClient):
            in_child(lambda: [0 for _ in columns])
        return
    records = consumer.records()
    assert next(records).value == b"before-0"
    with pytest.raises(ForkedClient):
        in_child(lambda: next(records).offset)
    assert [next(records).value.decode() for _ in range(1, RECORDS)] == [f"before-{n}" for n in range(1, RECORDS)]


INHERITED: list[Any] = []


def process(properties: dict[str, str], topic: str, number: int, outcomes: Any) -> None:
    """Run in a process of `multiprocessing`."""
    for client in INHERITED:
        try:
            client.poll(100)
        except ForkedClient:
            outcomes.put(number)
    with Producer.from_config(ProducerConfig.from_properties(properties)) as own:
        send(own, topic, f"process-{number}")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_use_clients_of_their_own(world: World, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    producer, consumer = world.producer(), world.consumer(group_id=f"g-{world.topic}")
    consumer.subscribe([world.topic])
    send(producer, world.topic, "before")
    consumer.poll(1000)
    before = consumer.group_metadata()
    INHERITED[:] = [producer, consumer]
    outcomes = context.Queue()
    try:
        arguments = (world.properties, world.topic)
        processes = [context.Process(target=process, args=(*arguments, number, outcomes)) for number in range(WORKERS)]
        for each in processes:
            each.start()
        send(producer, world.topic, "during")
        for each in processes:
            each.join(60)
    finally:
        INHERITED.clear()
    assert [each.exitcode for each in processes] == [0] * WORKERS
    refused = sorted(outcomes.get(timeout=10) for _ in range(2 * WORKERS)) if method == "fork" else []
    assert refused == ([0, 0, 1, 1, 2, 2] if method == "fork" else [])
    producer.flush(30_000)
    consumer.poll(0)
    assert consumer.group_metadata() == before
    assert world.stored() == named("before", "during", *(f"process-{number}" for number in range(WORKERS)))


def test_a_prefork_server_loses_and_doubles_nothing(world: World) -> None:
    command = [sys.executable, "-m", "tests.interop.prefork", json.dumps(world.properties), world.topic]
    done = subprocess.run(
        [*command, f"g-{world.topic}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "always"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    [line] = done.stdout.splitlines()
    report = json.loads(line)
    everything = named("before", "at", "during", "after", *(f"worker-{number}" for number in range(WORKERS)))
    assert report["statuses"] == [10, 11, 12]
    assert [row["outcomes"] for row in report["workers"]] == [[], ["ForkedClient"] * 5, []]
    assert [row["known"] for row in report["workers"]] == [True] * WORKERS
    assert report["read"] == everything == world.stored()
    assert report["same member"]
    assert report["same cluster"]
