"""Random histories of transactions: read_committed by kcli, kcat, Java and Spark equals the truth, on both brokers.

`python -m tests.bench.transaction_histories` tells a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.conftest import BOTH
from tests.interop.transactions import readers
from tests.interop.transactions.histories import Histories
from tests.real_kafka import Kafka, OwnBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.usefixtures("kcat")
def test_all_readers_see_exactly_the_committed_records(
    which: str, request: pytest.FixtureRequest, broker_process: Callable[..., OwnBroker], spark: SparkSession
) -> None:
    kafka: Kafka = broker_process() if which == "kcli" else request.getfixturevalue("real_kafka")
    histories = Histories(kafka, 3, seed=1)
    histories.tell(40, kills=2 if which == "kcli" else 0)
    clients: dict[str, readers.Reader] = {
        "kcli": readers.by_kcli,
        "kcat": readers.by_kcat,
        "java": readers.by_java,
        "spark": readers.BySpark(spark),
    }
    account = histories.check(clients, readers.by_kcli)
    assert account.records > 200
    assert 0 < account.committed < account.records
    assert account.compacted
