"""Joining of spans: the same bytes as slicing and joining."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume import render_text
from kcli.cli.consume.render_text import join_spans

SPAN = st.one_of(st.none(), st.binary(max_size=12), st.binary(min_size=60, max_size=70), st.just(b"long" * 300))
ROWS = st.lists(st.tuples(SPAN, SPAN), max_size=60)


def columns(rows: list[tuple[bytes | None, ...]], filler: bytes) -> tuple[bytes, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the values of the rows in one buffer, with filler between them, and their spans; length -1 for null."""
    buffer = bytearray()
    spans: list[list[tuple[int, int]]] = [[] for _ in rows[0]] if rows else [[], []]
    for row in rows:
        for place, item in zip(spans, row, strict=True):
            buffer += filler
            place.append((len(buffer), -1 if item is None else len(item)))
            buffer += item or b""
    arrays = [np.array(place, np.int64).reshape(-1, 2) for place in spans]
    return bytes(buffer), [(array[:, 0], array[:, 1]) for array in arrays]


@settings(max_examples=300, deadline=None)
@given(ROWS, st.binary(max_size=3), st.lists(st.binary(max_size=3), min_size=3, max_size=3))
def test_same_bytes_as_slicing_and_joining(rows, filler, literals):
    buffer, spans = columns(rows, filler)
    first, middle, last = literals
    expected = b"".join(first + (a or b"") + middle + (b or b"") + last for a, b in rows)
    assert bytes(join_spans(buffer, spans, literals)) == expected
    values = b"".join(first + (b or b"") + last for _, b in rows)
    assert bytes(join_spans(buffer, spans[1:], [first, last])) == values


def test_spans_larger_than_one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_text, "_TILE_BYTES", 1000)
    random = np.random.default_rng(7)
    rows = [(random.bytes(int(n)),) for n in random.integers(0, 200, 2000)]
    buffer, spans = columns(rows, b"....")
    assert bytes(join_spans(buffer, spans, [b"", b"\n"])) == b"".join(value + b"\n" for (value,) in rows)


def test_spans_in_any_order_and_more_than_once() -> None:
    starts, lengths = np.array([6, 0, 0, 3]), np.array([3, 3, 9, 0])
    assert bytes(join_spans(b"abcdefghi", [(starts, lengths)], [b"<", b">"])) == b"<ghi><abc><abcdefghi><>"


def test_the_source_is_not_modified() -> None:
    buffer, spans = columns([(b"x" * 50,)] * 100, b"--")
    before = bytes(buffer)
    source = bytearray(buffer)
    join_spans(memoryview(source), spans, [b"", b"\n"])
    assert source == before
