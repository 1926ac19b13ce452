"""Start-up time of kcli, beside `python -c pass`: `python -m tests.bench.startup [--rounds N]`.

It measures the entry-point script of a temporary installation of this tree. `topic list` asks a warm real Kafka, or the
one given with `--bootstrap-server`. The runs are interleaved; it prints medians, ratios and the targets.
"""

from __future__ import annotations

import argparse
import os
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
TARGETS = {"kcli --version": 4.0, "kcli topic list": 20.0}


def install(folder: Path) -> str:
    """Install this tree below `folder` and return the path of its script. Sets PYTHONPATH for later processes."""
    source, target = folder / "source", folder / "installed"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "kcli", source / "kcli", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(source)], check=True)
    os.environ["PYTHONPATH"] = str(target)
    return str(target / "bin" / "kcli")


@contextmanager
def warm_broker(given: str | None, folder: Path) -> Iterator[str]:
    if given:
        yield given
        return
    node = KafkaNode(folder / "kafka", fetch_jars())
    node.start()
    try:
        yield node.create_topic("orders", 3) and node.bootstrap_servers
    finally:
        node.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--bootstrap-server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kcli = install(folder)
        with warm_broker(options.bootstrap_server, folder) as address:
            commands = {
                "python -c pass": [sys.executable, "-c", "pass"],
                "kcli --version": [kcli, "--version"],
                "kcli --help": [kcli, "--help"],
                "kcli topic --help": [kcli, "topic", "--help"],
                "kcli topic list": [kcli, "topic", "list", "-b", address],
            }
            times = run(commands, options.rounds, folder)
    report(times)


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
        target = f"   target: under {TARGETS[name]:.0f}x" if name in TARGETS else ""
        print(f"{name:18} {median:7.1f} ms   min {min(runs):7.1f}   {median / base:5.1f}x{target}")


if __name__ == "__main__":
    main()
