"""The cost of describing groups, beside Apache's tool: `python -m tests.bench.groups [--rounds N] [--before TREE]`.

First all groups of kcli's broker: 1,000 groups with commits on 100 partitions each, then 10,000 with 10 each, one row
in ten with lag: CPU seconds and memory of `kcli group describe --all` and `kcli group lag --all`, also of another
checkout with `--before`. Apache's tool describes the 1,000 groups once. Then one group with a member on a real Kafka:
wall seconds. The offsets that all of them print must be equal. The runs are interleaved; it prints medians, ratios and
the targets.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.bench.measure import Measured, measure
from tests.broker_process import BrokerProcess
from tests.real_kafka import Kafka, KafkaNode, fetch_jars

TOPICS = 10
RECORDS = 20
WALL_TARGET = 0.2
ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    """Groups of one broker, the partitions of each, and the targets of `describe --all` with its table."""

    groups: int
    partitions: int
    cpu_target_s: float
    peak_target_mb: float
    beside_apache: bool


CASES = (Case(1_000, 100, 1.0, 150, beside_apache=True), Case(10_000, 10, 4.0, 150, beside_apache=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, metavar="TREE", help="Measure this checkout of kcli, too.")
    parser.add_argument("--only", type=int, metavar="GROUPS", help="Measure only the case with so many groups.")
    options = parser.parse_args()
    trees = {"kcli": ROOT} | ({"before": options.before} if options.before else {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in CASES:
            if options.only in (None, case.groups):
                many_groups(folder / str(case.groups), case, trees, options.rounds)
        if options.only is None:
            one_group(folder, options.rounds)


def many_groups(folder: Path, case: Case, trees: dict[str, Path], rounds: int) -> None:
    folder.mkdir()
    broker = BrokerProcess(folder / "ours", fetch_jars() if case.beside_apache else None)
    broker.start()
    try:
        fill(broker, case)
        commands: dict[str, list[str]] = {}
        for label, tree in trees.items():
            kcli = ["/usr/bin/env", f"PYTHONPATH={tree}", sys.executable, "-m", "kcli", "group"]
            at = ["--all", "-b", broker.bootstrap_servers]
            commands[f"{label} group describe --all"] = [*kcli, "describe", *at]
            commands[f"{label}   --output json"] = [*kcli, "describe", *at, "--output", "json"]
            commands[f"{label} group lag --all"] = [*kcli, "lag", *at]
        outputs: dict[str, set[Offsets]] = {}
        measured = run(commands, rounds, folder, outputs)
        if case.beside_apache:
            tool = {"kafka-consumer-groups.sh": apache(broker, "--all-groups")}
            measured |= run(tool, 1, folder, outputs, warm=False)
    finally:
        broker.kill()
    described = [rows for name, rows in outputs.items() if "describe" in name or "kafka" in name]
    assert all(rows == described[0] for rows in described), "the outputs differ"
    assert len(described[0]) == case.groups * case.partitions
    print(f"{case.groups} groups of {case.partitions} partitions on kcli's broker")
    report(measured)
    cpu_s, peak_mb = (median(measured["kcli group describe --all"], what) for what in ("cpu_s", "peak_mb"))
    print(f"  target: {case.cpu_target_s:.1f} s of CPU, {verdict(cpu_s <= case.cpu_target_s)};", end=" ")
    print(f"{case.peak_target_mb:.0f} MB, {verdict(peak_mb <= case.peak_target_mb)}")


Offsets = tuple[str, ...]
"""A row of a description as texts: group, topic, partition, committed offset, end offset and lag."""


def offsets_in(output: str) -> set[Offsets]:
    """Return the rows of a table of kcli's or Apache's `describe`, by the headings of its columns."""
    columns = [("GROUP",), ("TOPIC",), ("PARTITION",), ("COMMITTED", "CURRENT-OFFSET"), ("END", "LOG-END-OFFSET")]
    places: list[int] = []
    rows = set()
    for words in map(str.split, output.splitlines()):
        if words[:1] == ["GROUP"]:  # Apache's tool repeats the headings for each group
            places = [words.index(name) for names in [*columns, ("LAG",)] for name in names if name in words]
        elif len(places) == len(columns) + 1 and len(words) > max(places):
            rows.add(tuple(words[place] for place in places))
    return rows


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
            outputs: dict[str, set[Offsets]] = {}
            measured = run(commands, rounds, folder, outputs)
    finally:
        kafka.kill()
    assert outputs["kcli group describe"] == outputs["kafka-consumer-groups.sh"], outputs
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


def fill(kafka: Kafka, case: Case) -> None:
    """Create ten topics for all groups; each group has read its topic to the end, except every tenth partition."""
    producer = kafka.ordered_producer()
    topics = [kafka.new_topic(case.partitions, prefix="bench") for _ in range(TOPICS)]
    for topic in topics:
        for partition in range(case.partitions):
            for _ in range(RECORDS):
                producer.produce(topic, b"x" * 100, partition=partition)
        producer.flush(60)
    with connect(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers})) as client:
        for number in range(case.groups):
            topic = topics[number % len(topics)]
            offsets = {
                TopicPartition(topic, partition): OffsetAndMetadata(
                    RECORDS if partition % 10 else number // len(topics) % RECORDS
                )
                for partition in range(case.partitions)
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


def run(
    commands: dict[str, list[str]],
    rounds: int,
    folder: Path,
    outputs: dict[str, set[Offsets]] | None = None,
    *,
    warm: bool = True,
) -> dict[str, list[Measured]]:
    """Run every command in every round; with `warm` a first round only warms the caches.

    `outputs` gets the rows of each table that the commands print in the first round.
    """
    measured: dict[str, list[Measured]] = {name: [] for name in commands}
    for number in range(0 if warm else 1, rounds + 1):
        for name, command in commands.items():
            costs = measure(command, folder / "out", folder)
            if outputs is not None and name not in outputs and "json" not in name:
                outputs[name] = offsets_in((folder / "out").read_text())
            if number:
                measured[name].append(costs)
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
