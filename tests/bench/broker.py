"""The embedded broker measured beside a real Kafka, in one run.

    python -m tests.bench.broker [ready] [produce] [consume] [purgatory] [kills] [--runs 5] [--records 3000000]

- ready: time from the start of the process to its line on stdout, and resident memory then.
- produce: Apache's producer performance tool, 100-byte records, acks=all, both brokers in turn.
- consume: kcat and kcli read the same records from both brokers, in turn.
- purgatory: one tick of the timer with 100 and with 100,000 parked fetches.
- kills: 500 rounds of kill -9 under load (tests/interop/kill_loop.py); 50 rounds are a test.

It prints medians with the targets; the exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

from tests.bench.measure import measure
from tests.broker_process import BrokerProcess
from tests.interop.kill_loop import PARTITIONS, KillLoop
from tests.real_kafka import Kafka, KafkaNode, fetch_jars

ROOT = Path(__file__).parent.parent.parent
REAL_JVM = ("-Xms512m", "-Xmx1g")
OURS, REAL = "kcli broker", "Apache Kafka"
PARTS = ("ready", "produce", "consume", "purgatory", "kills")

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


def produce(options: argparse.Namespace, scratch: Path) -> list[Target]:
    with_both = brokers(scratch)
    rates: dict[str, list[float]] = {OURS: [], REAL: []}
    try:
        for run in range(options.runs + 1):  # the first one warms up
            for name, kafka in with_both.items():
                topic = kafka.create_topic(f"perf-{run}", options.partitions)
                rate = performance(kafka, topic, options.produced)
                if run:
                    rates[name].append(rate)
                    print(f"  run {run} {name}: {rate:.1f} MB/s", file=sys.stderr)
    finally:
        stop(with_both)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    table(
        [(name, f"{medians[name]:.1f}", f"{min(found):.1f} to {max(found):.1f}") for name, found in rates.items()],
        ("broker", "produced MB/s", "least to most"),
    )
    ratio = medians[OURS] / medians[REAL]
    return [("at least 0.4 x real Kafka's MB/s", ratio, ratio >= 0.4)]


def performance(kafka: Kafka, topic: str, records: int) -> float:
    """Return the MB/s (2^20 bytes) that the tool reports at its end."""
    command = ["java", "-Xmx512m", "-cp", f"{kafka.jars}/*", "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--topic", topic, "--num-records", str(records), "--record-size", "100", "--throughput", "-1"]
    command += ["--producer-props", f"bootstrap.servers={kafka.bootstrap_servers}", "acks=all"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    summary = [line for line in done.stdout.splitlines() if "99.9th" in line]
    if done.returncode or not summary:
        raise SystemExit(f"the performance tool failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    found = re.search(r"\(([\d.]+) MB/sec\)", summary[-1])
    assert found is not None
    return float(found[1])


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


def read(client: str, kafka: Kafka, records: int, scratch: Path) -> float:
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
        "ready": ready, "produce": produce, "consume": consume, "purgatory": purgatory, "kills": kills,
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
