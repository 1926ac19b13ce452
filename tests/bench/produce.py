"""Wall time, CPU and peak memory of writing lines to a topic, for kcli and kcat in turn.

    python -m tests.bench.produce [--runs 5] [--records 2000000] [--cases lines,lz4,pipe,keyed,jsonl] [--only kcli,kcat]

| case | input | partitions | codec |
|---|---|---|---|
| lines | a file of lines of 90 to 110 bytes | 1 | none |
| lz4 | the same | 1 | lz4 |
| pipe | the same through `cat` | 1 | none |
| keyed | lines of a key, a tab and a value; the partition follows from the key (murmur2) | 6 | none |
| keyed-lz4 | the same | 6 | lz4 |
| jsonl | the records of `lines` as `kcli consume --output jsonl` prints them; kcat reads `lines` | 1 | none |

All runs use one real broker, each a new topic. After each run kcat reads the topic, and its records are compared
with the input: in order for one partition; for several, the sets of records with their partitions are compared between
the clients. It prints medians with the targets; the exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from tabulate import tabulate

from tests.bench.load import values
from tests.bench.measure import Measured, measure
from tests.real_kafka import KafkaNode, fetch_jars

ROOT = Path(__file__).parent.parent.parent
CLIENTS = ("kcli", "kcat")
BROKER_JVM = ("-Xms1g", "-Xmx1g")
KEYS = 100_003


class Case(NamedTuple):
    """One kind of input, and the options for it of each client."""

    kcli_input: str
    kcat_input: str
    kcli_options: tuple[str, ...] = ()
    kcat_options: tuple[str, ...] = ()
    partitions: int = 1
    through_pipe: bool = False


_LZ4 = ("-z", "lz4"), ("-z", "lz4")
_KEYED = ("-K", r"\t"), ("-K", "\t", "-X", "topic.partitioner=murmur2_random")
CASES = {
    "lines": Case("lines", "lines"),
    "lz4": Case("lines", "lines", *_LZ4),
    "pipe": Case("lines", "lines", through_pipe=True),
    "keyed": Case("keyed", "keyed", *_KEYED, partitions=6),
    "keyed-lz4": Case("keyed", "keyed", _KEYED[0] + _LZ4[0], _KEYED[1] + _LZ4[1], partitions=6),
    "jsonl": Case("jsonl", "lines", ("--input", "jsonl")),
}


def write_input(name: str, path: Path, count: int) -> None:
    """Write the input `name`: lines, keyed or jsonl."""
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in lines_of(name, count))


def lines_of(name: str, count: int) -> Iterator[bytes]:
    for number, value in enumerate(values(count)):
        if name == "lines":
            yield value
        elif name == "keyed":
            yield b"customer-%d\t%b" % (number * 7919 % KEYS, value)
        else:
            members = {"topic": "t", "partition": 0, "offset": number, "timestamp": 1_700_000_000_000 + number}
            yield json.dumps({**members, "key": None, "value": value.decode(), "headers": []}).encode()


def command(client: str, at: str, topic: str, case: Case) -> list[str]:
    if client == "kcli":
        return [sys.executable, "-m", "kcli", "produce", topic, "-b", at, *case.kcli_options]
    return ["kcat", "-P", "-b", at, "-t", topic, *case.kcat_options]


def run(client: str, kafka: KafkaNode, topic: str, case: Case, scratch: Path) -> Measured:
    """Write the input of a case by one client."""
    given = scratch / (case.kcli_input if client == "kcli" else case.kcat_input)
    written = command(client, kafka.bootstrap_servers, topic, case)
    if case.through_pipe:
        return measure(["sh", "-c", 'cat "$0" | "$@"', str(given), *written], scratch / "output", ROOT)
    return measure(written, scratch / "output", ROOT, given)


class Digest(NamedTuple):
    """The number of records, and a hash of them: of their sequence, or of their set for several partitions."""

    count: int
    hash: str


def digest(lines: Iterable[bytes], *, ordered: bool) -> Digest:
    count, total = 0, 0
    sequence = hashlib.blake2b()
    for line in lines:
        count += 1
        if ordered:
            sequence.update(line)
        else:
            total += hash(line)
    return Digest(count, sequence.hexdigest() if ordered else str(total))


def stored(kafka: KafkaNode, topic: str, case: Case) -> Digest:
    """Return the digest of the records of a topic, read by kcat."""
    read = ["kcat", "-C", "-b", kafka.bootstrap_servers, "-t", topic, "-o", "beginning", "-e", "-q"]
    if case.partitions > 1:
        read += ["-f", r"%p %k\t%s\n"]
    with subprocess.Popen(read, stdout=subprocess.PIPE, bufsize=1 << 20) as process:
        assert process.stdout is not None
        found = digest(process.stdout, ordered=case.partitions == 1)
    if process.returncode:
        raise SystemExit(f"kcat could not read {topic}: status {process.returncode}")
    return found


def run_case(name: str, kafka: KafkaNode, options: argparse.Namespace, scratch: Path) -> list[tuple[str, float, bool]]:
    """Run every client in turn, print the table and return the targets."""
    case = CASES[name]
    results: dict[str, list[Measured]] = {client: [] for client in options.only}
    expected: Digest | None = None
    if case.partitions == 1:
        expected = digest((line + b"\n" for line in lines_of(case.kcat_input, options.records)), ordered=True)
    for number in range(options.runs + 1):  # the first one warms up
        for client in options.only:
            topic = kafka.create_topic(f"{name}-{client}-{number}", case.partitions, segment_bytes=1 << 30)
            got = run(client, kafka, topic, case, scratch)
            found = stored(kafka, topic, case)
            expected = expected or found
            if found != expected or found.count != options.records:
                raise SystemExit(f"{client} did not store what was given: {found} instead of {expected}")
            delete(kafka, topic)
            if number:
                results[client].append(got)
                print(f"  run {number} {client}: {got.wall_s:.2f} s, CPU {got.cpu_s:.2f} s", file=sys.stderr)
    return report(name, results, options)


def delete(kafka: KafkaNode, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_topics([topic]).values():
        future.result()


def report(name: str, results: dict[str, list[Measured]], options: argparse.Namespace) -> list[tuple[str, float, bool]]:
    print(f"\n{name}: {options.records:,} records, medians of {options.runs}\n")
    rows = []
    for client, runs in results.items():
        wall, cpu, peak = (statistics.median(column) for column in zip(*runs, strict=True))
        walls = [one.wall_s for one in runs]
        spread = f"{min(walls):.2f} to {max(walls):.2f}"
        rows.append((client, f"{wall:.2f}", spread, f"{cpu:.2f}", f"{peak:.0f}", f"{options.records / wall:,.0f}"))
    headers = ("client", "wall s", "least to most", "CPU s", "peak MB", "records/s")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True), end="\n\n")
    if set(results) != set(CLIENTS):
        return []
    kcli, kcat = (Measured(*map(statistics.median, zip(*results[client], strict=True))) for client in CLIENTS)
    wall, cpu = kcli.wall_s / kcat.wall_s, kcli.cpu_s / kcat.cpu_s
    return [
        (f"{name}: wall at most 1.0 x kcat's", wall, wall <= 1.0),
        (f"{name}: CPU at most 1.2 x kcat's", cpu, cpu <= 1.2),
    ]


def options_from(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.produce", description="Compare kcli with kcat.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--records", type=int, default=2_000_000)
    for name, known in (("cases", tuple(CASES)), ("only", CLIENTS)):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=list(known), help=",".join(known))
    parser.add_argument("--scratch", type=Path, help="a folder for the inputs and the broker's data (2 GB)")
    options = parser.parse_args(arguments)
    if unknown := {*options.cases} - {*CASES} | {*options.only} - {*CLIENTS}:
        parser.error(f"unknown: {', '.join(unknown)}")
    return options


def main(arguments: list[str]) -> int:
    options = options_from(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # remove the broker and inputs
    scratch = Path(tempfile.mkdtemp(prefix="kcli-bench-", dir=options.scratch))
    settings = {"log.segment.delete.delay.ms": "1000"}
    kafka = KafkaNode(scratch / "kafka", fetch_jars(), jvm=BROKER_JVM, settings=settings)
    try:
        for name in {CASES[case][side] for case in options.cases for side in (0, 1)}:
            write_input(name, scratch / name, options.records)
        kafka.start()
        targets = [target for name in options.cases for target in run_case(name, kafka, options, scratch)]
    finally:
        kafka.kill()
        shutil.rmtree(scratch, ignore_errors=True)
    for what, found, reached in targets:
        print(f"- {'reached' if reached else 'MISSED '}: {what} (measured {found:.2f})")
    return 0 if all(reached for _, _, reached in targets) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
