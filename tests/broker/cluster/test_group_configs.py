"""Settings of groups: the values in effect. Requests are in tests/broker/handlers/test_config_resources.py."""

from __future__ import annotations

import pytest

from kcli.broker.cluster.group_configs import GROUP_OPTIONS, check_group_configs, effective
from kcli.broker.config import BROKER_OPTIONS, BrokerConfig
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_without_settings_has_the_brokers() -> None:
    broker = BrokerConfig.from_properties({"group.consumer.session.timeout.ms": "50000"})
    assert effective(broker, {}, SESSION) == 50_000
    assert effective(broker, {SESSION: "46000"}, SESSION) == 46_000


def test_a_stored_setting_is_moved_into_the_brokers_present_bounds() -> None:
    broker = BrokerConfig.from_properties({})
    assert effective(broker, {SESSION: "1"}, SESSION) == 45_000
    assert effective(broker, {SESSION: "100000"}, SESSION) == 60_000


def test_every_default_of_a_group_is_a_setting_of_the_broker() -> None:
    synonyms = {name for option in GROUP_OPTIONS.values() for name in option.synonyms}
    assert synonyms <= set(BROKER_OPTIONS)


def test_a_session_must_be_longer_than_a_heartbeat() -> None:
    bounds = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.max.heartbeat.interval.ms": "50000"}
    broker = BrokerConfig.from_properties(bounds)
    check_group_configs(broker, {SESSION: "45000", HEARTBEAT: "44999"})
    with pytest.raises(BrokerError, match=r"consumer\.session\.timeout\.ms 45000 must be greater than") as refused:
        check_group_configs(broker, {SESSION: "45000", HEARTBEAT: "45000"})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.session.timeout.ms", "44999"),
        ("group.consumer.heartbeat.interval.ms", "15001"),
        ("group.consumer.assignment.interval.ms", "15001"),
        ("group.consumer.assignors", "sticky"),
        ("group.consumer.migration.policy", "sideways"),
    ],
)
def test_settings_of_a_broker_that_contradict_each_other_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig.from_properties({name: value})
