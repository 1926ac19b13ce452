"""Columns of texts, and their join into rows: the output of bulk reads without an object per record.

A column has one text per row: the same for all (`Literal`), one of a few (`Choice`), or a span of a buffer (`Spans`),
as keys and values are. Numbers, times, hex and base64 become spans of a buffer that is filled by numpy. `join_columns`
writes the texts of all columns row by row into one new buffer.

All texts with lengths from w to 2 w are copied by two numpy calls, which move elements of a fixed width: the first w
bytes of each text, and its last ones, as many as the longest has after w. The two may overlap. Nothing but the texts is
written, so columns may be written in any order (`python -m tests.bench.join_values`).

`header_table` reads the headers of many records into such columns, by a few numpy calls.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kcli.protocol.primitives import read_varint
from kcli.protocol.records.varints import read_varint_column
from kcli.text import format_timestamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]


_TILE_BYTES = 1 << 17
"""Bytes copied per numpy call: the intermediate array should stay in the processor's cache."""


class TextColumn(Protocol):
    """One text per row: the length of each (one number: of all), and `write`, which puts them into a buffer."""

    @property
    def lengths(self) -> Ints | int: ...

    def write(self, out: Bytes, positions: Ints) -> None:
        """Write the text of each row at its position."""


class Literal:
    """The same text in every row."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.lengths = len(text)

    def write(self, out: Bytes, positions: Ints) -> None:
        if self.text:
            element = np.frombuffer(self.text, np.dtype((np.void, len(self.text))))
            _elements(out, len(self.text))[positions] = element[0]


class Choice:
    """One of a few texts in every row: `texts[which[row]]`."""

    def __init__(self, texts: Sequence[bytes], which: Any) -> None:
        self.texts = texts
        self.which = which
        self.lengths: Ints = np.array([len(text) for text in texts], np.int64)[which]

    def write(self, out: Bytes, positions: Ints) -> None:
        for number, text in enumerate(self.texts):
            Literal(text).write(out, positions[self.which == number])


def choice(texts: Sequence[bytes], which: NDArray[Any]) -> TextColumn:
    """Return `texts[which[row]]` of each row; a literal if it is the same for all."""
    first = int(which.min(initial=len(texts) - 1))
    return Literal(texts[first]) if first >= which.max(initial=0) else Choice(texts, which)


class Spans:
    """Spans (start, length) of a buffer; a negative length (null) counts as empty."""

    def __init__(self, buffer: Any, starts: Ints, lengths: Ints) -> None:
        self.source: Bytes = np.frombuffer(buffer, np.uint8)
        self.starts = starts
        self.lengths = lengths.clip(min=0)

    @classmethod
    def of_texts(cls, texts: Sequence[bytes]) -> Spans:
        """Return a column of the texts, joined in one buffer."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls(b"".join(texts), np.cumsum(lengths) - lengths, lengths)

    def texts(self) -> list[bytes]:
        """Return a copy of each text."""
        data = self.source.data
        ends = self.starts + self.lengths
        return [bytes(data[start:end]) for start, end in zip(self.starts.tolist(), ends.tolist(), strict=True)]

    def take(self, rows: Ints) -> Spans:
        """Return the texts of some rows."""
        return Spans(self.source, self.starts[rows], self.lengths[rows])

    def where(self, mask: NDArray[np.bool_]) -> Spans:
        """Return the texts of some rows; the others are empty."""
        return Spans(self.source, self.starts, np.where(mask, self.lengths, 0))

    def equal(self, text: bytes) -> NDArray[np.bool_]:
        """Return the rows whose text is `text`."""
        matches: NDArray[np.bool_] = self.lengths == len(text)
        rows = np.flatnonzero(matches)
        for index, byte in enumerate(text):
            rows = rows[self.source[self.starts[rows] + index] == byte]
        matches[:] = False
        matches[rows] = True
        return matches

    def write(self, out: Bytes, positions: Ints) -> None:
        if not len(self.lengths):
            return
        width, longest = int(self.lengths.min()), int(self.lengths.max())
        while width <= longest:
            if width:
                self._write_class(out, positions, width, longest)
            width = 2 * width + 1

    def _write_class(self, out: Bytes, positions: Ints, width: int, longest: int) -> None:
        """Write the texts of `width` to `2 * width` bytes. No shorter ones than of `width` are left."""
        starts, lengths = self.starts, self.lengths
        if longest > 2 * width or width > int(lengths.min()):
            rows = np.flatnonzero((lengths >= width) & (lengths <= 2 * width))
            starts, lengths, positions = starts[rows], lengths[rows], positions[rows]
        _copy(self.source, out, starts, positions, width)
        rest = min(longest, 2 * width) - width
        if rest:
            last = lengths - rest
            _copy(self.source, out, starts + last, positions + last, rest)


