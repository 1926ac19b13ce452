"""How many records of a batch went out whole before the disk was full."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.cli.consume.output import RenderBatch
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


def rows_within(render: RenderBatch, tp: TopicPartition, columns: RecordColumns, written: int, size: int) -> int:
    """How many of the first records lie within the first `written` of the `size` bytes that the batch came to.

    Found by rendering parts of the batch again. 0 for a renderer that renders it otherwise the second time.
    """
    if len(render(tp, columns)) != size:
        return 0
    low, high = 0, len(columns) - 1  # not all of it was written
    while low < high:
        middle = (low + high + 1) // 2
        if len(render(tp, columns.take(slice(0, middle)))) <= written:
            low = middle
        else:
            high = middle - 1
    return low
