"""Three nodes of kcli beside three of Apache Kafka: `python -m tests.bench.cluster [--runs 5]`.

Throughput: librdkafka's idempotent producer writes records of 100 bytes with acks=all to a topic of six partitions with
three replicas and min.insync.replicas=2, in batches of up to 1 MB, its default, and of up to 16 KiB, Java's. Failover:
SIGKILL of a leader, until the next write to its partition is acknowledged; both clusters have the same session timeout.
Start: `kcli broker run --nodes 3` until it prints its addresses, with the proportional memory (PSS) of its processes,
and `EmbeddedCluster` within a Python process.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.interop.cluster.nodes import MixedCluster
from tests.real_kafka import fetch_jars

KINDS = ("kcli", "apache")
PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
COLUMNS = ("records/s, batches of 1 MB", "records/s, batches of 16 KiB", "failover s")
RECORDS = 200_000
VALUE = bytes(range(32, 132))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    print(f"ready, kcli broker run --nodes 3: {_median([_start_of_command() for _ in range(runs)])}")
    print(f"ready, EmbeddedCluster: {_median([_start_of_embedded() for _ in range(runs)])}")
    results: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    for _ in range(runs):
        for kind in KINDS:
            results[kind].append(_measure(kind))
            print(kind, *(f"{value:.2f}" for value in results[kind][-1]), flush=True)
    for column, name in enumerate(COLUMNS):
        of_kind = {kind: [row[column] for row in results[kind]] for kind in KINDS}
        ratio = statistics.median(of_kind["kcli"]) / statistics.median(of_kind["apache"])
        print(f"{name}: kcli {_median(of_kind['kcli'])}, apache {_median(of_kind['apache'])}, ratio {ratio:.2f}")


def _median(values: Any) -> str:
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def _measure(kind: str) -> tuple[float, ...]:
    """Return a value for each of COLUMNS. Only one cluster runs at a time."""
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as scratch:
        cluster = MixedCluster(Path(scratch), fetch_jars(), kind, [kind] * 3)
        try:
            cluster.start()
            topic = cluster.create_placed_topic("bench", PLACEMENT)
            _write(cluster, topic, RECORDS // 5)  # for the JVM's compiler
            rates = [_write(cluster, topic, RECORDS, batch_bytes) for batch_bytes in (1_000_000, 16_384)]
            return (*rates, _fail_over(cluster, topic))
        finally:
            cluster.kill()


def _write(cluster: MixedCluster, topic: str, count: int, batch_bytes: int = 1_000_000) -> float:
    producer = _producer(
        cluster, topic, **{"linger.ms": 10, "batch.size": batch_bytes, "queue.buffering.max.messages": 1_000_000}
    )
    begin = time.perf_counter()
    for number in range(count):
        producer.produce(topic, VALUE, partition=number % len(PLACEMENT))
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return count / (time.perf_counter() - begin)


def _fail_over(cluster: MixedCluster, topic: str) -> float:
    """Kill the leader of partition 0; return the seconds until a record that was sent after that is acknowledged."""
    producer = _producer(cluster, topic, **{"linger.ms": 0, "retry.backoff.ms": 20, "reconnect.backoff.ms": 20})
    acked: list[float] = []

    def on_delivery(error: Any, _: Any) -> None:
        assert error is None, error
        acked.append(time.perf_counter())

    leader = cluster.leaders(topic)[0]
    producer.produce(topic, VALUE, partition=0)
    assert producer.flush(30) == 0
    cluster.nodes[leader].kill()
    killed = time.perf_counter()
    producer.produce(topic, VALUE, partition=0, on_delivery=on_delivery)
    while not acked:
        producer.poll(0.01)
        assert time.perf_counter() - killed < 60, "no record was acknowledged within 60 s"
    return acked[0] - killed


def _producer(cluster: MixedCluster, topic: str, **settings: Any) -> Any:
    from confluent_kafka import Producer

    common = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    producer = Producer({**common, "topic.metadata.refresh.interval.ms": 1000, **settings})
    producer.list_topics(topic, 30)
    return producer


def _start_of_command() -> float:
    """Return the seconds until `kcli broker run --nodes 3` prints its line; print the memory of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kcli", "broker", "run", "--nodes", "3", "--port", "0", "--data-dir", folder]
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline(), "the cluster did not start"
            seconds = time.perf_counter() - begin
            print(f"memory of the processes: {_pss_mb(process.pid):.0f} MB", flush=True)
            process.terminate()
        return seconds


def _pss_mb(pid: int) -> float:
    """Return the proportional set size of a process and its children, in MB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000
    return own + sum(_pss_mb(int(child)) for child in children)


def _start_of_embedded() -> float:
    """Return the seconds until an EmbeddedCluster of three nodes serves, in a process that has imported it."""
    from kcli.broker.testing.embedded_cluster import EmbeddedCluster

    begin = time.perf_counter()
    with EmbeddedCluster(nodes=3):
        return time.perf_counter() - begin


if __name__ == "__main__":
    main()
