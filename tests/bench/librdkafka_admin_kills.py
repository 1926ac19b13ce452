"""librdkafka's admin client asks while brokers are killed: `python -m tests.bench.librdkafka_admin_kills KIND`.

KIND is `kcli` or `apache`: a controller and three brokers of that kind. Each run starts a process that asks for offsets
again and again, kills brokers in turn with kill -9, and reports how the process ended. A negative status is a signal:
a crash of librdkafka. With confluent-kafka 2.16.1 the requests of groups end with -6 (an assertion of librdkafka about
its timers) in each run, on brokers of both kinds, and the offsets of topics in none.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.interop.cluster.nodes import KINDS, MixedCluster
from tests.real_kafka import fetch_jars

TOPICS = {"both-1": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "both-2": [[1], [2], [3]]}

ASKING = """
import select, sys
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

servers, request = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
names = [TopicPartition(f"both-{topic}", number) for topic in (1, 2) for number in range(3)]
answers = errors = 0

def futures():
    if request == "offsets":
        return [*admin.list_offsets({name: OffsetSpec.latest() for name in names}, request_timeout=3).values()]
    groups = [ConsumerGroupTopicPartitions("lister", names)]
    offsets = admin.list_consumer_group_offsets(groups, request_timeout=3).values()
    return [admin.list_consumer_groups(request_timeout=3), *offsets]

while not select.select([sys.stdin], [], [], 0.2)[0]:
    try:
        for future in futures():
            future.result(10)
            answers += 1
    except Exception:
        errors += 1
print(answers, "answers,", errors, "errors")
"""


def run(cluster: MixedCluster, request: str, kills: int, chance: random.Random) -> tuple[int, str]:
    """Return the exit status of the process that asks, and the last line that it has written."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING, cluster.bootstrap_servers, request],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for _ in range(kills):
        node = cluster.nodes[chance.choice(list(cluster.nodes))]
        time.sleep(chance.uniform(0.5, 2.0))
        node.kill()
        time.sleep(chance.uniform(0.5, 5.0))
        node.start()
        node.wait_until_ready()
        if process.poll() is not None:
            break
    written, _ = process.communicate("\n", timeout=60)
    return process.returncode, (written.splitlines() or [""])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--request", choices=("groups", "offsets"), default="groups")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10, help="kills of a broker in a run")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    endings: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="kcli-admin-kills-") as scratch:
        cluster = MixedCluster(Path(scratch), fetch_jars(), options.kind, [options.kind] * 3)
        try:
            cluster.start()
            for name, placement in TOPICS.items():
                cluster.create_placed_topic(name, placement)
            for number in range(options.runs):
                status, line = run(cluster, options.request, options.kills, chance)
                endings[status] += 1
                print(f"run {number + 1}: status {status}: {line}", flush=True)
        finally:
            cluster.kill()
    print(f"{options.kind}: runs by exit status {dict(endings)}")


if __name__ == "__main__":
    main()
