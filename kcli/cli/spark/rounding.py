"""Numbers as people read them: rounded where they are shown, and nowhere before. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.spark.pipelines.result import Result

_DIGITS = {"share": 4, "hottest_share": 4, "gini": 4, "max_over_mean": 3, "key_avg": 1, "value_avg": 1, "per_s": 3}
_RATE = "_per_s"


def rounded(result: Result) -> Result:
    """With shares, means and rates of a pipeline rounded, each to its digits behind the point."""
    return result._replace(rows=[{name: _rounded(name, it) for name, it in row.items()} for row in result.rows])


def _rounded(name: str, value: Any) -> Any:
    digits = 3 if name.endswith(_RATE) else _DIGITS.get(name)
    return value if digits is None or not isinstance(value, float) else round(value, digits)
