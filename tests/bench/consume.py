"""Wall time, CPU and peak memory of reading a topic to a file, for kcli and other clients in turn.

    python -m tests.bench.consume [--runs 5] [--records 3000000] [--partitions 1] [--codec none] [--only kcli,kcat]
                                   [--tls]

With `--tls` the clients read from a TLS listener of the same broker, and the target is another. Each run starts a real
broker and loads the same records. The output of each client is compared with the produced records: line by line for one
partition, as a multiset of lines for several. It prints medians, and the ratios that kcli must reach.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tabulate import tabulate

from tests.bench.load import values
from tests.bench.measure import Measured, measure
from tests.certificates import Certificates
from tests.real_kafka import Kafka, KafkaNode, fetch_jars

ROOT = Path(__file__).parent.parent.parent
CLIENTS = ("kcli", "kcat", "kafka-python", "java", "floor")
WITH_TLS = ("kcli", "kcat", "java")
BROKER_JVM = ("-Xms512m", "-Xmx1g")


def tls_settings(certificates: Certificates) -> dict[str, str]:
    """Return the broker's settings for the listener SSL."""
    return {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.pem("server")),
    }


def tls_options(client: str, certificates: Certificates, scratch: Path) -> list[str]:
    """Return the options with which a client uses TLS."""
    authority = certificates.authority()
    if client == "kcat":
        return ["-X", "security.protocol=ssl", "-X", f"ssl.ca.location={authority}"]
    config = scratch / "tls.properties"
    config.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority}\n")
    return ["--command-config", str(config)]


def command(client: str, kafka: Kafka, at: str, topic: str, partitions: int, records: int) -> list[str]:
    """Return the command of a client that writes all values of a topic to stdout, one per line."""
    console = ["java", "-Xmx512m", "-cp", f"{kafka.jars}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    console += ["--bootstrap-server", at, "--topic", topic, "--from-beginning", "--max-messages", str(records)]
    commands: dict[str, list[str]] = {
        "kcli": [sys.executable, "-m", "kcli", "consume", "topic", topic, "-b", at, "-o", "start", "-e"],
        "kcat": ["kcat", "-b", at, "-C", "-t", topic, "-o", "beginning", "-e", "-q"],
        "kafka-python": [sys.executable, "-m", "tests.bench.kafka_python_reader", at, topic],
        "java": console,
        "floor": [sys.executable, "-m", "tests.bench.floor", at, topic, str(partitions)],
    }
    return commands[client]


def digest(lines: Iterable[bytes], ordered: bool) -> int:
    """Return one number for many lines: a hash of their sequence, or of their multiset."""
    total = 0
    if not ordered:
        return sum(map(hash, lines)) & 0xFFFFFFFFFFFFFFFF
    for line in lines:
        total = hash((total, line))
    return total


def check_output(client: str, output: Path, expected: int, ordered: bool) -> None:
    with output.open("rb") as lines:
        if digest(lines, ordered) == expected:
            return
    with output.open("rb") as lines:
        count = sum(1 for _ in lines)
    raise SystemExit(f"{client} did not write what was produced: {count} lines, {output.stat().st_size} bytes")


def run_case(kafka: KafkaNode, partitions: int, codec: str, options: argparse.Namespace, scratch: Path) -> bool:
    """Load one topic, run every client in turn, print the table; return whether kcli reached its targets."""
    topic = kafka.create_topic(f"bench-{partitions}-{codec}", partitions, segment_bytes=1 << 30)
    loader = [sys.executable, "-m", "tests.bench.load", kafka.bootstrap_servers, topic]
    subprocess.run([*loader, str(partitions), codec, str(options.records)], cwd=ROOT, check=True)
    expected = digest((value + b"\n" for value in values(options.records)), ordered=partitions == 1)
    results: dict[str, list[Measured]] = {client: [] for client in options.only}
    output = scratch / "values"
    at = f"127.0.0.1:{kafka.ports['SSL' if options.tls else 'PLAINTEXT']}"
    more = {
        client: tls_options(client, options.certificates, scratch) if options.tls else [] for client in options.only
    }
    commands = {
        client: command(client, kafka, at, topic, partitions, options.records) + more[client] for client in options.only
    }
    measure(commands[options.only[0]], output, ROOT)  # a warm broker for the first
    for run in range(options.runs):
        for client in options.only:
            if client == "kafka-python" and run >= options.slow_runs:
                continue
            got = measure(commands[client], output, ROOT)
            if client != "floor":
                check_output(client, output, expected, ordered=partitions == 1)
            results[client].append(got)
            print(f"  run {run + 1} {client}: {got.wall_s:.2f} s", file=sys.stderr)
    print(f"\n{options.records} records, {partitions} partition(s), codec {codec}, median of {options.runs}\n")
    return report(results, codec, tls=options.tls)


def report(results: dict[str, list[Measured]], codec: str, *, tls: bool) -> bool:
    """Print the medians and, where both sides were measured, the targets."""
    medians = {client: median(runs) for client, runs in results.items()}
    base = medians.get("kcli")
    rows = []
    for client, m in medians.items():
        walls = [run.wall_s for run in results[client]]
        ratio = f"{base.wall_s / m.wall_s:.2f}" if base else ""
        cpu_ratio = f"{base.cpu_s / m.cpu_s:.2f}" if base else ""
        spread = f"{min(walls):.2f} to {max(walls):.2f}"
        rows.append((client, f"{m.wall_s:.2f}", spread, f"{m.cpu_s:.2f}", f"{m.peak_mb:.0f}", ratio, cpu_ratio))
    headers = ("client", "wall s", "least to most", "CPU s", "peak MB", "kcli's wall / its", "kcli's CPU / its")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))
    return base is None or judge(base, medians, codec, tls=tls)


