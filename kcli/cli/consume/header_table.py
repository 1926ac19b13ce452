"""The headers of many records as columns, read by a few numpy calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.cli.consume.text_columns import Literal, Spans, is_utf_8, joined_spans
from kcli.protocol.primitives import read_varint
from kcli.protocol.records.varints import read_varint_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kcli.cli.consume.text_columns import Ints, TextColumn
    from kcli.protocol.records.columns import RecordColumns

_FEW_RECORDS = 16
"""Below this number of records, headers are read one by one: a record with a million headers must not cost a million
numpy calls."""


class HeaderTable(NamedTuple):
    """One row per header: its record, and its name and value. `first_rows` has the first row of each record, and one
    more for the end.
    """

    records: Ints
    names: Spans
    values: Spans
    is_null: NDArray[np.bool_]
    first_rows: Ints

    def join(self, columns: Sequence[TextColumn], separator: int) -> Spans:
        """Return one text per record: those of its headers, without the last `separator` bytes of the last one.

        `columns` have one row per header.
        """
        texts = joined_spans(columns, len(self.records))
        bounds = np.concatenate([texts.starts, np.array([len(texts.source)])])[self.first_rows]
        return Spans(texts.source, bounds[:-1], np.diff(bounds) - separator)


def header_table(columns: RecordColumns) -> HeaderTable:
    """Return the headers of all records, in order. Invalid UTF-8 in names is replaced."""
    counts = columns.header_counts
    first_rows: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    total = int(first_rows[-1])
    spans: NDArray[np.int64] = np.empty((4, total), np.int64)
    data = np.frombuffer(columns.buffer, np.uint8)
    records = np.flatnonzero(counts)
    at = columns.header_starts[records]
    number = 0
    while len(records) >= _FEW_RECORDS:
        name_lengths, name_starts, _ = read_varint_column(data, at)
        value_lengths, value_starts, _ = read_varint_column(data, name_starts + name_lengths)
        spans[:, first_rows[records] + number] = name_starts, name_lengths, value_starts, value_lengths
        number += 1
        remains = counts[records] > number
        records = records[remains]
        at = (value_starts + value_lengths.clip(min=0))[remains]
    view = memoryview(columns.buffer)
    for record, position in zip(records.tolist(), at.tolist(), strict=True):
        for row in range(int(first_rows[record]) + number, int(first_rows[record + 1])):
            position = _read_header(view, position, spans[:, row])
    names = _valid_names(Spans(columns.buffer, spans[0], spans[1]))
    values = Spans(columns.buffer, spans[2], spans[3])
    return HeaderTable(np.repeat(np.arange(len(columns)), counts), names, values, spans[3] < 0, first_rows)


def _read_header(view: memoryview, at: int, span: NDArray[np.int64]) -> int:
    """Read the spans of one header's name and value into `span`; return the position after it."""
    name_length, name_start = read_varint(view, at)
    value_length, value_start = read_varint(view, name_start + name_length)
    span[:] = name_start, name_length, value_start, value_length
    return value_start + max(value_length, 0)


def _valid_names(names: Spans) -> Spans:
    """Return the names, with replacement characters instead of invalid UTF-8, as Java's consumer does."""
    joined = joined_spans([names, Literal(b"\n")], len(names.lengths))  # a line break is never inside a character
    if is_utf_8(joined.source):
        return names
    return Spans.of_texts([name.decode("utf-8", "replace").encode() for name in names.texts()])
