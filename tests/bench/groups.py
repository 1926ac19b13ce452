"""The cost of describing groups, beside Apache's tool: `python -m tests.bench.groups [--groups N] [--rounds N]`.

First all groups of our broker (1,000 groups, each with commits on 100 partitions, one row in ten with lag): CPU seconds
of `kcli group describe --all`, and of the library without the command. Then one group with a member on a real Kafka:
wall seconds. The runs are interleaved; it prints medians, ratios and the targets.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.bench.measure import Measured, measure
from tests.broker_process import BrokerProcess
from tests.real_kafka import Kafka, KafkaNode, fetch_jars

PARTITIONS = 100
TOPICS = 10
RECORDS = 20
CPU_TARGET_S = 2.0
WALL_TARGET = 0.2

# The library alone: what a describe asks and calculates, without rendering.
LIBRARY = """
import sys
from kcli.admin.groups.listing import list_groups
from kcli.admin.groups.survey import survey_groups
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
with connect(ClientConfig.from_properties({"bootstrap.servers": sys.argv[1]})) as client:
    deadline_ms = client.clock.now_ms() + 60_000
    listed = list_groups(client, deadline_ms)
    kinds = {it.group: it.type for its in listed.values.values() for it in its}
    found = survey_groups(client, kinds, deadline_ms, time_lag=sys.argv[2] == "time")
    rows = sum(len(it.partitions) for it in found.values.values())
    assert not found.errors and not any(row.error for it in found.values.values() for row in it.partitions)
    print(len(found.values), "groups,", rows, "rows")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        many_groups(folder, options.groups, options.rounds)
        one_group(folder, options.rounds)


def many_groups(folder: Path, groups: int, rounds: int) -> None:
    broker = BrokerProcess(folder / "ours")
    broker.start()
    try:
        fill(broker, groups)
        at = broker.bootstrap_servers
        kcli = [sys.executable, "-m", "kcli", "group", "describe", "--all", "-b", at]
        commands = {
            "kcli group describe --all": kcli,
            "  --no-time-lag": [*kcli, "--no-time-lag"],
            "  --output json": [*kcli, "--output", "json"],
            "library alone": [sys.executable, "-c", LIBRARY, at, "time"],
            "  without time lag": [sys.executable, "-c", LIBRARY, at, "no"],
            "kafka-consumer-groups.sh": apache(broker, "--all-groups"),
        }
        measured = run(commands, rounds, folder)
    finally:
        broker.kill()
    print(f"{groups} groups of {PARTITIONS} partitions on kcli's broker")
    report(measured)
    cpu_s = median(measured["kcli group describe --all"], "cpu_s")
    print(f"  target: {CPU_TARGET_S:.1f} s of CPU, {verdict(cpu_s <= CPU_TARGET_S)}")


def one_group(folder: Path, rounds: int) -> None:
    kafka = KafkaNode(folder / "apache", fetch_jars())
    kafka.start()
    try:
        topic = kafka.new_topic(6)
        with member(kafka, "orders", topic):
            kcli = [sys.executable, "-m", "kcli", "group", "describe", "orders", "-b", kafka.bootstrap_servers]
            commands = {
                "kcli group describe": kcli,
                "kafka-consumer-groups.sh": apache(kafka, "--group", "orders"),
            }
            measured = run(commands, rounds, folder)
    finally:
        kafka.kill()
    print("one group of six partitions on Apache's broker")
    report(measured)
    ratio = median(measured["kcli group describe"], "wall_s") / median(measured["kafka-consumer-groups.sh"], "wall_s")
    print(f"  wall: {ratio:.2f} of Apache's tool; target: {WALL_TARGET}, {verdict(ratio <= WALL_TARGET)}")


def apache(kafka: Kafka, *groups: str) -> list[str]:
    return [
        *kafka.java("ConsumerGroupCommand"),
        "--bootstrap-server",
        kafka.bootstrap_servers,
        "--timeout",
        "60000",
        "--describe",
        *groups,
    ]


def fill(kafka: Kafka, groups: int) -> None:
    """Create ten topics for all groups; each group has read its topic to the end, except every tenth partition."""
    producer = kafka.ordered_producer()
    topics = [kafka.new_topic(PARTITIONS, prefix="bench") for _ in range(min(TOPICS, groups))]
    for topic in topics:
        for partition in range(PARTITIONS):
            for _ in range(RECORDS):
                producer.produce(topic, b"x" * 100, partition=partition)
        producer.flush(60)
    with connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        for number in range(groups):
            topic = topics[number % len(topics)]
            offsets = {
                TopicPartition(topic, partition): OffsetAndMetadata(
                    RECORDS if partition % 10 else number // len(topics) % RECORDS
                )
                for partition in range(PARTITIONS)
            }
            deadline_ms = client.clock.now_ms() + 60_000
            assert not any(commit_offsets(client, f"group-{number:05}", offsets, deadline_ms).values())


@contextmanager
def member(kafka: Kafka, group: str, topic: str) -> Iterator[None]:
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    producer = kafka.ordered_producer()
    for partition in range(6):
        producer.produce(topic, "x", partition=partition)
    producer.flush(30)
    records = consumer.consume(6, timeout=30)
    assert len(records) == 6
    consumer.commit(asynchronous=False)
    try:
        yield  # librdkafka's own thread sends the heartbeats
    finally:
        consumer.close()


def run(commands: dict[str, list[str]], rounds: int, folder: Path) -> dict[str, list[Measured]]:
    """Run every command in every round; a first round only warms the caches."""
    measured: dict[str, list[Measured]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            found = measure(command, folder / "out", folder)
            if number:
                measured[name].append(found)
    return measured


def report(measured: dict[str, list[Measured]]) -> None:
    for name, runs in measured.items():
        wall_s, cpu_s, peak_mb = (median(runs, what) for what in Measured._fields)
        print(f"  {name:28} wall {wall_s:6.2f} s   cpu {cpu_s:6.2f} s   peak {peak_mb:4.0f} MB")


def median(runs: list[Measured], what: str) -> float:
    return float(statistics.median(getattr(run, what) for run in runs))


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    main()
