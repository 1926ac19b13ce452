"""Topic settings: defaults from the broker's settings, log configuration, changes, and topic names."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.cluster.dynamic_config import APPEND, DELETE, SET, Change, apply_changes
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS, check_topic_configs, log_config, topic_values
from kcli.broker.cluster.topic_rules import LONGEST_NAME, check_new_name, name_fault
from kcli.broker.config import BROKER_OPTIONS, BrokerConfig
from kcli.broker.log.log_config import LogConfig
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError
from kcli.settings import format_value


def broker(**properties: Any) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): value for name, value in properties.items()})


def test_default_log_config_has_kafkas_defaults() -> None:
    assert log_config(broker(), {}) == LogConfig()


def test_every_log_config_field_is_a_topic_setting() -> None:
    assert {name.replace("_", ".") for name in LogConfig._fields} <= set(TOPIC_OPTIONS)


@pytest.mark.parametrize("name", sorted(TOPIC_OPTIONS))
def test_defaults_are_within_bounds_and_equal_to_the_broker_defaults(name: str) -> None:
    option = TOPIC_OPTIONS[name]
    if option.default is not None:
        assert option.parse(format_value(option.default)) == option.default
    assert topic_values(broker(), {})[name] == option.default
    for synonym in option.synonyms:
        assert BROKER_OPTIONS[synonym].kind in (option.kind, "Int")


@pytest.mark.parametrize(
    ("given", "kept_ms"),
    [
        ({}, 604_800_000),
        ({"log_retention_hours": 2}, 7_200_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3}, 180_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3, "log_retention_ms": 4}, 4),
        ({"log_retention_hours": -1}, -1),
        ({"log_retention_minutes": -5}, -1),
        ({"log_retention_ms": -7}, -1),
    ],
)
def test_setting_in_the_finest_unit_takes_precedence(given: dict[str, int], kept_ms: int) -> None:
    assert log_config(broker(**given), {}).retention_ms == kept_ms


def test_other_settings_with_two_broker_synonyms() -> None:
    config = log_config(broker(log_roll_hours=2, log_roll_jitter_hours=1, log_flush_scheduler_interval_ms=9), {})
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (7_200_000, 3_600_000, 9)
    config = log_config(broker(log_roll_hours=2, log_roll_ms=5, log_flush_interval_ms=8), {})
    assert (config.segment_ms, config.flush_ms) == (5, 8)


def test_topic_override_precedes_broker_setting() -> None:
    config = log_config(broker(log_segment_bytes=2_000_000), {"segment.bytes": "3000000", "cleanup.policy": "compact"})
    assert config.segment_bytes == 3_000_000
    assert config.is_compacted


def test_internal_segment_bytes_overrides_segment_bytes() -> None:
    assert log_config(broker(), {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_unknown_topic_setting_raises() -> None:
    with pytest.raises(ConfigError, match="nope is not a topic setting"):
        log_config(broker(), {"nope": "1"})
    with pytest.raises(BrokerError) as caught:
        check_topic_configs(broker(), {"nope": "1"})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_compaction_lags_of_broker_and_topic_must_be_consistent() -> None:
    with pytest.raises(BrokerError, match=r"max\.compaction\.lag\.ms 5 is below min\.compaction\.lag\.ms 6"):
        check_topic_configs(broker(log_cleaner_min_compaction_lag_ms=6), {"max.compaction.lag.ms": "5"})


def test_apply_changes_does_not_modify_the_previous_overrides() -> None:
    before = {"retention.ms": "1", "segment.ms": "2"}
    changes = [Change("retention.ms", DELETE, None), Change("flush.ms", SET, "3")]
    assert apply_changes(before, changes, TOPIC_OPTIONS, str) == {"segment.ms": "2", "flush.ms": "3"}
    assert before == {"retention.ms": "1", "segment.ms": "2"}


def test_append_skips_values_already_in_the_list() -> None:
    changes = [Change("cleanup.policy", APPEND, "delete,compact")]
    assert apply_changes({}, changes, TOPIC_OPTIONS, lambda _: "delete") == {"cleanup.policy": "delete,compact"}
    assert apply_changes({"cleanup.policy": "compact"}, changes, TOPIC_OPTIONS, str) == {
        "cleanup.policy": "compact,delete"
    }


def test_topic_name_of_249_characters_is_valid() -> None:
    assert name_fault("a" * LONGEST_NAME) is None
    assert name_fault("a" * (LONGEST_NAME + 1))
    assert name_fault("orders\n")


def test_names_collide_only_by_dots_and_underscores() -> None:
    check_new_name("a.b-c", ["a-b-c", "a.b", "A.b-c"])
    with pytest.raises(BrokerError, match=r"'a\.b_c' collides with topic 'a_b\.c'"):
        check_new_name("a.b_c", ["x", "a_b.c"])
