"""The embedded broker measured beside a real Kafka, in one run.

    python -m tests.bench.broker [ready] [topics] [produce] [consume] [purgatory] [kills] [--runs 5] [--records 3000000]

- ready: time from the start of the process to its line on stdout, and resident memory then.
- topics: 2,000 topics of 4 partitions are created with requests of 100, and kcli's broker is started again over them.
- produce: Apache's producer performance tool, 100-byte records, acks=all, both brokers in turn. The tool shares the
  processors with the broker, so its own CPU time, which is printed, too, bounds the rate with every broker.
- consume: kcat and kcli read the same records from both brokers, in turn.
- purgatory: one tick of the timer with 100 and with 100,000 parked fetches.
- kills: 500 rounds of kill -9 under load (tests/interop/kill_loop.py); 50 rounds are a test.

It prints medians with the targets; the exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic
from tabulate import tabulate

from tests.bench.measure import measure
from tests.broker_process import BrokerProcess
from tests.interop.kill_loop import PARTITIONS, KillLoop
from tests.real_kafka import KafkaNode, fetch_jars

ROOT = Path(__file__).parent.parent.parent
REAL_JVM = ("-Xms512m", "-Xmx1g")
OURS, REAL = "kcli broker", "Apache Kafka"
TOPICS, PARTITIONS_EACH, TOPICS_A_REQUEST = 2000, 4, 100
PARTS = ("ready", "topics", "produce", "consume", "purgatory", "kills")

Target = tuple[str, float, bool]


def table(rows: list[tuple[str, ...]], headers: tuple[str, ...]) -> None:
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end="\n\n")


def resident_mb(pid: int) -> float:
    """Return the resident memory in MB (10^6 bytes)."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def ready(options: argparse.Namespace, scratch: Path) -> list[Target]:
    times, sizes = [], []
    for _ in range(max(11, options.runs)):
        began = time.perf_counter()
        command = [sys.executable, "-m", "kcli", "broker", "run", "--ephemeral", "--port", "0"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the broker did not start"
            times.append((time.perf_counter() - began) * 1000)
            sizes.append(resident_mb(process.pid))
            process.terminate()
    took, size = statistics.median(times), statistics.median(sizes)
    spread = f"{min(times):.0f} to {max(times):.0f}"
    table([(f"{took:.0f}", spread, f"{size:.0f}")], ("ready ms", "least to most", "resident MB"))
    return [("ready in under 300 ms", took, took < 300), ("under 70 MB resident", size, size < 70)]


def topics(options: argparse.Namespace, scratch: Path) -> list[Target]:
    created, started, stopped = [], [], []
    for run in range(options.runs):
        folder = scratch / f"topics-{run}"
        with started_broker(folder) as (process, port, _):
            created.append(create_topics(port, process.pid))
        with started_broker(folder) as (process, _, took):
            started.append((took, cpu_s(process.pid)))
            began = time.perf_counter()
        stopped.append((time.perf_counter() - began, 0.0))
        shutil.rmtree(folder)
    rows = {"create 2,000 topics": created, "start over them": started, "stop": stopped}
    medians = {name: [statistics.median(column) for column in zip(*found, strict=True)] for name, found in rows.items()}
    table(
        [(name, f"{wall:.2f}", f"{cpu:.2f}" if cpu else "") for name, (wall, cpu) in medians.items()],
        ("8,000 partitions", "wall s", "CPU s"),
    )
    created_s, started_s = medians["create 2,000 topics"][0], medians["start over them"][0]
    return [
        ("2,000 topics of 4 partitions created in 5 s", created_s, created_s <= 5),
        ("a start over them in 1 s", started_s, started_s <= 1),
    ]


@contextmanager
def started_broker(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int, float]]:
    """Yield a broker's process, its port, and the seconds until it was ready; stop it afterwards."""
    command = [sys.executable, "-m", "kcli", "broker", "run", "--data-dir", str(folder), "--port", "0"]
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)", process.stdout.readline())
        took = time.perf_counter() - began
        assert found is not None, "the broker did not start"
        try:
            yield process, int(found[1]), took
        finally:
            process.terminate()


