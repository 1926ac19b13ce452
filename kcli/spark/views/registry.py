"""The views by name, and the reader of a task of any view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kcli.spark.task import read_records
from kcli.spark.task_ranges import TaskRange
from kcli.spark.views.batches import BATCHES
from kcli.spark.views.commits import COMMITS
from kcli.spark.views.gaps import GAPS
from kcli.spark.views.groups import GROUPS
from kcli.spark.views.lag import LAG
from kcli.spark.views.members import MEMBERS
from kcli.spark.views.offsets import OFFSETS

if TYPE_CHECKING:
    from kcli.spark.options import SourceOptions

VIEWS = {view.name: view for view in (BATCHES, GAPS, OFFSETS, GROUPS, MEMBERS, LAG, COMMITS)}


def read_task(options: SourceOptions, value: tuple[Any, ...] | None) -> Iterator[Any]:
    """Yield the record batches of one task. `value` is the value of its InputPartition; None: no range."""
    task = None if value is None else TaskRange(*value)
    view = VIEWS.get(options.view)
    if view is not None:
        return iter(()) if view.ranged and task is None else view.read(options, task)
    return iter(()) if task is None else read_records(options, task)