def median(runs: list[Measured]) -> Measured:
    return Measured(*(statistics.median(column) for column in zip(*runs, strict=True)))


def judge(kcli: Measured, others: dict[str, Measured], codec: str, *, tls: bool) -> bool:
    """Print the targets for which there are figures; return whether all were reached."""
    targets = [("peak memory under 200 MB", kcli.peak_mb, kcli.peak_mb < 200)]
    if kcat := others.get("kcat"):
        wall, cpu = kcli.wall_s / kcat.wall_s, kcli.cpu_s / kcat.cpu_s
        most = 0.5 if tls else 0.6
        targets.append((f"wall at most {most} x kcat's", wall, wall <= most))
        targets.append(("CPU at most 1.5 x kcat's", cpu, cpu <= 1.5))
    if floor := others.get("floor"):
        times, most = kcli.wall_s / floor.wall_s, 2.5 if codec == "none" else 4.0
        targets.append((f"wall at most {most:g} x the floor's", times, times <= most))
    if slow := others.get("kafka-python"):
        times = slow.wall_s / kcli.wall_s
        targets.append(("at least 8 x faster than kafka-python", times, times >= 8))
    print()
    for what, measured, reached in targets:
        print(f"- {'reached' if reached else 'MISSED '}: {what} (measured {measured:.2f})")
    return all(reached for _, _, reached in targets)


def options_from(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.consume", description="Compare kcli with other readers."
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--slow-runs", type=int, help="fewer runs for kafka-python, which takes half a minute each")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--codec", nargs="+", default=["none", "lz4", "zstd"])
    parser.add_argument(
        "--only", type=lambda names: names.split(","), default=list(CLIENTS), help="a,b of these clients"
    )
    parser.add_argument("--tls", action="store_true", help="read from a TLS listener; for kcli, kcat and java")
    parser.add_argument("--scratch", type=Path, help="a folder for the outputs (300 MB at a time)")
    options = parser.parse_args(arguments)
    options.slow_runs = options.slow_runs or options.runs
    if options.tls:
        options.only = [client for client in options.only if client in WITH_TLS]
    if unknown := set(options.only) - set(CLIENTS):
        parser.error(f"unknown client {', '.join(unknown)}: there are {', '.join(CLIENTS)}")
    return options


def main(arguments: list[str]) -> int:
    options = options_from(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # remove the broker and outputs
    scratch = Path(tempfile.mkdtemp(prefix="kcli-bench-", dir=options.scratch))
    settings, more = {}, ()
    if options.tls:
        options.certificates = Certificates(scratch / "certificates")
        settings, more = tls_settings(options.certificates), ("SSL",)
    kafka = KafkaNode(scratch / "kafka", fetch_jars(), jvm=BROKER_JVM, settings=settings, more_listeners=more)
    try:
        kafka.start()
        reached = [run_case(kafka, n, codec, options, scratch) for n in options.partitions for codec in options.codec]
    finally:
        kafka.kill()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
