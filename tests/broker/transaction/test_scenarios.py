"""Stories of transactions on the coordinator and on whole brokers; all fields of all responses are compared."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.broker.transaction import (
    scenarios_describing,
    scenarios_endings,
    scenarios_offsets,
    scenarios_partitions,
    scenarios_producers,
    scenarios_settings,
)
from tests.broker.transaction.harness import MemoryBroker, Recorder, SocketBroker
from tests.real_kafka import Kafka, OwnBroker

pytestmark = pytest.mark.slow

Scenario = Callable[[Recorder], None]
SCENARIOS: list[Scenario] = [
    *scenarios_producers.SCENARIOS,
    *scenarios_partitions.SCENARIOS,
    *scenarios_endings.SCENARIOS,
    *scenarios_offsets.SCENARIOS,
    *scenarios_describing.SCENARIOS,
]

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def responses_in_memory(scenario: Scenario, **settings: str) -> list[object]:
    recorder = Recorder(MemoryBroker(**settings))
    scenario(recorder)
    return recorder.responses


@every_scenario
def test_scenario_in_memory(scenario: Scenario) -> None:
    responses_in_memory(scenario)


@every_scenario
def test_responses_of_a_broker_equal_those_in_memory(scenario: Scenario, any_kafka: Kafka) -> None:
    assert responses_of_broker(scenario, any_kafka) == responses_in_memory(scenario)


def responses_of_broker(scenario: Scenario, broker: Kafka) -> list[object]:
    harness = SocketBroker(broker.bootstrap_servers)
    recorder = Recorder(harness)
    try:
        scenario(recorder)
    finally:
        harness.close()
    return recorder.responses


def test_responses_of_a_broker_with_settings_equal_those_in_memory(any_own_kafka: Callable[..., OwnBroker]) -> None:
    broker = any_own_kafka(**scenarios_settings.SETTINGS)

    def check(scenario: Scenario) -> None:
        expected = responses_in_memory(scenario, **scenarios_settings.SETTINGS)
        assert responses_of_broker(scenario, broker) == expected, scenario.__name__

    with ThreadPoolExecutor(len(scenarios_settings.SCENARIOS)) as pool:  # most of their time they wait
        list(pool.map(check, scenarios_settings.SCENARIOS))
