"""Records as a format says, raw values being the simplest format. The hot path of a bulk read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from kcli.cli.consume.format import Field, Look, Piece, constant, field_texts
from kcli.cli.consume.renderer import Output, Renderer
from kcli.cli.output.escapes import visible_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

    Ints = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

_ROWS = 8192
"""Records turned into lists at a time: enough to be quick, few enough to stay small."""


def text_renderer(pieces: list[Piece], *, null: str | None = None, terminal: bool = False) -> Renderer:
    """Fill in `pieces` for each record. `null`: the text for null keys and values. `terminal`: show control bytes."""
    look = Look((null or "").encode("utf-8", "surrogateescape"), visible_bytes if terminal else None)

    def render(tp: TopicPartition, columns: RecordColumns) -> Output:
        filled = [fixed_pieces(tp, piece) for piece in pieces]
        if _spans_suffice(filled, columns, look):
            return _join_spans(filled, columns)
        return b"".join(
            _join_lists(filled, columns.take(slice(row, row + _ROWS)), look) for row in range(0, len(columns), _ROWS)
        )

    return Renderer(render)


def fixed_pieces(tp: TopicPartition, piece: Piece) -> Piece:
    """The piece, turned into a literal if it is the same for the whole partition."""
    if isinstance(piece, bytes):
        return piece
    fixed = constant(piece, tp)
    return piece if fixed is None else fixed


def _spans_suffice(pieces: list[Piece], columns: RecordColumns, look: Look) -> bool:
    """Whether the output consists of spans of the records' own buffer, and literals."""
    fields = {piece for piece in pieces if isinstance(piece, Field)}
    if look.safe or not fields or not fields <= {Field("key"), Field("value")}:
        return False
    return not look.null or not any((_span(field, columns)[1] < 0).any() for field in fields)


def _span(field: Field, columns: RecordColumns) -> tuple[Any, Any]:
    if field.name == "key":
        return columns.key_starts, columns.key_lengths
    return columns.value_starts, columns.value_lengths


def _join_spans(pieces: list[Piece], columns: RecordColumns) -> Output:
    spans, literals = [], [b""]
    for piece in pieces:
        if isinstance(piece, bytes):
            literals[-1] += piece
        else:
            spans.append(_span(piece, columns))
            literals.append(b"")
    return join_spans(columns.buffer, spans, literals)


def _join_lists(pieces: list[Piece], columns: RecordColumns, look: Look) -> bytes:
    texts = [
        repeat(piece, len(columns)) if isinstance(piece, bytes) else field_texts(piece, columns, look)
        for piece in pieces
    ]
    return b"".join(chain.from_iterable(zip(*texts, strict=True)))


_WIDEST = 4096
"""Longer spans are worth a slice assignment each."""
_TILE_BYTES = 1 << 17
"""Bytes copied per numpy call: the intermediate array should stay in the processor's cache."""


def join_spans(buffer: Any, columns: Sequence[tuple[Ints, Ints]], literals: Sequence[bytes]) -> memoryview:
    """Row by row: literal 0, span 0, literal 1, span 1, ..., the last literal; all rows in one new buffer.

    `columns` are (starts, lengths) over `buffer`, all of one size; a length below zero (null) counts as empty.
    `literals` has one more item than `columns`.
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
    """A new array of at least `total` bytes with every span in its place; rubbish in between. Positions ascend."""
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
    """How many bytes to move for every span: the longest, unless few long ones would make all the others dear."""
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