def _copy(source: Bytes, out: Bytes, starts: Ints, positions: Ints, width: int) -> None:
    """Copy `width` bytes from each start to each position."""
    step = max(1, _TILE_BYTES // width)
    for row in range(0, len(starts), step):
        _elements(out, width)[positions[row : row + step]] = _elements(source, width)[starts[row : row + step]]


def _elements(data: Bytes, width: int) -> NDArray[np.void]:
    """Return the view with one element of `width` bytes at each position of `data`; elements overlap."""
    element = np.dtype((np.void, width))
    return np.ndarray((max(0, len(data) - width + 1),), element, data, 0, (1,))


def join_columns(columns: Sequence[TextColumn], count: int) -> Bytes:
    """Return the texts of `count` rows: the first row's text of each column, the second row's, and so on."""
    return joined_spans(columns, count).source


def joined_spans(columns: Sequence[TextColumn], count: int) -> Spans:
    """Return one column: in each row, the texts of all columns. Its texts lie side by side in its own buffer."""
    columns = _with_merged_literals(columns)
    lengths: Ints = np.zeros(count, np.int64)
    for column in columns:
        lengths += column.lengths
    ends: Ints = np.cumsum(lengths)
    out: Bytes = np.empty(int(ends[-1]) if count else 0, np.uint8)
    positions = starts = ends - lengths
    for column in columns:
        column.write(out, positions)
        positions = positions + column.lengths
    return Spans(out, starts, lengths)


def _with_merged_literals(columns: Sequence[TextColumn]) -> Sequence[TextColumn]:
    merged: list[TextColumn] = []
    for column in columns:
        if isinstance(column, Literal) and merged and isinstance(merged[-1], Literal):
            merged[-1] = Literal(merged[-1].text + column.text)
        else:
            merged.append(column)
    return merged


# Numbers and times


_GROUPS: NDArray[np.uint32] = np.array([b"%04d" % number for number in range(10_000)], "S4").view(np.uint32)
"""The four digits of the numbers below 10,000, each as one element."""
_POWERS: NDArray[np.uint64] = 10 ** np.arange(1, 20, dtype=np.uint64)
_MINUS = ord("-")


def decimal_column(numbers: Ints) -> Spans:
    """Return the decimal text of each number.

    The digits are made in groups of four, from the right, in one row of whole groups per number; the text is the end
    of the row.
    """
    numbers = np.asarray(numbers, np.int64)
    is_negative = numbers < 0
    rest: NDArray[np.uint64] = np.abs(numbers).view(np.uint64)
    largest = int(rest.max(initial=0))
    group_count = len(str(largest)) // 4 + 1  # one place more than digits, for a minus sign
    lengths = _digit_counts(rest, largest)
    groups: NDArray[np.uint32] = np.empty((len(numbers), group_count), np.uint32)
    for group in range(group_count - 1, -1, -1):
        quotient = rest // np.uint64(10_000)
        groups[:, group] = _GROUPS[rest - quotient * np.uint64(10_000)]
        rest = quotient
    source: Bytes = groups.reshape(-1).view(np.uint8)
    ends = np.arange(1, len(numbers) + 1) * (4 * group_count)
    if is_negative.any():
        lengths = lengths + is_negative
        source[(ends - lengths)[is_negative]] = _MINUS
    return Spans(source, ends - lengths, lengths)


def _digit_counts(numbers: NDArray[np.uint64], largest: int) -> Ints:
    count = len(str(largest))
    if len(str(int(numbers.min(initial=largest)))) == count:
        return np.full(len(numbers), count)
    return np.searchsorted(_POWERS, numbers, side="right") + 1


_DAY_MS = 86_400_000
_LAST_DAY = 2_932_896
"""The day of 9999-12-31, counted from 1970-01-01."""
_TWO_DIGITS: NDArray[np.uint8] = (
    np.array([b"%02d" % number for number in range(100)], "S2").view(np.uint8).reshape(-1, 2)
)


def time_column(timestamps_ms: Ints) -> Spans:
    """Return each timestamp as `format_timestamp` does."""
    days = timestamps_ms // _DAY_MS
    first_day, last_day = int(days.min(initial=_LAST_DAY)), int(days.max(initial=0))
    if first_day < 0 or last_day > _LAST_DAY:
        return Spans.of_texts([format_timestamp(ms).encode() for ms in timestamps_ms.tolist()])
    times = _midnights(days, first_day, last_day)
    of_day = (timestamps_ms - days * _DAY_MS).astype(np.int32)
    seconds, ms = of_day // 1000, of_day % 1000
    times[:, 11:13] = _TWO_DIGITS[seconds // 3600]
    times[:, 14:16] = _TWO_DIGITS[seconds // 60 % 60]
    times[:, 17:19] = _TWO_DIGITS[seconds % 60]
    times[:, 20] = ms // 100 + ord("0")
    times[:, 21:23] = _TWO_DIGITS[ms % 100]
    return Spans(times.reshape(-1), np.arange(len(times)) * 24, np.full(len(times), 24))


def _midnights(days: Ints, first_day: int, last_day: int) -> Bytes:
    """Return one row of 24 characters for each day: the time of its midnight."""
    if first_day >= last_day:
        text = format_timestamp(first_day * _DAY_MS).encode()
        return np.tile(np.frombuffer(text, np.uint8), (len(days), 1))
    distinct_days, which = np.unique(days, return_inverse=True)
    texts = [format_timestamp(day * _DAY_MS).encode() for day in distinct_days.tolist()]
    rows: Bytes = np.array(texts, "S24").view(np.uint8).reshape(-1, 24)
    return rows[which.reshape(-1)]


def big_endian_column(numbers: Ints) -> Spans:
    """Return each number as 4 bytes, big-endian."""
    return Spans(numbers.astype(">i4").view(np.uint8), np.arange(len(numbers)) * 4, np.full(len(numbers), 4))


# Encodings of bytes


def hex_column(data: Spans) -> Spans:
    """Return the hexadecimal digits of each text."""
    joined = join_columns([data], len(data.lengths))
    ends = np.cumsum(data.lengths)
    return Spans(joined.tobytes().hex().encode(), 2 * (ends - data.lengths), 2 * data.lengths)


def base64_column(data: Spans) -> Spans:
    """Return the base64 of each text.

    Texts are filled up with zeros to multiples of three bytes, so that their base64 texts lie side by side; then the
    characters of the added bytes become the padding.
    """
    missing = -data.lengths % 3
    joined = join_columns([data, Choice([b"", b"\0", b"\0\0"], missing)], len(data.lengths))
    encoded: Bytes = np.frombuffer(bytearray(b64encode(joined.data)), np.uint8)
    lengths = (data.lengths + missing) // 3 * 4
    ends = np.cumsum(lengths)
    encoded[ends[missing >= 1] - 1] = ord("=")
    encoded[ends[missing == 2] - 2] = ord("=")
    return Spans(encoded, ends - lengths, lengths)


# Texts with escapes


class EscapedTexts(NamedTuple):
    """Texts that are UTF-8, escaped, and the base64 of the others (None: there are none).

    A row that belongs to one of the columns is empty in the other.
    """

    texts: Spans
    base64: Spans | None
    is_base64: NDArray[np.bool_]

    @property
    def columns(self) -> Sequence[Spans]:
        """The columns that together have the text of each row."""
        return [self.texts] if self.base64 is None else [self.texts, self.base64]


_END = b"\n"
"""The end of each of many joined texts: never a byte inside a character of UTF-8."""
_END_MARK = 0xFF
"""A byte that never occurs in UTF-8."""


def escaped_texts(data: Spans, escapes: Mapping[int, bytes]) -> EscapedTexts:
    """Replace each byte that has an escape by it, in the given order; a text that is not UTF-8 becomes base64.

    All texts are joined, checked and escaped together, because that is a few searches of one long buffer. Marks between
    them show where the escaped texts end.
    """
    if not data.lengths.any():
        return EscapedTexts(data, None, np.zeros(len(data.lengths), np.bool_))
    joined = joined_spans([data, Literal(_END)], len(data.lengths))
    is_base64 = _not_utf_8(joined)
    base64 = None
    if is_base64.any():
        base64 = base64_column(data.where(is_base64))
        data = data.where(~is_base64)
        joined = joined_spans([data, Literal(_END)], len(data.lengths))
    ends = joined.starts + data.lengths
    joined.source[ends] = _END_MARK
    escaped = _replaced(joined.source, escapes)
    if len(escaped) > len(joined.source):
        ends = np.flatnonzero(escaped == _END_MARK)
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])[:-1]
    return EscapedTexts(Spans(escaped, starts, ends - starts), base64, is_base64)


def _not_utf_8(joined: Spans) -> NDArray[np.bool_]:
    """Return the mask of texts that are not valid UTF-8."""
    mask: NDArray[np.bool_] = np.zeros(len(joined.lengths), np.bool_)
    if not is_utf_8(joined.source):
        for row, text in enumerate(joined.texts()):
            mask[row] = not is_utf_8(np.frombuffer(text, np.uint8))
    return mask


def is_utf_8(data: Bytes) -> bool:
    """True if the bytes are valid UTF-8."""
    if data.max(initial=0) < 0x80:
        return True
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _replaced(data: Bytes, escapes: Mapping[int, bytes]) -> Bytes:
    least = data.min(initial=0xFF)
    text = data.tobytes()
    for code, escape in escapes.items():
        if code >= least:  # most texts have no control characters
            text = text.replace(bytes([code]), escape)
    return np.frombuffer(text, np.uint8)


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
