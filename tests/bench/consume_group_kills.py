"""`kcli consume --group` killed (-9) at random moments on Apache's broker: `python -m tests.bench.consume_group_kills`.

Fifty rounds each as a static member, as a dynamic member (its dead predecessor must time out first), and as a KIP-848
member. Arguments: rounds, then some of the three names. It prints a line for each; a skipped record raises
AssertionError.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.interop.consume_kills import run
from tests.real_kafka import KafkaNode, fetch_jars

MANNERS = {
    "static": ("--instance-id", "phoenix"),
    "dynamic": ("-X", "session.timeout.ms=1000", "-X", "heartbeat.interval.ms=200"),
    "next-generation": ("--protocol", "consumer"),
}
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}


def main(rounds: int, manners: dict[str, tuple[str, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        node = KafkaNode(Path(folder) / "kafka", fetch_jars(), settings=SETTINGS)
        node.start()
        try:
            for name, options in manners.items():
                files = Path(folder) / name.replace(" ", "-")
                files.mkdir()
                began = time.monotonic()
                account = run(node, files, *options, rounds=rounds, longest_s=1.0)
                print(f"{name}: {account} in {time.monotonic() - began:.0f} s", flush=True)
        finally:
            node.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=50)
    parser.add_argument("members", nargs="*", choices=MANNERS, help="default: all")
    options = parser.parse_args()
    main(options.rounds, {name: MANNERS[name] for name in options.members} or MANNERS)
