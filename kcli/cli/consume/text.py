"""Records as a format says, raw values being the simplest format. The hot path of a bulk read."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from kcli.cli.consume.fields import Look, constant, field_texts
from kcli.cli.consume.format import Field, Piece
from kcli.cli.consume.gather import join_spans
from kcli.cli.consume.output import Output, Renderer
from kcli.cli.output.escapes import visible_bytes

if TYPE_CHECKING:
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

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
