"""A broker under transactional load killed (-9) again and again: `python -m tests.bench.transaction_kills`.

Arguments: rounds, 300 by default, and what is killed: `kcli` or `apache` (one broker), `cluster` (a node of three of
ours), or `mixed` (a node of one of Apache Kafka's and two of ours, with Apache's controller). It prints a line; a fault
raises AssertionError: see `tests.interop.transaction_kills`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.interop.cluster import nodes
from tests.interop.transaction_kills import BROKER, OUTPUT, TransactionKills
from tests.real_kafka import Kafka, KafkaNode, OwnBroker, fetch_jars

_ROUNDS_PER_ORPHAN = 10
_CLUSTERS = {"cluster": ("kcli", ("kcli", "kcli", "kcli")), "mixed": ("apache", ("apache", "kcli", "kcli"))}
_PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@contextmanager
def _one(folder: Path, name: str) -> Iterator[tuple[Kafka, Callable[[], None]]]:
    """Yield a broker, and a function that kills it and starts it again."""
    broker: OwnBroker
    if name == "kcli":
        broker = BrokerProcess(folder, settings=BROKER)
    else:
        broker = KafkaNode(folder, fetch_jars(), settings=BROKER)

    def kill() -> None:
        broker.kill()
        broker.start()

    broker.start()
    try:
        yield broker, kill
    finally:
        broker.kill()


@contextmanager
def _three(folder: Path, name: str) -> Iterator[tuple[Kafka, Callable[[], None]]]:
    """Yield a cluster, and a function that kills one of its nodes, and starts it again a few seconds later."""
    nodes.SETTINGS.update(BROKER)
    cluster = nodes.MixedCluster(folder, fetch_jars(), *_CLUSTERS[name])
    chance = random.Random(1)

    def kill() -> None:
        node = cluster.nodes[chance.choice(list(cluster.nodes))]
        node.kill()
        time.sleep(chance.uniform(0, 5))
        node.start()
        cluster.until(lambda: cluster.is_in_sync(OUTPUT), "all replicas are in sync", 60)

    try:
        cluster.start()
        for topic in ("__consumer_offsets", "__transaction_state"):
            cluster.create_placed_topic(topic, _PLACEMENT, cleanup_policy="compact")
        yield cluster, kill
    finally:
        cluster.kill()


def main(rounds: int, name: str) -> None:
    is_cluster = name in _CLUSTERS
    with tempfile.TemporaryDirectory() as folder, (_three if is_cluster else _one)(Path(folder) / name, name) as found:
        target, kill = found
        kills = TransactionKills(target.bootstrap_servers, replication=3 if is_cluster else 1)
        try:
            began = time.monotonic()
            for number in range(rounds):
                kills.round(kill)
                if number % _ROUNDS_PER_ORPHAN == 0:
                    kills.leave_open()
            print(f"{name}: {kills.finish()} in {time.monotonic() - began:.0f} s", flush=True)
        finally:
            kills.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=300)
    parser.add_argument("killed", nargs="?", default="kcli", choices=("kcli", "apache", *_CLUSTERS))
    options = parser.parse_args()
    main(options.rounds, options.killed)
