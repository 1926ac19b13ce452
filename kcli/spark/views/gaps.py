"""The view `gaps`: a row for each run of offsets without a visible record, explained in the task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.views.table import TP_COLUMNS, View, client_of, wanted_columns

if TYPE_CHECKING:
    import pyarrow

    from kcli.consumer.coverage import PartitionCoverage
    from kcli.consumer.offset_gaps import Gaps
    from kcli.spark.options import SourceOptions
    from kcli.spark.task_ranges import TaskRange

KINDS = ("compaction", "control", "aborted", "retention", "unexplained")
"""The values of `kind`. Records deleted from the log's head are `retention`. A missing whole batch is `compaction` only
if the topic's cleanup.policy includes it, otherwise `unexplained`.
"""
_KIND_NAMES = ("control", "aborted", "compaction", "retention", "unexplained")
"""The names of the kinds of `kcli.consumer.offset_gaps`, in their order."""


def read(options: SourceOptions, ranges: Sequence[TaskRange]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the gaps in the ranges. Aborted records are gaps under read_committed, and records otherwise."""
    for range_ in ranges:
        yield from _read(options, range_)


GAPS = View(
    "gaps",
    (
        *TP_COLUMNS,
        ("first_offset", "bigint"),
        ("last_offset", "bigint"),
        ("offsets", "bigint"),
        ("kind", "string"),
    ),
    ranged=True,
    read=read,
)


def _read(options: SourceOptions, task: TaskRange) -> Iterator[pyarrow.RecordBatch]:
    from kcli.consumer.offset_gaps import GapFinder, decode_for_gaps
    from kcli.spark.task import read_columns, task_config

    finder = GapFinder(task.start, task.end, lambda: is_compacted(options, task.topic))
    batcher = _GapBatcher(options, task)
    coverages: list[PartitionCoverage] = []
    limit = task_config(options).max_decompressed_batch_bytes
    decode = partial(decode_for_gaps, max_decompressed_bytes=limit)
    with closing(read_columns(options, [task], decode, coverages.append)) as chunks:
        for _, rows in chunks:
            yield from batcher.batches(finder.add(rows, coverages[-1].lost))
            del coverages[:-1]
    covered = coverages[-1]
    yield from batcher.batches(finder.finish(covered.position, covered.lost))


class _GapBatcher:
    """Converter of gaps into Arrow record batches."""

    def __init__(self, options: SourceOptions, task: TaskRange) -> None:
        from kcli.spark.arrow import arrow_schema

        self._options, self._task = options, task
        self._schema = arrow_schema(wanted_columns(GAPS, options))

    def batches(self, gaps: Gaps) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        for first in range(0, len(gaps.firsts), self._options.batch_rows):
            part = type(gaps)(*(column[first : first + self._options.batch_rows] for column in gaps))
            arrays = [self._array(name, part) for name in self._schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, gaps: Gaps) -> Any:
        import pyarrow as pa

        count = len(gaps.firsts)
        if name == "topic":
            return pa.repeat(pa.scalar(self._task.topic, pa.string()), count)
        if name == "partition":
            return pa.repeat(pa.scalar(self._task.partition, pa.int32()), count)
        if name == "kind":
            return pa.array(_KIND_NAMES, pa.string()).take(pa.array(gaps.kinds))
        values = {"first_offset": gaps.firsts, "last_offset": gaps.lasts, "offsets": gaps.lasts - gaps.firsts + 1}
        return pa.array(values[name], pa.int64())


def is_compacted(options: SourceOptions, topic: str) -> bool:
    """Return whether the topic's cleanup.policy includes compaction. If it cannot be read: False, with a report."""
    from kcli.admin.configs import TOPIC, describe_configs
    from kcli.spark.task import log_reports

    try:
        with client_of(options) as (client, deadline_ms):
            configs = describe_configs(client, TOPIC, [topic], deadline_ms, keys=["cleanup.policy"])
            if topic in configs.errors:
                raise configs.errors[topic]
    except KcliError as error:
        log_reports([f"{topic}: cannot read cleanup.policy, so missing whole batches count as unexplained: {error}"])
        return False
    return any("compact" in (setting.value or "") for setting in configs.values.get(topic, ()))
