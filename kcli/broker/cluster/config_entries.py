"""Settings as DescribeConfigs returns them: each with its value, the source of the value, and its synonyms.

Precedence as in KIP-226: topic or group, this broker, all brokers, the settings at start, Kafka's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcli.broker.cluster.client_metrics_configs import CLIENT_METRICS_OPTIONS, client_metrics_values
from kcli.broker.cluster.dynamic_config import DynamicConfig
from kcli.broker.cluster.group_configs import GROUP_OPTIONS, group_values
from kcli.broker.cluster.topic_configs import TOPIC_OPTIONS, topic_values
from kcli.broker.config import BROKER_OPTIONS
from kcli.broker.config_defs import Option, Update
from kcli.settings import format_value

TOPIC, THIS_BROKER, ALL_BROKERS, STATIC_BROKER, DEFAULT, CLIENT_METRICS, GROUP = 1, 2, 3, 4, 5, 7, 8


class Synonym(NamedTuple):
    """One source of a value, with the setting's name in that source."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A setting. `value` is None if it is not set or sensitive; the first of `synonyms` is in effect."""

    name: str
    value: str | None
    source: int
    read_only: bool
    synonyms: list[Synonym]
    type_number: int
    is_sensitive: bool = False


def topic_entries(dynamic: DynamicConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a topic, sorted by name."""
    return _entries(TOPIC_OPTIONS, topic_values(dynamic.settings, overrides), TOPIC, dynamic, overrides)


def group_entries(dynamic: DynamicConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of a group, sorted by name."""
    return _entries(GROUP_OPTIONS, group_values(dynamic.settings, overrides), GROUP, dynamic, overrides)


def client_metrics_entries(dynamic: DynamicConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all settings of client metrics, sorted by name."""
    return _entries(CLIENT_METRICS_OPTIONS, client_metrics_values(overrides), CLIENT_METRICS, dynamic, overrides)


def _entries(
    options: Mapping[str, Option],
    values: Mapping[str, object],
    own: int,
    dynamic: DynamicConfig,
    overrides: Mapping[str, str],
) -> list[ConfigEntry]:
    """Return the settings of a resource; `own` is the source of its overrides."""
    entries = []
    for name, option in options.items():
        if option.internal and name not in overrides:
            continue
        text = format_value(values[name])
        synonyms = [Synonym(name, text, own)] if name in overrides else []
        if option.synonyms:
            synonyms += _broker_synonyms(next(iter(option.synonyms)), dynamic)
        elif own == GROUP:
            synonyms.append(Synonym(name, format_value(option.default), DEFAULT))
        source = synonyms[0].source if synonyms else DEFAULT
        entries.append(ConfigEntry(name, text, source, False, synonyms, option.type_number))
    return entries


def broker_entries(dynamic: DynamicConfig) -> list[ConfigEntry]:
    """Return all settings of the broker, sorted by name."""
    return [
        _broker_entry(option, dynamic)
        for name, option in sorted(BROKER_OPTIONS.items())
        if not option.internal or name in dynamic.settings.given
    ]


def _broker_entry(option: Option, dynamic: DynamicConfig) -> ConfigEntry:
    value = dynamic.settings.value(option.name)
    synonyms = _broker_synonyms(option.name, dynamic)
    source = synonyms[0].source if synonyms else DEFAULT
    read_only = option.update is Update.READ_ONLY
    if option.kind == "Password":
        hidden = [Synonym(synonym.name, None, synonym.source) for synonym in synonyms]
        return ConfigEntry(option.name, None, source, read_only, hidden, option.type_number, is_sensitive=True)
    text = None if value is None else format_value(value)
    return ConfigEntry(option.name, text, source, read_only, synonyms, option.type_number)


def entries_of_all_brokers(dynamic: DynamicConfig) -> list[ConfigEntry]:
    """Return the overrides for all brokers."""
    return [
        ConfigEntry(
            name, text, ALL_BROKERS, False, [Synonym(name, text, ALL_BROKERS)], BROKER_OPTIONS[name].type_number
        )
        for name, text in sorted(dynamic.of_all_brokers().items())
    ]


# Groups of settings of which the first one that is set takes effect.
_FAMILIES = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
_FAMILY_OF = {name: family for family in _FAMILIES for name in family}


def _broker_synonyms(name: str, dynamic: DynamicConfig) -> list[Synonym]:
    """Return the broker's settings that give a value, in order of precedence.

    As in Kafka, synonyms before the setting itself are left out.
    """
    family = _FAMILY_OF.get(name, (name,))
    synonyms: list[Synonym] = []
    for source, texts in (
        (THIS_BROKER, dynamic.of_this_broker()),
        (ALL_BROKERS, dynamic.of_all_brokers()),
        (STATIC_BROKER, dynamic.initial.given),
        (DEFAULT, _defaults(family)),
    ):
        synonyms += [Synonym(member, texts[member], source) for member in family if member in texts]
    while synonyms and synonyms[0].name != name:
        synonyms.pop(0)
    return synonyms


def _defaults(names: Iterable[str]) -> dict[str, str]:
    defaults = {name: BROKER_OPTIONS[name].default for name in names}
    return {name: format_value(value) for name, value in defaults.items() if value is not None}
