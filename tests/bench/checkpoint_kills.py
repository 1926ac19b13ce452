"""`kcli consume --checkpoint` killed (-9) at random moments: `python -m tests.bench.checkpoint_kills`.

Two hundred rounds each of a follower and of one with --merge, on kcli's broker and on Apache's. Arguments: rounds, then
some of kcli and apache. It prints a line for each; a record that the output file lacks or has twice raises
AssertionError.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.interop.checkpoint_kills import run
from tests.real_kafka import Kafka, KafkaNode, OwnBroker, fetch_jars

OPTIONS = {"follow": (), "merge": ("--merge",)}
BROKERS = ("kcli", "apache")


def main(rounds: int, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for broker in names:
            kafka = _start(broker, Path(folder), stack)
            for name, options in OPTIONS.items():
                files = Path(folder) / f"{broker}-{name}"
                files.mkdir()
                began = time.monotonic()
                account = run(kafka, files, *options, rounds=rounds, longest_s=0.7)
                print(f"{broker} {name}: {account} in {time.monotonic() - began:.0f} s", flush=True)


def _start(broker: str, folder: Path, stack: ExitStack) -> Kafka:
    node: OwnBroker
    node = BrokerProcess(folder / "kcli") if broker == "kcli" else KafkaNode(folder / "kafka", fetch_jars())
    node.start()
    stack.callback(node.kill)
    return node


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=200)
    parser.add_argument("brokers", nargs="*", choices=BROKERS, help="default: kcli apache")
    options = parser.parse_args()
    main(options.rounds, options.brokers or list(BROKERS))
