"""Kafka Streams and Kafka Connect, exactly once, killed while they run.

    python -m tests.bench.exactly_once_kills streams|connect [--rounds 30] [--apache]

streams: each round kills a word count with exactly_once_v2 by SIGKILL; every fourth kills the broker, too, and every
fifth removes the application's state directory. The output must be exact (`tests.interop.transactions.word_count`).
connect: each round kills the worker that has the task of an exactly-once source, one of two. Each line must be in the
topic once, in order (`tests.interop.transactions.connect`). The suite has short forms of both. `--apache` uses Apache's
broker.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.interop.transactions.connect import ConnectSoak
from tests.interop.transactions.word_count import WordCountSoak
from tests.real_kafka import KafkaNode, OwnBroker, fetch_jars

SOAKS = {"streams": WordCountSoak, "connect": ConnectSoak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("application", choices=SOAKS)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--apache", action="store_true", help="use Apache's broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kcli-soak-") as scratch:
        folder = Path(scratch)
        broker: OwnBroker = (
            KafkaNode(folder / "broker", fetch_jars()) if options.apache else BrokerProcess(folder / "broker")
        )
        begin = time.monotonic()
        broker.start()
        soak = SOAKS[options.application](broker, folder, seed=options.seed)
        try:
            print(soak.run(options.rounds), f"{time.monotonic() - begin:.0f} s")
        finally:
            soak.close()
            broker.kill()


if __name__ == "__main__":
    main()
