"""What all record renderers have in common: bytes before, bytes for a batch, bytes after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

Output: TypeAlias = "bytes | memoryview"
RenderBatch: TypeAlias = "Callable[[TopicPartition, RecordColumns], Output]"


class Renderer(NamedTuple):
    """`begin`, then `render` for each batch of one partition's records, then `end` given the coverage as dicts."""

    render: RenderBatch
    begin: bytes = b""
    end: Callable[[Sequence[dict[str, Any]]], bytes] = lambda coverage: b""
