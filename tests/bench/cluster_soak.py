"""Three real Kafka nodes killed, rolled and stopped under kcli's clients: `python -m tests.bench.cluster_soak`.

Three groups (range, cooperative-sticky and KIP-848) read. The nodes get six kill -9, elections of preferred leaders, a
reassignment, a roll and stops (SIGSTOP) of 17 s, and one member of each group is killed. Faults: see
`tests.interop.cluster_soak`. `--short`: two kills, no roll. `--keep FOLDER` keeps what was printed. The suite runs a
shorter one: tests/interop/test_cluster_soak.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from kcli.errors import KcliError
from tests.interop.cluster_soak import SETTINGS, Soak
from tests.real_kafka import fetch_jars
from tests.real_kafka_cluster import KafkaCluster

STOP_S = 17.0
COORDINATORS = [[2, 3, 1], [3, 1, 2], [1, 2, 3], [2, 1, 3]]
GROUPS = {
    "eager": ("-X", "partition.assignment.strategy=range"),
    "cooperative": ("-X", "partition.assignment.strategy=cooperative-sticky"),
    "next-generation": ("--protocol", "consumer"),
}


def main(folder: Path, *, short: bool) -> None:
    """Run the soak with its files in `folder`."""
    cluster = KafkaCluster(folder / "cluster", fetch_jars(), 3, SETTINGS, COORDINATORS)
    soak = None
    try:
        cluster.start()
        soak = Soak(cluster, folder, GROUPS)
        soak.start()
        time.sleep(10)
        soak.rest(partial(time.sleep, 15))
        for number in (2, 3) if short else (2, 3, 1):
            soak.kill(number, partial(time.sleep, 4))
        soak.crash_members()
        soak.reassign()
        soak.freeze(2, partial(time.sleep, STOP_S))
        if not short:
            time.sleep(50)  # the groups remove the killed members after session.timeout.ms
            soak.roll()
            for number in (3, 1, 2):
                soak.kill(number, partial(time.sleep, 8))
            soak.freeze(1, partial(time.sleep, STOP_S))
            soak.rest(partial(time.sleep, 20))
        soak.finish()
    except KcliError as error:
        raise AssertionError(f"kcli failed: {error}") from error
    finally:
        if soak is not None:
            soak.close()
        cluster.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster_soak", description=__doc__)
    parser.add_argument("--short", action="store_true", help="two kills, no roll")
    parser.add_argument("--keep", type=Path, help="keep what the readers printed in this folder")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        main(given.keep, short=given.short)
    else:
        with tempfile.TemporaryDirectory(prefix="kcli-soak-") as scratch:
            main(Path(scratch), short=given.short)
    sys.exit(0)
