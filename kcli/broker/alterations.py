"""What is set for a topic or broker, after changes to single settings (KIP-339). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcli.broker.config_defs import Option
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

SET, DELETE, APPEND, SUBTRACT = range(4)


class Change(NamedTuple):
    """One setting: SET it to a value, DELETE what was set, APPEND to its list or SUBTRACT from it."""

    name: str
    operation: int
    value: str | None


def altered(
    before: Mapping[str, str],
    changes: Iterable[Change],
    options: Mapping[str, Option],
    value_of: Callable[[str], str],
) -> dict[str, str]:
    """What is set after `changes` to what was set before; `value_of` tells what a list has that is not set.

    BrokerError for a change that makes no sense; whether the values do is not checked here.
    """
    after = dict(before)
    seen: set[str] = set()
    for change in changes:
        name = change.name
        if name in seen:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name or 'a setting without name'} is changed twice")
        seen.add(name)
        if change.operation == DELETE:
            after.pop(name, None)
        elif change.value is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} cannot be set to null")
        elif change.operation == SET:
            after[name] = change.value
        elif change.operation in (APPEND, SUBTRACT):
            _check_list(name, options)
            after[name] = _changed_list(after.get(name), value_of, change)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"there is no operation {change.operation} on a setting")
    return after


def replaced(settings: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """What is set when exactly `settings` are. BrokerError for nulls and for a name that comes twice."""
    return altered({}, (Change(name, SET, value) for name, value in settings), {}, str)


def _check_list(name: str, options: Mapping[str, Option]) -> None:
    known = options.get(name)
    if known is None or known.kind != "List":
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name} is no list that could be appended to or subtracted from")


def _changed_list(set_before: str | None, value_of: Callable[[str], str], change: Change) -> str:
    current = _parts(value_of(change.name) if set_before is None else set_before)
    given = _parts(change.value or "")
    if change.operation == APPEND:
        return ",".join(current + [part for part in given if part not in current])
    return ",".join(part for part in current if part not in given)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []
