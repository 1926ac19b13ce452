"""`kcli offsets reset --execute` killed (-9) at random moments, on both brokers: `python -m tests.bench.offset_kills`.

Argument: rounds, 30 by default. It prints a line for each broker; an offset that undo does not restore raises
AssertionError.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.interop.offset_kills import run
from tests.real_kafka import KafkaNode, OwnBroker, fetch_jars


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        brokers: dict[str, OwnBroker] = {
            "kcli": BrokerProcess(Path(folder) / "kcli-broker"),
            "apache": KafkaNode(Path(folder) / "kafka", fetch_jars()),
        }
        for name, broker in brokers.items():
            files = Path(folder) / name
            files.mkdir()
            broker.start()
            try:
                began = time.monotonic()
                account = run(broker, files, rounds=rounds)
                print(f"{name}: {account} in {time.monotonic() - began:.0f} s", flush=True)
            finally:
                broker.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=30)
    main(parser.parse_args().rounds)
