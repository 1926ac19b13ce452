"""Scenarios of consumer groups on the coordinator, our broker and Apache Kafka: equal responses and records."""

from __future__ import annotations

import pytest

from tests.broker.group import scenarios_consumer_groups, scenarios_migration
from tests.broker.group.consumer_groups_harness import (
    ConsumerGroupsHarness,
    ConsumerGroupsRecorder,
    ConsumerGroupsSocketHarness,
)
from tests.broker.group.scenarios_consumer_groups import Scenario
from tests.real_kafka import Kafka
from tests.slowness import wait_for_a_quiet_moment

pytestmark = pytest.mark.slow

# Every action of a scenario is at least this far from the end of a session or a rebalance.
MARGIN_S = 0.3
REPEATS = 4
# Stories whose responses are equal, but not their records: the ids of topics, or of members that a broker names,
# decide who gets which partition, or Kafka writes a state on the way that it replaces in the same batch.
OTHER_RECORDS = (
    "a_member_gets_the_topics_of_its_expression",
    "a_stable_classic_group_of_two_is_converted",
    "requests_that_wait_are_told_to_join_again",
    "the_last_static_consumer_member_comes_back_as_a_classic_one",
)

SCENARIOS = [*scenarios_consumer_groups.SCENARIOS, *scenarios_migration.SCENARIOS]
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@every_scenario
def test_scenario_on_the_coordinator(scenario: Scenario) -> None:
    scenario(ConsumerGroupsRecorder(ConsumerGroupsHarness()))


@every_scenario
def test_responses_of_a_broker_equal_those_of_the_coordinator(scenario: Scenario, any_kafka: Kafka) -> None:
    ours = ConsumerGroupsRecorder(ConsumerGroupsHarness())
    scenario(ours)

    for remaining in reversed(range(REPEATS)):
        harness = ConsumerGroupsSocketHarness(any_kafka.bootstrap_servers)
        theirs = ConsumerGroupsRecorder(harness)
        try:
            scenario(theirs)
            assert theirs.responses == ours.responses
            if scenario.__name__ not in OTHER_RECORDS:
                assert theirs.written() == ours.written()
        except AssertionError:
            if not remaining or harness.late_s < MARGIN_S or "pause" not in scenario.__code__.co_names:
                raise
            wait_for_a_quiet_moment()
        else:
            return
        finally:
            harness.close()
