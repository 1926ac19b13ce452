"""Renderer of raw values and formats. The hot path of a bulk read.

Raw output joins spans of one buffer without an object per record. Each span is copied as one numpy element of a fixed
width, too wide on purpose: the bytes that a copy writes after its span are overwritten by the next one, because an
assignment through indices runs in order. The literals come last. That is two moves of `width` bytes per record, six to
seven times as fast as slices (`python -m tests.bench.join_values`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from kcli.cli.consume.format import Field, FormatPart, TextStyle, constant_text, field_texts
from kcli.cli.consume.renderer import NO_HIGHLIGHTS, Highlights, Output, Renderer
from kcli.cli.output.escapes import highlighted_bytes, visible_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

_ROWS = 8192
"""Records that are converted to lists at a time, to bound memory."""


def text_renderer(
    parts: list[FormatPart], *, null: str | None = None, terminal: bool = False, highlights: Highlights = NO_HIGHLIGHTS
) -> Renderer:
    """Return a renderer of `parts`. `null`: the text for null keys and values. `terminal`: escape control bytes."""
    safe_fields = {name: partial(highlighted_bytes, pattern=pattern) for name, pattern in highlights.items()}
    null_text = (null or "").encode("utf-8", "surrogateescape")
    text_style = TextStyle(null_text, visible_bytes if terminal else None, safe_fields)

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        batch_parts = [constant_part(tp, part) for part in parts]
        if _spans_suffice(batch_parts, columns, text_style):
            return _join_spans(batch_parts, columns)
        return b"".join(
            _join_lists(batch_parts, columns.take(slice(row, row + _ROWS)), text_style)
            for row in range(0, len(columns), _ROWS)
        )

    return Renderer(render)


def constant_part(tp: TopicPartition, part: FormatPart) -> FormatPart:
    """Return the part, as a literal if it is the same for the whole partition."""
    if isinstance(part, bytes):
        return part
    constant = constant_text(part, tp)
    return part if constant is None else constant


def _spans_suffice(parts: list[FormatPart], columns: RecordColumns, text_style: TextStyle) -> bool:
    """True if the output consists of literals and spans of the records' buffer."""
    fields = {part for part in parts if isinstance(part, Field)}
    if text_style.safe or not fields or not fields <= {Field("key"), Field("value")}:
        return False
    return not text_style.null or not any((_span(field, columns)[1] < 0).any() for field in fields)


def _span(field: Field, columns: RecordColumns) -> tuple[Any, Any]:
    if field.name == "key":
        return columns.key_starts, columns.key_lengths
    return columns.value_starts, columns.value_lengths


def _join_spans(parts: list[FormatPart], columns: RecordColumns) -> Output:
    spans, literals = [], [b""]
    for part in parts:
        if isinstance(part, bytes):
            literals[-1] += part
        else:
            spans.append(_span(part, columns))
            literals.append(b"")
    return join_spans(columns.buffer, spans, literals)


def _join_lists(parts: list[FormatPart], columns: RecordColumns, text_style: TextStyle) -> bytes:
    texts = [
        repeat(part, len(columns)) if isinstance(part, bytes) else field_texts(part, columns, text_style)
        for part in parts
    ]
    return b"".join(chain.from_iterable(zip(*texts, strict=True)))


_WIDEST = 4096
"""Longer spans are copied by a slice assignment each."""
_TILE_BYTES = 1 << 17
"""Bytes copied per numpy call: the intermediate array should stay in the processor's cache."""


def join_spans(buffer: Any, columns: Sequence[tuple[Ints, Ints]], literals: Sequence[bytes]) -> memoryview:
    """Join literals and spans row by row (literal 0, span 0, literal 1, span 1, ..., last literal) into one new buffer.

    `columns` are (starts, lengths) over `buffer`, all of one size; a negative length (null) counts as empty. `literals`
    has one more element than `columns`.
    """
    import numpy as np

    source = np.frombuffer(buffer, np.uint8)
    lengths = np.stack([lengths for _, lengths in columns], axis=1).clip(min=0)
    starts = np.where(lengths > 0, np.stack([starts for starts, _ in columns], axis=1), 0)
    widths = lengths + np.array([len(literal) for literal in literals[:-1]], np.int64)
    widths[:, -1] += len(literals[-1])
    after = np.cumsum(widths.reshape(-1)).reshape(widths.shape)
    total = int(after[-1, -1]) if len(after) else 0
    positions = after - lengths
    positions[:, -1] -= len(literals[-1])
    out = _copy_spans(source, starts.reshape(-1), lengths.reshape(-1), positions.reshape(-1), total)
    for column, literal in enumerate(literals[:-1]):
        if literal:
            _write_literal(out, positions[:, column] - len(literal), literal)
    _write_literal(out, after[:, -1] - len(literals[-1]), literals[-1])
    return out[:total].data


def _copy_spans(source: Bytes, starts: Ints, lengths: Ints, positions: Ints, total: int) -> Bytes:
    """Return an array of at least `total` bytes with every span at its position, and undefined bytes between them."""
    import numpy as np

    width = _width(lengths)
    out = np.empty(total + width, np.uint8)
    wide = (lengths <= width) & (starts <= len(source) - width)
    if width:
        _copy_wide(source, out, starts, positions, width, wide)
    for index in np.flatnonzero(~wide).tolist():
        start, length, position = int(starts[index]), int(lengths[index]), int(positions[index])
        out[position : position + length] = source[start : start + length]
    return out


def _width(lengths: Ints) -> int:
    """Return the bytes to move for every span: the longest, unless few long spans would make the others expensive."""
    if not len(lengths):
        return 0
    longest = int(lengths.max())
    limit = min(max(64, 4 * int(lengths.mean())), _WIDEST)
    return longest if longest <= limit else int(lengths.max(where=lengths <= limit, initial=0))


def _copy_wide(source: Bytes, out: Bytes, starts: Ints, positions: Ints, width: int, chosen: Any) -> None:
    import numpy as np

    if not chosen.all():
        starts, positions = starts[chosen], positions[chosen]
    element = np.dtype((np.void, width))
    elements_in: NDArray[np.void] = np.ndarray((len(source) - width + 1,), element, source, 0, (1,))
    elements_out: NDArray[np.void] = np.ndarray((len(out) - width + 1,), element, out, 0, (1,))
    step = max(1, _TILE_BYTES // width)
    for row in range(0, len(starts), step):
        elements_out[positions[row : row + step]] = elements_in[starts[row : row + step]]


def _write_literal(out: Bytes, positions: Ints, literal: bytes) -> None:
    for index, byte in enumerate(literal):
        out[positions + index] = byte
