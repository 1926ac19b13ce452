"""`--fail-if COLUMN>N` of what a pipeline has found: whether it is so in any row. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kcli.errors import ConfigError

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
#: Columns of pipelines that have no numbers, so that no condition on them could ever hold.
TEXTS = frozenset(
    (
        *("topic", "key", "hottest_key", "group", "field", "types", "change", "time", "committed_at"),
        *("window", "peak_at", "first_window", "last_window", "oldest", "newest"),
        *("first_seen", "last_seen", "first_at", "last_at"),
    )
)
_FORM = re.compile(r"\s*(\w+)\s*(>=|<=|!=|==|>|<|=)\s*(-?\d+(?:\.\d+)?)(%?)\s*")


class Threshold(NamedTuple):
    """A column compared with a number. A row in which the column has none does not break it."""

    column: str
    sign: str
    limit: float

    def broken_by(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Those rows, in words: what identifies them, and the value."""
        return [self._words(row) for row in rows if self._holds(row.get(self.column))]

    def _holds(self, value: Any) -> bool:
        return isinstance(value, int | float) and _COMPARE[self.sign](value, self.limit)

    def _words(self, row: Mapping[str, Any]) -> str:
        names = [f"{name}={value}" for name, value in row.items() if isinstance(value, str) or name == "partition"]
        where = f" where {' '.join(names[:3])}" if names else ""
        value = row[self.column]
        return f"{self.column} is {f'{value:.9g}' if isinstance(value, float) else value}{where}"


def or_any(text: str | None) -> str | None:
    """A condition in which a column alone means more than none of it."""
    return f"{text}>0" if text is not None and re.fullmatch(r"\w+", text) else text


def parse_threshold(text: str, columns: Sequence[str]) -> Threshold:
    """`share>0.2`, `share > 20%`, `drift=1`: yes and no are 1 and 0. ConfigError."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ConfigError(f"--fail-if is a column, a comparison and a number, like '{columns[-1]}>10', not '{text}'")
    column, sign, number, percent = form.groups()
    numbers = [name for name in columns if name not in TEXTS]
    if column not in numbers:
        what = f"{column} is no number" if column in columns else f"there is no column {column}"
        raise ConfigError(f"--fail-if: {what}; there are {', '.join(numbers)}")
    return Threshold(column, sign, float(f"{number}e-2" if percent else number))
