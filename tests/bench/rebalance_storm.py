"""A long rebalance storm: members of kcli, confluent-kafka and Java in one group, then a check of every record.

    python -m tests.bench.rebalance_storm [--minutes 10] [--broker ours,apache] [--assignor range,cooperative-sticky]
        [--protocol classic | consumer | classic,consumer] [--makers kcli,confluent,java] [--static] [--crashes]
        [--seed 1]

The minutes are divided among the combinations. It fails with the reason: a record that no member processed, a record
processed after its partition was revoked and committed by another member, a commit that should have been refused, or a
group that did not become stable. A KIP-848 group needs Apache's broker.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from tests.broker_process import BrokerProcess
from tests.interop.groups.storm import Rest, Storm
from tests.interop.groups.storm_account import Account
from tests.real_kafka import KafkaNode, OwnBroker, fetch_jars


def started(name: str, scratch: Path) -> OwnBroker:
    make = BrokerProcess if name == "ours" else KafkaNode
    broker = make(scratch / name, fetch_jars())
    broker.start()
    return broker


def fight(
    broker: OwnBroker, assignor: str, seconds: float, seed: int, options: argparse.Namespace
) -> tuple[Account, list[Rest]]:
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"  {time.monotonic() - began:6.1f} {what}", file=sys.stderr, flush=True)

    def crash() -> None:
        broker.kill()
        broker.start()

    storm = Storm(
        broker,
        assignor=assignor,
        seed=seed,
        makers=options.makers.split(","),
        protocols=options.protocol.split(","),
        instance_ids=("one", "two", "three") if options.static else (),
        session_ms=6_000,
        most=6,
        crash=crash if options.crashes else None,
        tell=tell,
    )
    with storm:
        storm.begin()
        storm.run(seconds)
        return storm.finish(strict=frozenset(options.strict.split(","))), storm.rests


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rebalance_storm", description="Rebalances under fire.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--broker", default="ours,apache")
    parser.add_argument("--assignor", default="range,cooperative-sticky")
    parser.add_argument("--protocol", default="classic")
    parser.add_argument("--makers", default="kcli,confluent,java")
    parser.add_argument("--static", action="store_true", help="half of the members are static ones")
    parser.add_argument("--strict", default="kcli", help="makers whose members may not even be stale after a stop")
    parser.add_argument("--crashes", action="store_true", help="the broker is killed now and then, too")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # remove brokers and files
    pairs = list(itertools.product(options.broker.split(","), options.assignor.split(",")))
    rows: list[list[str]] = []
    for number, (name, assignor) in enumerate(pairs):
        scratch = Path(tempfile.mkdtemp(prefix="kcli-storm-"))
        broker = started(name, scratch)
        try:
            account, rests = fight(broker, assignor, options.minutes * 60 / len(pairs), options.seed + number, options)
        finally:
            broker.kill()
            shutil.rmtree(scratch, ignore_errors=True)
        took = [rest.took_s for rest in rests]
        stale = ", ".join(f"{count} {maker}" for maker, count in sorted(account.stale.items())) or "none"
        numbers = (account.members, account.records, account.repeated, account.commits, account.commits_failed)
        shown = [f"{number:,}" for number in numbers]
        times = [f"{statistics.median(took):.1f}", f"{max(took):.1f}"]
        rows.append([name, assignor, str(len(rests)), *shown, stale, *times])
    headers: tuple[str, ...] = ("broker", "assignor", "blows", "members", "records", "repeated", "commits", "refused")
    headers += ("stale after a stop", "rest after s", "at most")
    print(tabulate(rows, headers, tablefmt="github", disable_numparse=True))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
