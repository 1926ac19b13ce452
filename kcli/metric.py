"""A metric with its samples, as exporters show it."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """A metric: its name, help text, label names, and samples: label values and a value.

    A counter only grows; its name has no suffix `_total`.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], float]]
    is_counter: bool = False
