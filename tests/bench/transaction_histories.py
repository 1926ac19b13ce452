"""Random histories of transactions, read by four clients: `python -m tests.bench.transaction_histories`.

Arguments: histories, 100 by default, and `kcli` or `apache`. It prints a line for each group of histories; a reader
that differs from the truth raises AssertionError: see `tests.interop.transactions.histories`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from kcli.spark.session import close_session, open_session
from tests.broker_process import BrokerProcess
from tests.interop.transactions import readers
from tests.interop.transactions.histories import Histories
from tests.real_kafka import KafkaNode, OwnBroker, fetch_jars

_TOGETHER, _STEPS, _KILLS = 20, 60, 4


def main(count: int, name: str) -> None:
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
                histories.tell(_STEPS, kills=_KILLS)
                account = histories.check(clients, readers.by_kcli)
                print(f"{name}: {account} in {time.monotonic() - began:.0f} s", flush=True)
        finally:
            broker.kill()
            close_session(session)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else "kcli")
