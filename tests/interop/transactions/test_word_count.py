"""Kafka Streams with exactly_once_v2 is killed twice, once with our broker: its output is exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.transactions.word_count import WordCountSoak, fetch_streams
from tests.needs import skip_or_fail
from tests.real_kafka import KafkaUnavailable

pytestmark = [pytest.mark.slow, pytest.mark.real_kafka]


@pytest.fixture
def soak(tmp_path: Path, kafka_jars: Path) -> Iterator[WordCountSoak]:
    try:
        fetch_streams()
    except KafkaUnavailable as missing:
        skip_or_fail(str(missing))
    broker = BrokerProcess(tmp_path / "broker", kafka_jars)
    broker.start()
    soak = WordCountSoak(broker, tmp_path)
    yield soak
    soak.close()
    broker.kill()


def test_every_word_is_counted_once_though_the_application_is_killed(soak: WordCountSoak) -> None:
    """`python -m tests.bench.exactly_once_kills streams` has thirty rounds."""
    account = soak.run(2, broker_every=2)

    assert account.kills == 2
    assert account.words > 500
