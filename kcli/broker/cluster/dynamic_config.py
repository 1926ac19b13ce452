"""Broker settings that are changed at run time (KIP-226), for this broker or for all, and changes to single settings.

`DynamicConfig` holds the broker's settings. `apply_changes` computes the overrides of a resource after an
IncrementalAlterConfigs (KIP-339) or AlterConfigs request; it is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcli.broker.config import BrokerConfig
from kcli.broker.config_defs import Option
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

ALL_BROKERS = ""
_IN_SYNC = "min.insync.replicas"


class DynamicConfig:
    """The effective settings of the broker.

    `initial` are the settings at start; `changed` are the overrides by broker id as text ("": all brokers).
    """

    def __init__(self, initial: BrokerConfig, changed: dict[str, dict[str, str]]) -> None:
        self.initial = initial
        self.changed = changed
        self.settings = self._effective(changed)

    def __repr__(self) -> str:
        return f"<DynamicConfig {self.changed}>"

    def of_this_broker(self) -> Mapping[str, str]:
        return self.changed.get(str(self.initial.node_id), {})

    def of_all_brokers(self) -> Mapping[str, str]:
        return self.changed.get(ALL_BROKERS, {})

    def follow(self, changed: dict[str, dict[str, str]]) -> None:
        """Replace all overrides by those of the metadata log. ConfigError, and no change, if they do not fit."""
        self.settings = self._effective(changed)
        self.changed = changed

    def _effective(self, changed: Mapping[str, Mapping[str, str]]) -> BrokerConfig:
        """Return the settings: overrides of this broker first, then of all brokers, then the settings at start."""
        this_broker = changed.get(str(self.initial.node_id), {})
        return self.initial.with_properties({**changed.get(ALL_BROKERS, {}), **this_broker})


def check_in_sync(broker: str, previous: Mapping[str, str], configs: Mapping[str, str]) -> None:
    """Reject changes that leave no single min.insync.replicas for all brokers, which KIP-966 elections need."""
    if broker != ALL_BROKERS and _IN_SYNC in configs:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{_IN_SYNC} can only be set for all brokers")
    if broker == ALL_BROKERS and _IN_SYNC in previous and _IN_SYNC not in configs:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{_IN_SYNC} of all brokers can be changed, but not removed")


SET, DELETE, APPEND, SUBTRACT = range(4)


class Change(NamedTuple):
    """A change to one setting: SET a value, DELETE the override, APPEND to a list or SUBTRACT from it."""

    name: str
    operation: int
    value: str | None


def apply_changes(
    current: Mapping[str, str],
    changes: Iterable[Change],
    options: Mapping[str, Option],
    value_of: Callable[[str], str],
) -> dict[str, str]:
    """Return the overrides after `changes`. `value_of` gives the effective value of a list without an override.

    BrokerError for an invalid change. The values themselves are not checked here.
    """
    changed = dict(current)
    names: set[str] = set()
    for change in changes:
        name = change.name
        if name in names:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name or 'a setting without a name'} is changed twice")
        names.add(name)
        if change.operation == DELETE:
            changed.pop(name, None)
        elif change.value is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} cannot be set to null")
        elif change.operation == SET:
            changed[name] = change.value
        elif change.operation in (APPEND, SUBTRACT):
            _check_list(name, options)
            changed[name] = _changed_list(changed.get(name), value_of, change)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{change.operation} is not a valid operation on a setting")
    return changed


def _check_list(name: str, options: Mapping[str, Option]) -> None:
    option = options.get(name)
    if option is None or option.kind != "List":
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name} is not a list; values cannot be appended or subtracted")


def _changed_list(set_before: str | None, value_of: Callable[[str], str], change: Change) -> str:
    current = _parts(value_of(change.name) if set_before is None else set_before)
    listed = _parts(change.value or "")
    if change.operation == APPEND:
        return ",".join(current + [part for part in listed if part not in current])
    return ",".join(part for part in current if part not in listed)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []
