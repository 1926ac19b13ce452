"""Start-up time of kcli, beside `python -c pass`: `python -m tests.bench.startup [--rounds N]`.

It measures the entry-point script of a temporary installation of this tree. `topic list` and `consume`, which prints
the last ten records of each partition of a topic, ask a warm real Kafka, or the one given with `--bootstrap-server`,
which must have a topic "orders". The runs are interleaved; it prints medians, ratios and the targets. With
`--before TREE` it also measures another checkout.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.measure import measure
from tests.real_kafka import KafkaNode, fetch_jars

ROOT = Path(__file__).parents[2]
TOPIC = "orders"
TAIL = ["consume", TOPIC, "-o", "-10", "-e"]
TARGETS = {"kcli --version": 4.0, "kcli topic list": 5.0, "kcli consume -o -10 -e": 8.0}


def install(tree: Path, folder: Path) -> list[str]:
    """Install a checkout below `folder` and return the command that runs its script."""
    source, target = folder / "source", folder / "installed"
    source.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "pyspark_kcli.py"):
        shutil.copy(tree / name, source)
    for name in ("kcli", "man", "completions"):
        shutil.copytree(tree / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(source)], check=True)
    return ["/usr/bin/env", f"PYTHONPATH={target}", str(target / "bin" / "kcli")]


@contextmanager
def warm_broker(given: str | None, folder: Path) -> Iterator[str]:
    if given:
        yield given
        return
    node = KafkaNode(folder / "kafka", fetch_jars())
    node.start()
    try:
        node.create_topic(TOPIC, 3)
        producer = node.ordered_producer()
        for number in range(1000):
            producer.produce(TOPIC, f"record {number}", partition=number % 3)
        producer.flush(30)
        yield node.bootstrap_servers
    finally:
        node.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--before", type=Path, metavar="TREE", help="Measure this checkout of kcli, too.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trees = {"kcli": ROOT} | ({"before": options.before} if options.before else {})
        kclis = {label: install(tree, folder / label) for label, tree in trees.items()}
        with warm_broker(options.bootstrap_server, folder) as address:
            commands = {"python -c pass": [sys.executable, "-c", "pass"]}
            for label, kcli in kclis.items():
                commands |= {
                    f"{label} --version": [*kcli, "--version"],
                    f"{label} --help": [*kcli, "--help"],
                    f"{label} topic --help": [*kcli, "topic", "--help"],
                    f"{label} topic list": [*kcli, "topic", "list", "-b", address],
                    f"{label} consume -o -10 -e": [*kcli, *TAIL, "-b", address],
                }
            outputs = {output_of([*kcli, *TAIL, "-b", address]) for kcli in kclis.values()}
            assert len(outputs) == 1, outputs
            times = run(commands, options.rounds, folder)
    report(times)


def output_of(command: list[str]) -> tuple[str, ...]:
    """Return the lines that the command prints, sorted, because the order of partitions is not fixed."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return tuple(sorted(done.stdout.splitlines()))


def run(commands: dict[str, list[str]], rounds: int, folder: Path) -> dict[str, list[float]]:
    """Return the wall-clock milliseconds of every round of every command; a first round only warms the caches."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            wall_ms = measure(command, folder / "out", folder).wall_s * 1000
            if number:
                times[name].append(wall_ms)
    return times


def report(times: dict[str, list[float]]) -> None:
    base = statistics.median(times["python -c pass"])
    for name, runs in times.items():
        median = statistics.median(runs)
        target = f"   target: at most {TARGETS[name]:.0f}x" if name in TARGETS else ""
        print(f"{name:26} {median:7.1f} ms   min {min(runs):7.1f}   {median / base:5.1f}x{target}")


if __name__ == "__main__":
    main()
