"""Three nodes of kcli under load, with faults: `python -m tests.bench.cluster_kills [--rounds 100] [--seed N]`.

Faults in turn: kill -9 of a node, SIGSTOP for longer than its session, a cut of the network to a node, a full disk, and
kill -9 of the controller and a node together. Faults of the cluster: see `tests.interop.cluster.kill_soak`. The suite
runs a round of each: tests/interop/cluster/test_kill_soak.py.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.interop.cluster.kill_soak import PLACEMENT, KillSoak
from tests.real_kafka import fetch_jars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="keep the data of the nodes in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kcli-kills-") as scratch:
        soak = KillSoak(options.keep or Path(scratch), fetch_jars(), seed=options.seed)
        begin = time.monotonic()
        try:
            soak.start()
            for number in range(options.rounds):
                fault, node = (
                    soak.faults[number % len(soak.faults)],
                    soak.random.choice([*range(1, len(PLACEMENT) + 1)]),
                )
                print(f"{time.monotonic() - begin:6.1f} s  {number + 1}: {fault.__name__} {node}", flush=True)
                soak.round(fault, node)
            print(soak.finish())
        finally:
            soak.close(keep=options.keep is not None)


if __name__ == "__main__":
    main()
