"""A prefork master, as gunicorn with `--preload`: it makes clients, forks workers, and goes on with its clients.

    python -m tests.interop.prefork JSON_OF_PROPERTIES TOPIC GROUP

Each worker makes clients of its own. Worker 1 uses those of the master first. Workers end with `sys.exit` inside the
`with` blocks of the master, so the ends of the blocks, finalizers and `atexit` functions run in them. The master prints
one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from kcli.admin.client import Admin
from kcli.client.config import ConsumerConfig, ProducerConfig
from kcli.consumer.consumer import Consumer
from kcli.errors import ForkedClient
from kcli.producer.producer import Producer

WORKERS = 3
RECORDS = 20


def main(properties: dict[str, str], topic: str, group: str) -> None:
    reading, writing = os.pipe()
    with (
        admin_of(properties) as admin,
        Producer.from_config(ProducerConfig.from_properties({**properties, "linger.ms": "100"})) as producer,
        Consumer.from_config(consumer_config(properties, group)) as consumer,
    ):
        consumer.subscribe([topic])
        send(producer, topic, "before")
        producer.flush()
        read: list[str] = []
        while len(read) < RECORDS:
            read += values(consumer.poll(1000))
        before = consumer.group_metadata()
        cluster = admin.describe_cluster()
        send(producer, topic, "at")  # not sent yet at the fork
        pids = []
        for number in range(WORKERS):
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                answer = work(number, properties, topic, [producer, consumer, admin])
                os.write(writing, json.dumps({"worker": number, **answer}).encode() + b"\n")
                sys.exit(10 + number)
            pids.append(pid)
        os.close(writing)
        send(producer, topic, "during")
        statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        with open(reading) as pipe:
            workers = [json.loads(line) for line in pipe]
        send(producer, topic, "after")
        producer.flush()
        expected = RECORDS * (4 + WORKERS)
        while len(read) < expected:
            read += values(consumer.poll(1000))
        report = {
            "statuses": statuses,
            "workers": sorted(workers, key=lambda row: row["worker"]),
            "read": sorted(read),
            "same member": consumer.group_metadata() == before,
            "same cluster": admin.describe_cluster() == cluster,
            "connections": [creations(client) for client in (producer, consumer, admin)],
        }
    print(json.dumps(report))


def work(number: int, properties: dict[str, str], topic: str, inherited: list[Any]) -> dict[str, object]:
    """Send records with a producer of this worker; worker 1 tries those of the master first."""
    outcomes = []
    if number == 1:
        producer, consumer, admin = inherited
        outcomes = [
            outcome(lambda: producer.send(topic, b"lost")),
            outcome(producer.flush),
            outcome(lambda: consumer.poll(100)),
            outcome(consumer.commit),
            outcome(admin.list_topics),
        ]
        for client in inherited:
            client.close()
    with Producer.from_config(ProducerConfig.from_properties(properties)) as own:
        send(own, topic, f"worker-{number}")
    with admin_of(properties) as own_admin:
        known = topic in [found.name for found in own_admin.list_topics()]
    return {"outcomes": outcomes, "known": known}


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except ForkedClient as error:
        return type(error).__name__
    return "returned"


def admin_of(properties: dict[str, str]) -> Admin:
    given: dict[str, Any] = {name.replace(".", "_"): value for name, value in properties.items()}
    return Admin(**given)


def consumer_config(properties: dict[str, str], group: str) -> ConsumerConfig:
    own = {"group.id": group, "auto.offset.reset": "earliest", "heartbeat.interval.ms": "300"}
    return ConsumerConfig.from_properties({**properties, **own})


def send(producer: Producer, topic: str, name: str) -> None:
    for number in range(RECORDS):
        producer.send(topic, f"{name}-{number}".encode())


def values(records: dict[Any, Any]) -> list[str]:
    return [row.value.decode() for columns in records.values() for row in columns]


def creations(client: Any) -> float:
    """Return the number of connections that a client has made."""
    [found] = [
        row["connection-creation-total"] for row in client.metrics().values() if "connection-creation-total" in row
    ]
    return float(found)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
