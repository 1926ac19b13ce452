"""Reading a topic in Spark with format kcli and with Spark's own connector, in turn, in one session on one real broker.

    python -m tests.bench.spark [--runs 5] [--records 5000000] [--codec none lz4] [--tasks count,...]
    python -m tests.bench.spark --small [--runs 5] [--connector]
    python -m tests.bench.spark --start [--runs 5]

Records have 16-byte keys and 100-byte values, in 2 partitions. Each format runs every task once as a warm-up; then the
formats take turns. It prints the medians with the ratio connector : kcli (above 1: kcli is faster). Each pass is a new
load(), so planning counts. The row counts of both must be right, or the bench fails. It also prints how much faster
view=batches sums up the records than counting them, and the time of an export's --dry-run.

With --small, a million records in 200 partitions are counted instead: by kcli, and with --connector once by the
connector, which has a task for each partition and takes about a minute. With --start, `kcli spark doctor` is run with a
class archive and without, in turn.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tabulate import tabulate

from kcli.spark.deploy.session import close_session, open_session
from tests.real_kafka import KafkaNode, fetch_jars
from tests.spark.connector import connector_jars, releases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parent.parent.parent
PARTITIONS = 2
SMALL_RECORDS, SMALL_PARTITIONS = 1_000_000, 200
BROKER_JVM = ("-Xms512m", "-Xmx1g")
KCLI, CONNECTOR = "kcli", "kafka"
THREE = "partition,offset,timestamp"
CONF = {
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "",  # the JVM as it is by itself, with its better compiler
    "spark.sql.shuffle.partitions": "4",
}


class Topic(NamedTuple):
    """The topic to read, and the session that reads it."""

    spark: SparkSession
    bootstrap_servers: str
    name: str
    records: int
    scratch: Path

    def load(self, format: str, **more: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": self.name, **more}
        return self.spark.read.format(format).options(**options).load()


# ---- the tasks: each returns how many records it has seen, None if Spark does not tell ----


def count(topic: Topic, format: str) -> int | None:
    return topic.load(format).count()


def three_columns(topic: Topic, format: str) -> int | None:
    """Read all values of three columns. Spark prunes columns for neither format; kcli has an option."""
    from pyspark.sql import functions as f

    frame = topic.load(format, columns=THREE) if format == KCLI else topic.load(format).select(*THREE.split(","))
    return _only(frame.agg(f.count("offset"), f.max("timestamp"), f.sum("partition")))


def noop(topic: Topic, format: str) -> int | None:
    topic.load(format).write.format("noop").mode("overwrite").save()
    return None


def parquet(topic: Topic, format: str) -> int | None:
    folder = topic.scratch / "parquet"
    shutil.rmtree(folder, ignore_errors=True)
    topic.load(format).write.parquet(str(folder))
    return None


TASKS: dict[str, tuple[str, Callable[[Topic, str], int | None], float]] = {
    "count": ("count()", count, 2.0),
    "three": ("three columns", three_columns, 2.0),
    "noop": ("noop sink", noop, 2.0),
    "parquet": ("Parquet, snappy", parquet, 2.0),
}


def by_batches(topic: Topic) -> int:
    """Return the number of records from batch headers alone."""
    from pyspark.sql import functions as f

    return int(_only(topic.load(KCLI, view="batches", columns="count").agg(f.sum("count"))) or 0)


def by_offset(topic: Topic) -> int:
    """Run count() with the cheapest column."""
    return topic.load(KCLI, columns="offset").count()


def _only(frame: DataFrame) -> Any:
    return frame.collect()[0][0]


# ---- measuring ----


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def run_pass(topic: Topic, task: str, format: str) -> float:
    """Return the seconds of one pass; its result is checked outside the measured time."""
    seconds, found = timed(lambda: TASKS[task][1](topic, format))
    if task == "parquet":
        found = topic.spark.read.parquet(str(topic.scratch / "parquet")).count()
        shutil.rmtree(topic.scratch / "parquet")
    if found is not None and found != topic.records:
        raise SystemExit(f"{task} by {format} saw {found} records of {topic.records}")
    return seconds


def compare(topic: Topic, task: str, runs: int) -> list[str]:
    """Return a row of the table."""
    label, _, wanted = TASKS[task]
    seconds: dict[str, list[float]] = {KCLI: [], CONNECTOR: []}
    for number in range(runs + 1):
        for format in (KCLI, CONNECTOR) if number % 2 else (CONNECTOR, KCLI):
            took = run_pass(topic, task, format)
            if number:  # the first one is the warm-up
                seconds[format].append(took)
    medians = {format: statistics.median(all_of) for format, all_of in seconds.items()}
    ratio = medians[CONNECTOR] / medians[KCLI]
    reached = f"{wanted}x {'reached' if ratio >= wanted else 'NOT REACHED'}"
    return [label, *(_shown(seconds[format]) for format in (KCLI, CONNECTOR)), f"{ratio:.2f}x", reached]


def shortcuts(topic: Topic, runs: int) -> list[list[str]]:
    """Measure what only kcli has, beside counting records with kcli."""
    ways: dict[str, Callable[[], int]] = {
        "count()": lambda: count(topic, KCLI) or 0,
        "count(), columns=offset": lambda: by_offset(topic),
        "sum(count), view=batches": lambda: by_batches(topic),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(runs + 1):
        for name, way in ways.items():
            took, found = timed(way)
            if found != topic.records:
                raise SystemExit(f"{name} saw {found} records of {topic.records}")
            if number:
                seconds[name].append(took)
    counting = statistics.median(seconds["count()"])
    return [[name, _shown(all_of), f"{counting / statistics.median(all_of):.1f}x"] for name, all_of in seconds.items()]


def small_partitions(topic: Topic, runs: int, *, connector: bool) -> list[list[str]]:
    """Measure `count()` and view=batches over many small partitions."""
    tasks = topic.load(KCLI).rdd.getNumPartitions()
    ways: dict[str, tuple[Callable[[], int | None], float]] = {
        f"count(), {tasks} tasks": (lambda: count(topic, KCLI), 2.5),
        "sum(count), view=batches": (lambda: by_batches(topic), 1.5),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(runs + 1):
        for name, (way, _) in ways.items():
            took, found = timed(way)
            if found != topic.records:
                raise SystemExit(f"{name} saw {found} records of {topic.records}")
            if number:
                seconds[name].append(took)
    rows = []
    for name, (_, most) in ways.items():
        reached = statistics.median(seconds[name]) <= most
        rows.append([name, _shown(seconds[name]), f"at most {most} s {'reached' if reached else 'NOT REACHED'}"])
    if connector:
        took, found = timed(lambda: count(topic, CONNECTOR))
        rows.append([f"count() by the connector, {SMALL_PARTITIONS} tasks", f"{took:.2f} (one run)", ""])
        if found != topic.records:
            raise SystemExit(f"the connector saw {found} records of {topic.records}")
    return rows


def start_up(bootstrap_servers: str, runs: int, scratch: Path) -> list[list[str]]:
    """Measure `kcli spark doctor`, whose parts are a session and two small jobs, with a class archive and without."""
    command = [sys.executable, "-m", "kcli", "spark", "doctor", "--bootstrap-server", bootstrap_servers]
    caches = {"without the class archive": scratch / "without", "with the class archive": scratch / "with"}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in caches}

    def once(cache: Path, *more: str) -> tuple[float, float]:
        environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        before = os.times()
        subprocess.run(
            [*command, *more], stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environ, cwd=ROOT
        )
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return after.elapsed - before.elapsed, cpu

    once(caches["without the class archive"])
    once(caches["with the class archive"], "--class-archive")
    for _ in range(runs):
        for name, cache in caches.items():
            measured[name].append(once(cache))
    return [[name, *(_shown([*column]) for column in zip(*both, strict=True))] for name, both in measured.items()]


def dry_run(topic: Topic, runs: int) -> str:
    """Return the seconds of `kcli spark export --dry-run` as a process."""
    command = [sys.executable, "-m", "kcli", "spark", "export", topic.name, "--to", str(topic.scratch / "out")]
    command += ["--bootstrap-server", topic.bootstrap_servers, "--dry-run"]

    def once() -> None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=ROOT)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")

    once()
    return _shown([timed(once)[0] for _ in range(runs)])


def _shown(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


# ---- the load ----


def produce(bootstrap_servers: str, topic: str, codec: str, records: int, partitions: int) -> None:
    """Write record i to partition i % partitions, in batches of 16 KiB as Java's producer makes them."""
    from confluent_kafka import Producer

    settings = {"batch.size": 16384, "linger.ms": 20, "queue.buffering.max.messages": 200_000}
    producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": codec, **settings})
    text = "".join(random.Random(20261121).choices("0123456789abcdef", k=100_000)).encode()
    for i in range(records):
        start = i * 7919 % 99_900
        while True:
            try:
                producer.produce(topic, text[start : start + 100], key=b"key-%012d" % i, partition=i % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if i % 1000 == 0:
            producer.poll(0)
    if unsent := producer.flush(300):
        raise SystemExit(f"{unsent} records were not written to {topic}")


def options_from(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spark", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--codec", nargs="+", default=["none", "lz4"])
    parser.add_argument("--tasks", type=lambda names: names.split(","), default=list(TASKS), help="a,b of these tasks")
    parser.add_argument("--small", action="store_true", help="many small partitions instead of two large ones")
    parser.add_argument("--connector", action="store_true", help="with --small: also by the connector, once")
    parser.add_argument("--start", action="store_true", help="the start of kcli spark doctor")
    parser.add_argument("--scratch", type=Path, help="a folder for the broker and the outputs (2 GB)")
    options = parser.parse_args(arguments)
    if unknown := set(options.tasks) - set(TASKS):
        parser.error(f"unknown task {', '.join(unknown)}: there are {', '.join(TASKS)}")
    return options


def run_codec(spark: SparkSession, kafka: KafkaNode, codec: str, options: argparse.Namespace, scratch: Path) -> None:
    """Print the tables of one codec."""
    name = kafka.create_topic(f"bench-{codec}", PARTITIONS)
    produce(kafka.bootstrap_servers, name, codec, options.records, PARTITIONS)
    topic = Topic(spark, kafka.bootstrap_servers, name, options.records, scratch)
    print(f"\n{options.records} records, codec {codec}: seconds, median (min-max) of {options.runs}", flush=True)
    rows = [compare(topic, task, options.runs) for task in options.tasks]
    print(tabulate(rows, headers=["", "kcli", "connector", "ratio", "to reach"]), flush=True)
    print(f"\n{tabulate(shortcuts(topic, options.runs), headers=['kcli alone', 'seconds', 'faster'])}", flush=True)
    print(f"\nkcli spark export --dry-run: {dry_run(topic, options.runs)} s", flush=True)


def run_small(spark: SparkSession, kafka: KafkaNode, options: argparse.Namespace, scratch: Path) -> None:
    """Print the table of many small partitions."""
    name = kafka.create_topic("bench-small", SMALL_PARTITIONS)
    produce(kafka.bootstrap_servers, name, "none", SMALL_RECORDS, SMALL_PARTITIONS)
    topic = Topic(spark, kafka.bootstrap_servers, name, SMALL_RECORDS, scratch)
    rows = small_partitions(topic, options.runs, connector=options.connector)
    print(f"\n{SMALL_RECORDS} records in {SMALL_PARTITIONS} partitions, median (min-max) of {options.runs}")
    print(tabulate(rows, headers=["", "seconds", "to reach"]), flush=True)


def main(arguments: list[str]) -> int:
    options = options_from(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # remove the broker and outputs
    jars = connector_jars()
    scratch = Path(tempfile.mkdtemp(prefix="kcli-bench-", dir=options.scratch))
    kafka = KafkaNode(scratch / "kafka", fetch_jars(), jvm=BROKER_JVM)
    spark = None
    try:
        kafka.start()
        if options.start:
            rows = start_up(kafka.bootstrap_servers, options.runs, scratch)
            print(tabulate(rows, headers=["kcli spark doctor", "wall s", "CPU s"]))
            return 0
        class_path = {"spark.driver.extraClassPath": ":".join(map(str, jars))}
        spark = open_session(master="local[2]", conf={**CONF, **class_path, "spark.local.dir": str(scratch)})
        print(f"Spark {spark.version}, local[2], beside {releases(jars)}; Kafka {kafka.version}")
        if options.small:
            run_small(spark, kafka, options, scratch)
        else:
            for codec in options.codec:
                run_codec(spark, kafka, codec, options, scratch)
    finally:
        if spark is not None:
            close_session(spark)
        kafka.kill()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
