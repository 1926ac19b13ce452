"""`kcli offsets reset --execute` killed (-9) thirty times over 200 partitions: undo restores all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.offset_kills import run
from tests.real_kafka import OwnBroker

pytestmark = pytest.mark.slow

ROUNDS = 30


def test_thirty_kills_are_undone_exactly(our_kafka: OwnBroker, tmp_path: Path) -> None:
    """`python -m tests.bench.offset_kills` also uses Apache's broker."""
    account = run(our_kafka, tmp_path, rounds=ROUNDS)
    assert sum(account) == ROUNDS
    assert account.nothing + account.part + account.all  # some came between the snapshot and the end
