"""CPU of `kcli consume` with formats and filters, beside kcat and `kcat | grep -E`.

    python -m tests.bench.consume_formats [--runs 5] [--records 2000000] [--only format,jsonl,csv,literal,...]

It starts a real broker with two topics: values of 90 to 110 bytes, and half as many records with a key and two headers
each. The clients run in turn, start-up included. Outputs of the same format must be identical; jsonl and csv are read
back and must have the values, keys and offsets that kcat prints as JSON. It prints medians, and the ratios that kcli
must reach.
"""

from __future__ import annotations

import argparse
import csv
import filecmp
import json
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

from tests.bench.load import values
from tests.bench.measure import Measured, measure
from tests.real_kafka import KafkaNode, fetch_jars

ROOT = Path(__file__).parent.parent.parent
BROKER_JVM = ("-Xms512m", "-Xmx1g")


class Case(NamedTuple):
    """A command of kcli, and the one of kcat (and grep) with the same output. `keyed`: the topic with keys."""

    kcli: tuple[str, ...]
    kcat: tuple[str, ...]
    grep: str | None = None
    keyed: bool = False


CASES = {
    "format": Case(("-f", "%t %p %o %T %k %s\\n"), ("-f", "%t %p %o %T %k %s\\n")),
    "headers": Case(("-f", "%k %h %s\\n"), ("-f", "%k %h %s\\n"), keyed=True),
    "jsonl": Case(("--output", "jsonl"), ("-J",)),
    "csv": Case(("--output", "csv"), ("-J",)),
    "literal": Case(("--grep", "wrapped"), (), "wrapped"),
    "regex": Case(("--grep", "refund.*blue|co[r]ner s"), (), "refund.*blue|co[r]ner s"),
    "groups": Case(("--grep", "(paid|late) (refund|blue)"), (), "(paid|late) (refund|blue)"),
    "number": Case(("--grep", 'order":[0-9]+7,'), (), 'order":[0-9]+7,'),
    "key": Case(("--key", "7$", "-f", "%k %s\\n"), ("-f", "%k %s\\n"), "^[^ ]*7 ", keyed=True),
    "header": Case(("--header", "type=7$", "-f", "%h %s\\n"), ("-f", "%h %s\\n"), "^type=[^,]*7,", keyed=True),
}


def kcli_command(case: Case, at: str, topic: str) -> list[str]:
    return [sys.executable, "-m", "kcli", "consume", "topic", topic, "-b", at, "-o", "start", "-e", *case.kcli]


def kcat_command(case: Case, at: str, topic: str) -> list[str]:
    kcat = ["kcat", "-b", at, "-C", "-t", topic, "-o", "beginning", "-e", "-q", *case.kcat]
    if case.grep is None:
        return kcat
    return ["bash", "-c", f"set -o pipefail; {shlex.join(kcat)} | LC_ALL=C grep -E {shlex.quote(case.grep)}"]


def load_keyed(bootstrap_servers: str, topic: str, count: int) -> None:
    """Write records with a key and the headers type and trace."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "batch.size": 16384})
    for i, value in enumerate(values(count)):
        headers = [("type", b"t%d" % (i * 7919 % 1009)), ("trace", b"%016x" % i)]
        while True:
            try:
                producer.produce(topic, value, b"key-%d" % i, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit(f"not all records were written to {topic}")


def records_in(output: Path, name: str) -> Iterator[tuple[int, str | None, str | None]]:
    """Return offset, key and value of each record in jsonl, csv, or kcat's JSON."""
    with output.open(newline="") as lines:
        if name == "csv":
            for row in csv.DictReader(lines):
                key = None if row["key_encoding"] == "null" else row["key"]
                yield int(row["offset"]), key, row["value"]
            return
        for line in lines:
            record = json.loads(line)
            yield record["offset"], record["key"], record["payload" if name == "kcat" else "value"]


def digest(records: Iterable[object]) -> int:
    total = 0
    for record in records:
        total = hash((total, record))
    return total


