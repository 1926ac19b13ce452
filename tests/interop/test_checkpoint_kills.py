"""`kcli consume --checkpoint` killed (-9) many times: the output file has every record exactly once."""

from __future__ import annotations

from pathlib import Path

from tests.interop.checkpoint_kills import run
from tests.real_kafka import OwnBroker

ROUNDS = 20


def test_kills_lose_and_double_nothing(our_kafka: OwnBroker, tmp_path: Path) -> None:
    """`python -m tests.bench.checkpoint_kills` runs 200 rounds each, also with --merge, on Apache's broker too."""
    account = run(our_kafka, tmp_path, rounds=ROUNDS, longest_s=0.15)
    assert account.silent < ROUNDS / 2
    assert account.cut > 0
    assert account.printed > ROUNDS * 50