def create_topics(port: int, pid: int) -> tuple[float, float]:
    """Return the wall time of all requests, and the CPU time of the broker."""
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "socket.timeout.ms": 60_000})
    client.list_topics(timeout=30)
    cpu_before, began = cpu_s(pid), time.perf_counter()
    for first in range(0, TOPICS, TOPICS_A_REQUEST):
        wanted = [NewTopic(f"orders-{number}", PARTITIONS_EACH, 1) for number in range(first, first + TOPICS_A_REQUEST)]
        for created in client.create_topics(wanted, request_timeout=60).values():
            created.result()
    took = time.perf_counter() - began
    assert len(client.list_topics(timeout=30).topics) == TOPICS
    return took, cpu_s(pid) - cpu_before


def cpu_s(pid: int) -> float:
    """Return the user and system CPU time of a process, in seconds."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


class Produced(NamedTuple):
    """One run of the performance tool: its rate (2^20 bytes), its wall time, and the CPU times of tool and broker."""

    mb_per_s: float
    wall_s: float
    tool_cpu_s: float
    broker_cpu_s: float


def produce(options: argparse.Namespace, scratch: Path) -> list[Target]:
    with_both = brokers(scratch)
    runs: dict[str, list[Produced]] = {OURS: [], REAL: []}
    try:
        for run in range(options.runs + 1):  # the first one warms up
            for name, kafka in with_both.items():
                topic = kafka.create_topic(f"perf-{run}", options.partitions)
                produced = performance(kafka, topic, options.produced, scratch / "performance")
                if run:
                    runs[name].append(produced)
                    print(f"  run {run} {name}: {produced.mb_per_s:.1f} MB/s", file=sys.stderr)
    finally:
        stop(with_both)
    medians = {
        name: Produced(*(statistics.median(column) for column in zip(*found, strict=True)))
        for name, found in runs.items()
    }
    processors = os.cpu_count() or 1
    table(
        [
            (
                name,
                f"{one.mb_per_s:.1f}",
                f"{min(run.mb_per_s for run in runs[name]):.1f} to {max(run.mb_per_s for run in runs[name]):.1f}",
                f"{one.broker_cpu_s:.2f}",
                f"{one.tool_cpu_s:.2f}",
                f"{(one.broker_cpu_s + one.tool_cpu_s) / one.wall_s / processors:.0%}",
            )
            for name, one in medians.items()
        ],
        ("broker", "produced MB/s", "least to most", "CPU s of the broker", "CPU s of the tool", "processors busy"),
    )
    ours, real = medians[OURS], medians[REAL]
    ratio = ours.mb_per_s / real.mb_per_s
    real_cpu_s, our_cpu_s = real.broker_cpu_s + real.tool_cpu_s, ours.broker_cpu_s + ours.tool_cpu_s
    print(
        f"With all processors busy the ratio would be that of the CPU times, {real_cpu_s / our_cpu_s:.2f}; "
        f"with a broker that costs nothing, {real_cpu_s / ours.tool_cpu_s:.2f}.\n"
    )
    return [("at least 1.5 x real Kafka's MB/s", ratio, ratio >= 1.5)]


def performance(kafka: BrokerProcess | KafkaNode, topic: str, records: int, output: Path) -> Produced:
    """Run the tool, and return its rate and what it cost."""
    command = ["java", "-Xmx512m", "-cp", f"{kafka.jars}/*", "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--topic", topic, "--num-records", str(records), "--record-size", "100", "--throughput", "-1"]
    command += ["--producer-props", f"bootstrap.servers={kafka.bootstrap_servers}", "acks=all"]
    assert kafka.pid is not None
    before = cpu_s(kafka.pid)
    cost = measure(command, output, ROOT)
    found = re.findall(r"\(([\d.]+) MB/sec\).* 99.9th", output.read_text())
    if not found:
        raise SystemExit(f"the performance tool failed:\n{output.read_text()[-1000:]}")
    return Produced(float(found[-1]), cost.wall_s, cost.cpu_s, cpu_s(kafka.pid) - before)


def consume(options: argparse.Namespace, scratch: Path) -> list[Target]:
    with_both = brokers(scratch)
    rows, targets = [], []
    try:
        for kafka in with_both.values():
            kafka.create_topic("read", options.partitions)
            loader = [sys.executable, "-m", "tests.bench.load", kafka.bootstrap_servers, "read"]
            subprocess.run([*loader, str(options.partitions), "none", str(options.records)], cwd=ROOT, check=True)
        for client in ("kcat", "kcli"):
            walls: dict[str, list[float]] = {OURS: [], REAL: []}
            for run in range(options.runs + 1):
                for name, kafka in with_both.items():
                    wall = read(client, kafka, options.records, scratch)
                    if run:
                        walls[name].append(wall)
                        print(f"  run {run} {client} from {name}: {wall:.2f} s", file=sys.stderr)
            medians = {name: statistics.median(found) for name, found in walls.items()}
            ratio = medians[REAL] / medians[OURS]
            rows += [
                (client, name, f"{medians[name]:.2f}", f"{options.records / medians[name]:,.0f}") for name in walls
            ]
            targets.append((f"{client} at least 0.8 x its rate with real Kafka", ratio, ratio >= 0.8))
    finally:
        stop(with_both)
    table(rows, ("client", "broker", "wall s", "records/s"))
    return targets


def read(client: str, kafka: BrokerProcess | KafkaNode, records: int, scratch: Path) -> float:
    """Return the seconds to read the whole topic; the number of records is checked."""
    at = kafka.bootstrap_servers
    commands = {
        "kcat": ["kcat", "-b", at, "-C", "-t", "read", "-o", "beginning", "-e", "-q"],
        "kcli": [sys.executable, "-m", "kcli", "consume", "topic", "read", "-b", at, "-o", "start", "-e"],
    }
    output = scratch / "read"
    got = measure(commands[client], output, ROOT)
    with output.open("rb") as lines:
        count = sum(1 for _ in lines)
    if count != records:
        raise SystemExit(f"{client} read {count} of {records} records")
    return got.wall_s


def purgatory(options: argparse.Namespace, scratch: Path) -> list[Target]:
    from tests.bench.parked import per_tick_us

    few, many = per_tick_us(100), per_tick_us(100_000)
    table([("100", f"{few:.2f}"), ("100,000", f"{many:.2f}")], ("parked fetches", "microseconds per tick"))
    ratio = many / few
    return [("a tick with 100,000 parked costs at most 1.5 x one with 100", ratio, ratio <= 1.5)]


def kills(options: argparse.Namespace, scratch: Path) -> list[Target]:
    broker = BrokerProcess(scratch / "ours", fetch_jars())
    broker.start()
    try:
        topic = broker.create_topic("killed", PARTITIONS, internal_segment_bytes=65536)
        account = KillLoop(broker, topic, seed=options.seed).run(options.rounds)
    finally:
        stop({OURS: broker})
    table([tuple(f"{number:,}" for number in account)], ("rounds", "acknowledged", "read", "commits"))
    return [("rounds of kill -9 without loss, double or step back", account.rounds, True)]


def brokers(scratch: Path) -> dict[str, BrokerProcess | KafkaNode]:
    jars = fetch_jars()
    both: dict[str, BrokerProcess | KafkaNode] = {
        OURS: BrokerProcess(scratch / "ours", jars),
        REAL: KafkaNode(scratch / "real", jars, jvm=REAL_JVM),
    }
    for broker in both.values():
        broker.start()
    return both


def stop(running: dict[str, BrokerProcess | KafkaNode]) -> None:
    for broker in running.values():
        broker.kill()
        shutil.rmtree(broker.folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.broker", description="Measure the embedded broker.")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of: {' '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--records", type=int, default=3_000_000, help="to be consumed")
    parser.add_argument("--produced", type=int, default=1_000_000, help="records per run of the performance tool")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    measured: dict[str, Callable[[argparse.Namespace, Path], list[Target]]] = {
        "ready": ready, "topics": topics, "produce": produce, "consume": consume, "purgatory": purgatory,
        "kills": kills,
    }  # fmt: skip
    if unknown := set(options.parts) - set(measured):
        parser.error(f"unknown part {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # remove brokers and files
    scratch = Path(tempfile.mkdtemp(prefix="kcli-bench-"))
    try:
        targets = [target for part in options.parts for target in measured[part](options, scratch)]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for what, found, reached in targets:
        print(f"- {'reached' if reached else 'MISSED '}: {what} (measured {found:.2f})")
    return 0 if all(reached for _, _, reached in targets) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
