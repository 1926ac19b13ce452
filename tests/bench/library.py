"""The library beside kafka-python, confluent-kafka and aiokafka.

    python -m tests.bench.library [--apache] [--rounds 5] [--records 200000] [--cases send,consume,...]

| case | what the clients do |
|---|---|
| send | send values of 100 bytes one by one, then flush |
| send-keyed | the same with keys |
| send-many | hand over 500 values at once: `send_many`, `produce_batch` |
| async-send | `AsyncProducer` and aiokafka: await each send, then flush |
| consume | read record by record: `for record in consumer`, confluent's `poll`, `async for` |
| async-consume | `AsyncConsumer` and aiokafka: `async for` |
| consume-many | read as columns (`poll`), or lists of 500, and look at each value |

All clients use one broker: kcli's in a process of its own, or a real Kafka with `--apache`. In each round each client
runs once, in a process of its own (`library_clients`). The records that were stored are counted. It prints medians and
ratios, and what kcli must reach; the exit status is 1 if it does not.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

from kcli import Admin, Consumer, TopicPartition
from tests.bench.library_clients import CASES, WARM_UP, values
from tests.broker_process import BrokerProcess
from tests.foreign import python_with
from tests.real_kafka import KafkaNode, OwnBroker, fetch_jars

ROOT = Path(__file__).parents[2]
AIOKAFKA = "aiokafka==0.14.0"
PARTITIONS = 3


class Cost(NamedTuple):
    """Of one run: seconds of wall clock and of CPU."""

    wall_s: float
    cpu_s: float


class Target(NamedTuple):
    """The least rate of kcli in a case, as a multiple of the client's."""

    case: str
    client: str
    times: float


TARGETS = (Target("send", "aiokafka", 2.0), Target("async-send", "aiokafka", 1.0))
SEND_TARGET_US = 3.0


def run(case: str, client: str, at: str, topic: str, count: int) -> Cost:
    """Run one client in a process of its own. A failure ends the bench."""
    interpreter = python_with(AIOKAFKA) if client == "aiokafka" else sys.executable
    command = [str(interpreter), "-m", "tests.bench.library_clients", case, client, at, topic, str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{client} failed in {case}:\n{done.stderr[-3000:]}")
    return Cost(*map(float, done.stdout.split()))


def stored(at: str, topic: str) -> int:
    """Return the number of records in a topic."""
    with Consumer(bootstrap_servers=at) as consumer:
        return sum(consumer.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)]).values())


def delete(at: str, topic: str) -> None:
    with Admin(at) as admin:
        for error in admin.delete_topics(admin.plan_topic_deletion(topic)).errors.values():
            raise error


def load(at: str, count: int) -> str:
    """Write the records that the reading cases read."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": at, "linger.ms": 20, "batch.size": 16384})
    for number, value in enumerate(values(count)):
        producer.produce("read", value, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    if producer.flush(120):
        raise SystemExit("the records to read were not written")
    return "read"


def run_case(case: str, broker: OwnBroker, options: argparse.Namespace) -> dict[str, list[Cost]]:
    """Run every client in turn, in all rounds."""
    at, count = broker.bootstrap_servers, options.records
    costs: dict[str, list[Cost]] = {client: [] for client in CASES[case] if client in options.clients}
    for number in range(options.rounds):
        for client in costs:
            topic = "read"
            if "send" in case:
                topic = broker.create_topic(f"{case}-{client}-{number}", PARTITIONS)
            cost = run(case, client, at, topic, count)
            if "send" in case:
                if (found := stored(at, topic)) != count + WARM_UP + 2:
                    raise SystemExit(f"{client} has stored {found} records of {count + WARM_UP + 2}")
                delete(at, topic)
            costs[client].append(cost)
            print(f"  {case} {number + 1} {client}: {cost.wall_s:.2f} s, CPU {cost.cpu_s:.2f} s", file=sys.stderr)
    return costs


class Median(NamedTuple):
    """Of one client in one case: records per second, and microseconds of CPU per record."""

    rate: float
    cpu_us: float

    @classmethod
    def of(cls, costs: list[Cost], count: int) -> Median:
        wall_s, cpu_s = (statistics.median(column) for column in zip(*costs, strict=True))
        return cls(count / wall_s, cpu_s / count * 1e6)


def report(medians: dict[tuple[str, str], Median], options: argparse.Namespace) -> bool:
    """Print the table and the targets; return whether all were reached."""
    rows = []
    for (case, client), median in medians.items():
        ours = medians.get((case, "kcli"))
        ratios = ("", "")
        if client != "kcli" and ours is not None:
            ratios = (f"{ours.rate / median.rate:.2f}", f"{ours.cpu_us / median.cpu_us:.2f}")
        rows.append((case, client, f"{median.rate:,.0f}", f"{median.cpu_us:.2f}", *ratios))
    broker = "Apache Kafka" if options.apache else "kcli's broker"
    print(f"\n{options.records:,} records, medians of {options.rounds} rounds, {broker}\n")
    headers = ("case", "client", "records/s", "CPU us per record", "kcli's rate / its", "kcli's CPU / its")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end="\n\n")
    reached = True
    for case, client, times in TARGETS:
        if (case, client) in medians and (case, "kcli") in medians:
            ratio = medians[case, "kcli"].rate / medians[case, client].rate
            reached &= told(f"{case}: at least {times} x the rate of {client}", ratio, ratio >= times)
    if ("send", "kcli") in medians:
        cpu_us = medians["send", "kcli"].cpu_us
        reached &= told(f"send: at most {SEND_TARGET_US} us of CPU per record", cpu_us, cpu_us <= SEND_TARGET_US)
    return reached


def told(target: str, found: float, reached: bool) -> bool:
    print(f"- {'reached' if reached else 'MISSED '}: {target} (measured {found:.2f})")
    return reached


@contextmanager
def broker_for(options: argparse.Namespace) -> Iterator[OwnBroker]:
    with tempfile.TemporaryDirectory(prefix="kcli-bench-", dir=options.scratch) as folder:
        scratch = Path(folder)
        broker: OwnBroker = KafkaNode(scratch, fetch_jars()) if options.apache else BrokerProcess(scratch)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def options_from(arguments: list[str]) -> argparse.Namespace:
    clients = list(dict.fromkeys(client for case in CASES.values() for client in case))
    parser = argparse.ArgumentParser(prog="python -m tests.bench.library", description="Compare libraries for Python.")
    parser.add_argument("--apache", action="store_true", help="use a real Kafka instead of kcli's broker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=200_000)
    for name, known in (("cases", list(CASES)), ("clients", clients)):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=known, help=",".join(known))
    parser.add_argument("--scratch", type=Path, help="a folder for the broker's data (1 GB)")
    options = parser.parse_args(arguments)
    if unknown := {*options.cases} - {*CASES} | {*options.clients} - {*clients}:
        parser.error(f"unknown: {', '.join(unknown)}")
    return options


def main(arguments: list[str]) -> int:
    options = options_from(arguments)
    with broker_for(options) as broker:
        broker.create_topic("read", PARTITIONS)
        if any("consume" in case for case in options.cases):
            load(broker.bootstrap_servers, options.records)
        costs = {case: run_case(case, broker, options) for case in options.cases}
    medians = {
        (case, client): Median.of(runs, options.records) for case, by in costs.items() for client, runs in by.items()
    }
    return 0 if report(medians, options) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
