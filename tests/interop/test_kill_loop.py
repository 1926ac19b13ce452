"""Repeated kill -9: no acknowledged record lost or duplicated, no committed offset moved back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.kill_loop import PARTITIONS, KillLoop

pytestmark = pytest.mark.slow

ROUNDS = 50


def test_fifty_kills_lose_nothing(broker_process: Callable[..., BrokerProcess]) -> None:
    broker = broker_process()
    topic = broker.create_topic("killed", PARTITIONS, internal_segment_bytes=65536)  # so that kills meet rolls, too
    account = KillLoop(broker, topic, seed=20261121).run(ROUNDS)
    assert account.rounds == ROUNDS
    assert account.read >= account.acknowledged > ROUNDS * 100
    assert account.commits > ROUNDS
