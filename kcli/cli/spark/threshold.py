"""`--fail-if` of the pipelines: a condition on columns, evaluated for each row of a result. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcli.conditions import Amount, Condition, Kind, parse_condition
from kcli.errors import ConfigError

#: Columns of pipelines that have no numbers, so that no condition on them could ever hold.
TEXTS = frozenset(
    (
        *("topic", "key", "hottest_key", "group", "field", "types", "change", "time", "committed_at"),
        *("window", "peak_at", "first_window", "last_window", "oldest", "newest"),
        *("first_seen", "last_seen", "first_at", "last_at"),
    )
)


class Threshold(NamedTuple):
    """A condition on the columns of rows. A row without a number in a column that decides does not break it."""

    condition: Condition

    def broken_by(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return a description of each row for which the condition holds: the values, and what identifies the row."""
        facts = [{name: _amount(row.get(name)) for name in self.condition.names} for row in rows]
        return [
            self.condition.describe(values) + _identity(row)
            for row, values in zip(rows, facts, strict=True)
            if self.condition.judge(values)
        ]


def _amount(value: Any) -> Amount | None:
    return Amount(value) if isinstance(value, int | float) else None


def _identity(row: Mapping[str, Any]) -> str:
    names = [f"{name}={value}" for name, value in row.items() if isinstance(value, str) or name == "partition"]
    return f" where {' '.join(names[:3])}" if names else ""


def or_any(text: str | None) -> str | None:
    """Return the condition with `>0` added to a column alone: `different` is `different>0`."""
    return f"{text}>0" if text is not None and re.fullmatch(r"\w+", text) else text


def parse_threshold(text: str, columns: Sequence[str]) -> Threshold:
    """Parse `share>0.2`, `share > 20%`, `drift=1 or nulls>0`: true and false are 1 and 0. ConfigError."""
    try:
        return Threshold(parse_condition(text, {name: Kind.TEXT if name in TEXTS else Kind.NUMBER for name in columns}))
    except ConfigError as error:
        raise ConfigError(f"--fail-if: {error}") from None
