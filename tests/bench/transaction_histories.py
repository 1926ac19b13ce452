"""Random histories of transactions, read by four clients: `python -m tests.bench.transaction_histories`.

Arguments: histories, 100 by default; `kcli` or `apache`; and the kills of the broker in 20 histories, 4 by default. It
prints a line for each group of 20; a reader that differs from the truth raises AssertionError: see
`tests.interop.transactions.histories`. Kafka 4.3.1 does not pass with kills: see README.md beside this file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from kcli.spark.deploy.session import close_session, open_session
from tests.broker_process import BrokerProcess
from tests.interop.transactions import readers
from tests.interop.transactions.histories import Histories
from tests.real_kafka import KafkaNode, OwnBroker, fetch_jars

_TOGETHER, _STEPS = 20, 60


def main(count: int, name: str, kills: int) -> None:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "spark.log").open("w+b") as noise:
        broker: OwnBroker
        if name == "kcli":
            broker = BrokerProcess(Path(folder) / "kcli-broker")
        else:
            broker = KafkaNode(Path(folder) / "kafka", fetch_jars())
        session = open_session(master="local[1]", conf={}, app_name="histories", jvm_output=noise)
        clients = {
            "kcli": readers.by_kcli,
            "kcat": readers.by_kcat,
            "java": readers.by_java,
            "spark": readers.BySpark(session),
        }
        broker.start()
        try:
            for seed in range(-(-count // _TOGETHER)):
                began = time.monotonic()
                histories = Histories(broker, min(_TOGETHER, count - seed * _TOGETHER), seed=seed)
                histories.tell(_STEPS, kills=kills)
                account = histories.check(clients, readers.by_kcli)
                print(f"{name}: {account} in {time.monotonic() - began:.0f} s", flush=True)
        finally:
            broker.kill()
            close_session(session)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", type=int, nargs="?", default=100)
    parser.add_argument("broker", nargs="?", default="kcli", choices=("kcli", "apache"))
    parser.add_argument("kills", type=int, nargs="?", default=4)
    options = parser.parse_args()
    main(options.histories, options.broker, options.kills)
