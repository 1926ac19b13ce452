"""A producer that threads share while its broker is killed (-9): `python -m tests.bench.producer_kills`.

Each of the records is stored once, and each future is done once, or AssertionError is raised. It prints a line for each
broker.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.producer.sending_threads import check_over_restarts
from tests.real_kafka import KafkaNode, fetch_jars


def main(threads: int, records: int, kills: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("kcli", "apache"):
            path = Path(folder) / name
            node = BrokerProcess(path) if name == "kcli" else KafkaNode(path, fetch_jars())
            node.start()
            began = time.monotonic()
            try:
                check_over_restarts(node, threads=threads, records=records, kills=kills)
            finally:
                node.kill()
            took_s = time.monotonic() - began
            print(
                f"{name}: {threads} x {records:,} records, {kills} kills, each stored once, {took_s:.0f} s", flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--records", type=int, default=100_000, help="of each thread")
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    main(options.threads, options.records, options.kills)
