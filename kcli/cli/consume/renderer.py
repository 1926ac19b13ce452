"""`Renderer`: the interface of all renderers of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import re

    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition


Output: TypeAlias = "bytes | memoryview"
RenderBatch: TypeAlias = "Callable[[TopicPartition, RecordColumns], Output]"


#: The expressions whose matches are shown in colour, by field: value, key.
Highlights: TypeAlias = "Mapping[str, re.Pattern[bytes]]"
NO_HIGHLIGHTS: Highlights = {}


class Renderer(NamedTuple):
    """The bytes to print: `begin`, `render` for each batch of one partition, `end` given the coverage as dicts.

    `end_failed` is the end of a read that failed, given also the error as an item's `error` field.
    """

    render: RenderBatch
    begin: bytes = b""
    end: Callable[[Sequence[dict[str, Any]]], bytes] = lambda coverage: b""
    end_failed: Callable[[Sequence[dict[str, Any]], dict[str, Any]], bytes] = lambda coverage, error: b""
