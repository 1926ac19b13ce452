"""The cost of a reset of many partitions: `python -m tests.bench.offsets [--partitions N] [--rounds N]`.

A group with commits on 1,000 partitions of our broker, ten records in each: CPU seconds of `kcli offsets reset` as a
dry run and with --execute, in both directions, and of `kcli offsets export`. It prints medians and the target.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from kcli.admin.offsets.commits import commit_offsets
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.bench.groups import median, report, run, verdict
from tests.broker_process import BrokerProcess
from tests.interop.process import ROOT

RECORDS = 10
GROUP = "billing"
CPU_TARGET_S = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ.update(XDG_STATE_HOME=str(Path(name) / "state"), PYTHONPATH=str(ROOT))
        broker = BrokerProcess(Path(name) / "ours")
        broker.start()
        try:
            fill(broker, options.partitions)
            measured = run(commands(broker.bootstrap_servers), options.rounds, Path(name))
        finally:
            broker.kill()
    print(f"{options.partitions} partitions on kcli's broker")
    report(measured)
    worst_s = max(median(runs, "cpu_s") for runs in measured.values())
    print(f"  target: {CPU_TARGET_S:.1f} s of CPU, {verdict(worst_s < CPU_TARGET_S)}")


def commands(bootstrap: str) -> dict[str, list[str]]:
    def kcli(*words: str) -> list[str]:
        return [sys.executable, "-m", "kcli", "offsets", *words, "-b", bootstrap]

    reset = ("reset", GROUP, "--all-topics")
    return {
        "reset, dry run": kcli(*reset, "--to-earliest"),
        "reset, as json": kcli(*reset, "--to-earliest", "--output", "json"),
        "reset --execute": kcli(*reset, "--to-earliest", "--execute"),
        "reset by time --execute": kcli(*reset, "--by-duration", "0s", "--if-no-record", "end", "--execute"),
        "undo --last --execute": kcli("undo", "--last", "--execute"),
        "export": kcli("export", GROUP),
    }


def fill(broker: BrokerProcess, partitions: int) -> None:
    topic = broker.new_topic(partitions, prefix="bench")
    producer = broker.ordered_producer()
    for partition in range(partitions):
        for number in range(RECORDS):
            producer.produce(topic, b"x" * 100, b"key %d" % number, partition=partition)
    producer.flush(60)
    offsets = {
        TopicPartition(topic, number): OffsetAndMetadata(RECORDS // 2, 0, "note") for number in range(partitions)
    }
    with connect(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap_servers})) as client:
        codes = commit_offsets(client, GROUP, offsets, client.clock.now_ms() + 60_000)
    assert not any(codes.values()), codes


if __name__ == "__main__":
    main()