def check_outputs(name: str, ours: Path, theirs: Path) -> None:
    if name in ("jsonl", "csv"):
        same = digest(records_in(ours, name)) == digest(records_in(theirs, "kcat"))
    else:
        same = filecmp.cmp(ours, theirs, shallow=False)
    if not same or not ours.stat().st_size:
        raise SystemExit(f"{name}: the outputs of kcli and kcat differ; they are in {ours.parent}")


def run_case(name: str, at: str, topic: str, runs: int, scratch: Path) -> tuple[Measured, Measured]:
    """Run both commands in turn, and return the medians of kcli and kcat."""
    case, ours, theirs = CASES[name], scratch / "kcli.out", scratch / "kcat.out"
    costs: list[tuple[Measured, Measured]] = []
    for run in range(runs):
        kcli = measure(kcli_command(case, at, topic), ours, ROOT)
        costs.append((kcli, measure(kcat_command(case, at, topic), theirs, ROOT)))
        if not run:
            check_outputs(name, ours, theirs)
        print(f"  {name} {run + 1}: CPU {costs[-1][0].cpu_s:.2f} and {costs[-1][1].cpu_s:.2f} s", file=sys.stderr)
    return median([pair[0] for pair in costs]), median([pair[1] for pair in costs])


def median(runs: list[Measured]) -> Measured:
    return Measured(*(statistics.median(column) for column in zip(*runs, strict=True)))


def report(medians: dict[str, tuple[Measured, Measured]]) -> bool:
    """Print the medians and the targets; return whether all were reached."""
    rows = []
    for name, (kcli, kcat) in medians.items():
        figures = (kcli.cpu_s, kcat.cpu_s, kcli.cpu_s / kcat.cpu_s, kcli.wall_s, kcat.wall_s, kcli.wall_s / kcat.wall_s)
        rows.append((name, *(f"{figure:.2f}" for figure in figures), f"{kcli.peak_mb:.0f}"))
    headers = ("case", "kcli CPU s", "kcat CPU s", "ratio", "kcli wall s", "kcat wall s", "ratio", "kcli peak MB")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))
    missed = [name for name, (kcli, kcat) in medians.items() if kcli.cpu_s > kcat.cpu_s]
    print(f"\nCPU at most 1.0 x kcat's: {'missed for ' + ', '.join(missed) if missed else 'reached for all'}")
    return not missed


def options_from(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.consume_formats")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(CASES), help="a,b of the cases")
    parser.add_argument("--scratch", type=Path, help="a folder for the outputs (1 GB)")
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(CASES):
        parser.error(f"unknown case {', '.join(unknown)}: there are {', '.join(CASES)}")
    return options


def main(arguments: list[str]) -> int:
    options = options_from(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # remove the broker and outputs
    scratch = Path(tempfile.mkdtemp(prefix="kcli-bench-", dir=options.scratch))
    kafka = KafkaNode(scratch / "kafka", fetch_jars(), jvm=BROKER_JVM)
    try:
        kafka.start()
        at = kafka.bootstrap_servers
        plain, keyed = (kafka.create_topic(name, 1, segment_bytes=1 << 30) for name in ("plain", "keyed"))
        loader = [sys.executable, "-m", "tests.bench.load", at, plain, "1", "none", str(options.records)]
        subprocess.run(loader, cwd=ROOT, check=True)
        if any(CASES[name].keyed for name in options.only):
            load_keyed(at, keyed, options.records // 2)
        measure(kcli_command(CASES["format"], at, plain), scratch / "warm", ROOT)
        topics = {name: keyed if CASES[name].keyed else plain for name in options.only}
        medians = {name: run_case(name, at, topics[name], options.runs, scratch) for name in options.only}
        print(f"\n{options.records} records of 100 B (keyed: half as many), medians of {options.runs}\n")
        return 0 if report(medians) else 1
    finally:
        kafka.kill()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
