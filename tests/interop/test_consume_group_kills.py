"""`kcli consume --group` killed (-9) fifty times: every record is printed at least once, none is skipped."""

from __future__ import annotations

from pathlib import Path

from tests.interop.consume_kills import run
from tests.real_kafka import OwnBroker

ROUNDS = 50


def test_fifty_kills_skip_nothing(our_kafka: OwnBroker, tmp_path: Path) -> None:
    """A static member need not wait for its own dead predecessor (KIP-345).

    `python -m tests.bench.consume_group_kills` also uses Apache's broker and a dynamic member.
    """
    account = run(our_kafka, tmp_path, "--instance-id", "phoenix", rounds=ROUNDS, longest_s=0.15)
    assert account.silent < ROUNDS / 2
    assert account.produced > ROUNDS * 50
