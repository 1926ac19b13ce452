"""Group scenarios on the coordinator and on whole brokers; all fields of all responses are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.broker.group import scenarios_members, scenarios_rebalance, scenarios_settings
from tests.broker.group.harness import CoordinatorHarness, Recorder, SocketHarness
from tests.real_kafka import Kafka, OwnBroker
from tests.slowness import wait_for_a_quiet_moment

pytestmark = pytest.mark.slow

Scenario = Callable[[Recorder], None]
SCENARIOS: list[Scenario] = [*scenarios_rebalance.SCENARIOS, *scenarios_members.SCENARIOS]
# Every action of a scenario is at least this far from the end of a session or a rebalance.
MARGIN_S = 0.5
REPEATS = 4
SETTINGS = {"group.max.size": "2", "group.initial.rebalance.delay.ms": "1000"}

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def responses_of(scenario: Scenario, harness: CoordinatorHarness | SocketHarness) -> list[object]:
    recorder = Recorder(harness)
    scenario(recorder)
    return recorder.responses


def assert_same_responses(scenario: Scenario, new_harness: Callable[[], SocketHarness], expected: list[object]) -> None:
    """Run a scenario on a broker and compare responses; repeat a timed one if the machine was too slow for it."""
    for _ in range(REPEATS):
        harness = new_harness()
        try:
            assert responses_of(scenario, harness) == expected
        except AssertionError:
            if harness.late_s < MARGIN_S or "pause" not in scenario.__code__.co_names:
                raise
            wait_for_a_quiet_moment()
        else:
            return
    assert responses_of(scenario, new_harness()) == expected


@pytest.fixture
def sockets() -> Iterator[Callable[[str], SocketHarness]]:
    harnesses: list[SocketHarness] = []

    def connect_to(address: str) -> SocketHarness:
        harnesses.append(SocketHarness(address))
        return harnesses[-1]

    yield connect_to
    for harness in harnesses:
        harness.close()


@every_scenario
def test_scenario_on_the_coordinator(scenario: Scenario) -> None:
    assert responses_of(scenario, CoordinatorHarness())


@every_scenario
def test_responses_of_a_broker_equal_those_of_the_coordinator(
    scenario: Scenario, any_kafka: Kafka, sockets: Callable[[str], SocketHarness]
) -> None:
    assert_same_responses(
        scenario, lambda: sockets(any_kafka.bootstrap_servers), responses_of(scenario, CoordinatorHarness())
    )


@pytest.mark.parametrize("scenario", scenarios_settings.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario_with_settings_on_the_coordinator(scenario: Scenario) -> None:
    assert responses_of(scenario, CoordinatorHarness(**SETTINGS))


def test_responses_of_a_broker_with_settings_equal_those_of_the_coordinator(
    any_own_kafka: Callable[..., OwnBroker], sockets: Callable[[str], SocketHarness]
) -> None:
    broker = any_own_kafka(**SETTINGS)

    def check(scenario: Scenario) -> None:
        expected = responses_of(scenario, CoordinatorHarness(**SETTINGS))
        assert_same_responses(scenario, lambda: sockets(broker.bootstrap_servers), expected)

    with ThreadPoolExecutor(len(scenarios_settings.SCENARIOS)) as pool:  # most of their time they wait
        list(pool.map(check, scenarios_settings.SCENARIOS))
