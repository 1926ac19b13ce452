"""The settings engine: types, bounds, choices and error texts that the client, the broker and Spark options share."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.settings import (
    Boolean,
    Double,
    Int,
    List,
    Long,
    Password,
    Settings,
    Short,
    String,
    format_value,
    setting,
)


class Example(Settings):
    """One setting of each type."""

    enabled: Boolean = setting(False)
    level: Int = setting(1, at_least=-1, at_most=9, excluded=(0,))
    small: Short | None = setting(None)
    large: Long = setting(0, at_least=0)
    ratio: Double = setting(0.5, at_least=0, at_most=1)
    codec: String = setting("none", choices=("none", "gzip"))
    mode: String = setting("fast", choices=("fast", "slow"), ignore_case=True)
    policy: List = setting(("delete",), choices=("compact", "delete"))
    sasl_password: Password | None = setting(None)


class Derived(Example):
    """A subclass replaces one definition and keeps the others."""

    level: Int = setting(7)


def test_text_and_plain_values_are_parsed_by_type() -> None:
    example = Example.from_properties(
        {
            "enabled": True,
            "level": " +9 ",
            "small": "-5",
            "ratio": "1e-1",
            "policy": ["compact", "delete"],
            "mode": "SLOW",
        }
    )
    assert (example.enabled, example.level, example.small, example.large) == (True, 9, -5, 0)
    assert (example.ratio, example.policy, example.mode) == (0.1, ("compact", "delete"), "slow")
    assert example.given == {
        "enabled": "true",
        "level": " +9 ",
        "small": "-5",
        "ratio": "1e-1",
        "policy": "compact,delete",
        "mode": "SLOW",
    }


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("enabled", "yes", "true or false"),
        ("level", "0", "a whole number from -1 to 9, except 0"),
        ("level", "10", "a whole number from -1 to 9, except 0"),
        ("level", "1_0", "a whole number from -1 to 9, except 0"),
        ("small", "32768", "a whole number from -32768 to 32767"),
        ("large", "9" * 400, "a whole number from 0 to 9223372036854775807"),
        ("ratio", "1.5", "a number from 0 to 1"),
        ("codec", "GZIP", "none or gzip"),
        ("mode", "idle", "fast or slow"),
        ("policy", "delete,shred", "compact or delete"),
    ],
)
def test_an_invalid_value_is_refused_with_the_values_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Example.from_properties({name: value})
    assert str(caught.value) == f"{name}: {value!r} is not valid; use {allowed}"


@pytest.mark.parametrize("value", ["nan", "hunter", "hunter2", "a=b"])
def test_a_value_that_is_no_number_is_not_shown(value: str) -> None:
    """It may be a password after the wrong name."""
    with pytest.raises(ConfigError) as caught:
        Example.from_properties({"ratio": value})
    assert str(caught.value) == "ratio: the value is not valid; use a number from 0 to 1"


def test_list_elements_are_stripped_and_duplicates_dropped() -> None:
    assert Example.from_properties({"policy": "delete, compact,delete , compact"}).policy == ("delete", "compact")
    assert Example.from_properties({"policy": ""}).policy == ()


def test_a_copy_keeps_given_values_and_none_restores_the_default() -> None:
    example = Example.from_properties({"level": 5, "large": 3})
    copy = example.with_properties({"level": None, "codec": "gzip"})
    assert (copy.level, copy.large, copy.codec) == (1, 3, "gzip")
    assert (example.level, example.codec) == (5, "none")


def test_settings_are_immutable_and_their_repr_hides_secrets() -> None:
    example = Example.from_properties({"sasl.password": "hunter2", "level": 2})
    with pytest.raises(AttributeError, match="immutable"):
        example.level = 3
    assert repr(example) == "<Example sasl.password=[hidden] level=2>"


def test_unknown_names_are_kept_apart_and_values_are_found_by_kafkas_name() -> None:
    example = Derived.from_properties({"levle": "1"})
    assert example.unknown == ("levle",)
    assert example.value("level") == 7
    with pytest.raises(KeyError):
        example.value("levle")


def test_values_are_formatted_as_in_properties_files() -> None:
    assert [format_value(value) for value in (True, ("a", "b"), 1.5, "x")] == ["true", "a,b", "1.5", "x"]


def test_given_secrets_and_unknown_names_are_hidden_everywhere() -> None:
    example = Example.from_properties({"sasl.password": "hunter2", "sasl.pasword": "hunter2", "large": "3"})
    assert repr(example.given) == "{'sasl.password': [hidden], 'sasl.pasword': [hidden], 'large': '3'}"
    assert "hunter2" not in repr(vars(example))
    assert example.with_properties({"large": 4}).sasl_password == Secret("hunter2")


@pytest.mark.parametrize("value", ["30000sasl.password=hunter2", "hunter2", "pass word", "x-y-z"])
def test_a_text_that_may_be_a_password_is_not_shown_in_the_error_of_a_number(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^large: the value is not valid; use a whole number from"):
        Example.from_properties({"large": value})
