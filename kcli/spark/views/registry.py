"""The views by name, and the reader of a task of any view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from kcli.spark.views.table import Read, limited

if TYPE_CHECKING:
    from kcli.spark.options import SourceOptions

VIEWS = {view.name: view for view in (BATCHES, GAPS, OFFSETS, GROUPS, MEMBERS, LAG, COMMITS)}


def read_task(options: SourceOptions, value: Sequence[tuple[Any, ...]] | None) -> Iterator[Any]:
    """Yield the record batches of one task. `value` is the value of its InputPartition: its ranges; None: no range."""
    ranges = [TaskRange(*fields) for fields in value or ()]
    view = VIEWS.get(options.view)
    if view is not None and not view.ranged:
        return view.read(options, ())
    return _read_ranges(options, ranges, read_records if view is None else view.read)


def _read_ranges(options: SourceOptions, ranges: Sequence[TaskRange], read: Read) -> Iterator[Any]:
    """Yield the rows of all ranges, which are read together, unless there is a limit for each."""
    limit = options.row_limit_per_partition
    if ranges and limit is None:
        yield from read(options, ranges)
    elif limit is not None:
        for range_ in ranges:
            yield from limited(read(options, [range_]), limit)
