"""Fields of items in a file, checked: a ConfigError names the file, the place in it, and what is wrong. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcli.errors import ConfigError

_LARGEST = {"partition": 2**31 - 1, "leader_epoch": 2**31 - 1}
_LARGEST_OFFSET = 2**63 - 1


class Place(NamedTuple):
    """Where something stands in a file, for the sentence that complains of it."""

    source: str
    where: str

    def bad(self, what: str) -> ConfigError:
        """What is wrong here."""
        return ConfigError(f"{self.source}, {self.where}: {what}")


def needed_text(item: Mapping[str, Any], name: str, place: Place) -> str:
    """Text that must be there and not empty."""
    text = optional_text(item, name, place)
    if not text:
        raise place.bad(f"there is no {name}")
    return text


def optional_text(item: Mapping[str, Any], name: str, place: Place) -> str | None:
    """Text, or None where the field is missing or null."""
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise place.bad(f"{name} is not text: {json.dumps(value)}")
    return value


def needed_number(item: Mapping[str, Any], name: str, place: Place) -> int:
    """A whole number from 0 on that must be there."""
    number = optional_number(item, name, place)
    if number is None:
        raise place.bad(f"there is no {name}")
    return number


def optional_number(item: Mapping[str, Any], name: str, place: Place) -> int | None:
    """A whole number from 0 on that Kafka could store, or None where the field is missing or null."""
    value = item.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= _LARGEST.get(name, _LARGEST_OFFSET):
        raise place.bad(f"{json.dumps(value)[:40]} is not {'an' if name == 'offset' else 'a'} {name.replace('_', ' ')}")
    return value


def with_numbers(item: Mapping[str, Any], names: Sequence[str], place: Place) -> dict[str, Any]:
    """These cells as numbers, None where they are empty."""
    return {**item, **{name: cell_number(item.get(name, ""), name, place) for name in names}}


def cell_number(cell: str, name: str, place: Place) -> int | None:
    """A cell of CSV as a number, None where it is empty."""
    text = cell.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        article = "an" if name == "offset" else "a"
        raise place.bad(f"'{text[:40]}' is not {article} {name.replace('_', ' ')}")
    return int(text)
