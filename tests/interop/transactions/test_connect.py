"""Kafka Connect with an exactly-once source is killed once: each line of the source is in the topic once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.transactions.connect import ConnectSoak, fetch_connect
from tests.needs import skip_or_fail
from tests.real_kafka import KafkaUnavailable

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]


@pytest.fixture
def soak(tmp_path: Path, kafka_jars: Path) -> Iterator[ConnectSoak]:
    try:
        fetch_connect()
    except KafkaUnavailable as missing:
        skip_or_fail(str(missing))
    broker = BrokerProcess(tmp_path / "broker", kafka_jars)
    broker.start()
    soak = ConnectSoak(broker, tmp_path, workers=1)
    yield soak
    soak.close()
    broker.kill()


def test_every_line_is_stored_once_though_the_worker_is_killed(soak: ConnectSoak) -> None:
    """`python -m tests.bench.exactly_once_kills connect` has two workers and thirty rounds."""
    account = soak.run(1)

    assert account.kills == 1
    assert account.lines > 100
