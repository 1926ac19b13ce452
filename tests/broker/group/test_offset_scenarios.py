"""Offset scenarios on the store, on our broker and on Apache Kafka, with equal responses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.group.offsets_harness import OffsetsHarness, OffsetsRecorder, OffsetsSocketHarness
from tests.broker.group.scenarios_offsets import SCENARIOS
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

Scenario = Callable[[OffsetsRecorder], None]
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@every_scenario
def test_scenario_on_the_offset_store(scenario: Scenario) -> None:
    scenario(OffsetsRecorder(OffsetsHarness()))


@every_scenario
def test_responses_of_a_broker_equal_those_of_the_offset_store(scenario: Scenario, any_kafka: Kafka) -> None:
    ours = OffsetsRecorder(OffsetsHarness())
    scenario(ours)

    harness = OffsetsSocketHarness(any_kafka.bootstrap_servers)
    theirs = OffsetsRecorder(harness)
    try:
        scenario(theirs)
    finally:
        harness.close()

    assert theirs.responses == ours.responses
