"""Our broker under transactional load of librdkafka and kcli, killed (-9): nothing is lost, split or visible too early.

`python -m tests.bench.transaction_kills` has 300 rounds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.transaction_kills import BROKER, TransactionKills
from tests.real_kafka import OwnBroker

pytestmark = pytest.mark.slow

ROUNDS = 4


def test_kills_amid_transactions(broker_process: Callable[..., OwnBroker]) -> None:
    broker = broker_process(**BROKER)
    kills = TransactionKills(broker.bootstrap_servers)

    def kill() -> None:
        broker.kill()
        broker.start()

    try:
        kills.leave_open()
        for _ in range(ROUNDS):
            kills.round(kill)
        account = kills.finish()
    finally:
        kills.close()
    assert account.kills == ROUNDS
    assert account.committed > ROUNDS
