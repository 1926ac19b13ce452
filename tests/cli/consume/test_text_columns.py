"""Columns of texts: the same bytes as joining Python's own texts row by row; headers as reading each record's."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume import text_columns
from kcli.cli.consume import text_columns as module
from kcli.cli.consume.text_columns import (
    Choice,
    Literal,
    Spans,
    base64_column,
    big_endian_column,
    decimal_column,
    escaped_texts,
    header_table,
    hex_column,
    is_utf_8,
    join_columns,
    joined_spans,
    time_column,
)
from kcli.protocol.records.columns import RecordColumns
from kcli.text import format_timestamp
from tests.cli.consume.data import columns, record

TEXT = st.one_of(st.none(), st.binary(max_size=12), st.binary(min_size=60, max_size=70), st.just(b"long" * 3000))
ROWS = st.lists(st.tuples(TEXT, TEXT, st.integers(0, 2)), max_size=60)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-10, 10), st.integers(0, 18).map(lambda n: 10**n - n % 2)
)


def spans(texts: list[bytes | None], filler: bytes = b"--") -> Spans:
    """Return the texts as spans of a buffer with filler between them; length -1 for null."""
    buffer, starts = bytearray(), []
    for text in texts:
        buffer += filler
        starts.append(len(buffer))
        buffer += text or b""
    lengths = [-1 if text is None else len(text) for text in texts]
    return Spans(bytes(buffer), np.array(starts, np.int64), np.array(lengths, np.int64))


@settings(max_examples=300, deadline=None)
@given(ROWS, st.binary(max_size=3), st.lists(st.binary(max_size=3), min_size=3, max_size=3), st.permutations(range(4)))
def test_rows_are_joined_whatever_the_order_of_columns(rows, filler, texts, order):
    literal = texts[0] * 9
    which = np.array([number for _, _, number in rows], np.int64)
    columns = [
        spans([a for a, _, _ in rows], filler),
        spans([b for _, b, _ in rows], filler),
        Choice(texts, which),
        Literal(literal),
    ]
    expected = [(a or b"", b or b"", texts[number], literal) for a, b, number in rows]
    joined = join_columns([columns[place] for place in order], len(rows))
    assert bytes(joined) == b"".join(row[place] for row in expected for place in order)


def test_texts_larger_than_one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_columns, "_TILE_BYTES", 1000)
    random = np.random.default_rng(7)
    texts = [random.bytes(int(n)) for n in random.integers(0, 200, 2000)]
    assert bytes(join_columns([spans(texts), Literal(b"\n")], 2000)) == b"".join(text + b"\n" for text in texts)


def test_spans_in_any_order_and_more_than_once() -> None:
    column = Spans(b"abcdefghi", np.array([6, 0, 0, 3]), np.array([3, 3, 9, 0]))
    assert bytes(join_columns([Literal(b"<"), column, Literal(b">")], 4)) == b"<ghi><abc><abcdefghi><>"
    assert column.texts() == [b"ghi", b"abc", b"abcdefghi", b""]
    assert column.equal(b"abc").tolist() == [False, True, False, False]
    assert column.equal(b"").tolist() == [False, False, False, True]


def test_no_rows() -> None:
    nothing = np.empty(0, np.int64)
    columns = [Literal(b"x"), Spans(b"", nothing, nothing), Choice([b"a"], nothing), Spans.of_texts([])]
    columns += [decimal_column(nothing), time_column(nothing), big_endian_column(nothing)]
    columns += [base64_column(columns[1]), hex_column(columns[1])]
    assert bytes(join_columns(columns, 0)) == b""


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_decimal_texts_of_any_numbers(numbers):
    assert decimal_column(np.array(numbers, np.int64)).texts() == [b"%d" % number for number in numbers]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 253_402_300_799_999), min_size=1, max_size=20))
def test_times_inside_the_calendar(timestamps):
    times = time_column(np.array(timestamps, np.int64)).texts()
    assert times == [format_timestamp(ms).encode() for ms in timestamps]


def test_times_outside_the_calendar() -> None:
    timestamps = [-1, 0, -86_400_001, 253_402_300_800_000, 2**63 - 1, -(2**63)]
    times = time_column(np.array(timestamps, np.int64)).texts()
    assert times == [format_timestamp(ms).encode() for ms in timestamps]


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=20))
def test_hex_and_base64_of_any_bytes(texts):
    assert hex_column(spans(texts)).texts() == [(text or b"").hex().encode() for text in texts]
    assert base64_column(spans(texts)).texts() == [b64encode(text or b"") for text in texts]


MARKED = st.one_of(TEXT, st.text(max_size=9).map(str.encode), st.text('\x00\x1e\n"\\ab', max_size=9).map(str.encode))
ESCAPES = {ord("\\"): b"\\\\", ord('"'): b'\\"', 0: b"<nul>", ord("\n"): b"\\n"}


def escaped(text: bytes) -> bytes:
    """Return the text with its escapes, or base64 if it is not UTF-8."""
    try:
        return b"".join(ESCAPES.get(char, bytes([char])) for char in text.decode().encode())
    except UnicodeDecodeError:
        return b64encode(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(MARKED, max_size=20), st.binary(max_size=2))
def test_escapes_and_base64_of_any_bytes(texts, filler):
    result = escaped_texts(spans(texts, filler), ESCAPES)
    joined = joined_spans(result.columns, len(texts)).texts()
    assert joined == [escaped(text or b"") for text in texts]
    assert result.is_base64.tolist() == [not is_utf_8(np.frombuffer(text or b"", np.uint8)) for text in texts]


def test_a_character_that_is_cut_between_two_texts_is_not_utf_8() -> None:
    assert escaped_texts(spans([b"\xc3", b"\xbc"], b""), {}).is_base64.tolist() == [True, True]
    assert not escaped_texts(spans(["\u00fc\u6771".encode(), b""], b""), {}).is_base64.any()


NAME = st.one_of(st.sampled_from(["", "a", "type", "ü"]), st.text(max_size=80))
VALUE = st.one_of(st.none(), st.binary(max_size=5), st.just(b"v" * 200))
HEADERS = st.lists(st.tuples(NAME, VALUE), max_size=4)


def flat(batch: RecordColumns) -> list[tuple[int, str, bytes | None]]:
    """Return record, name and value of each header in the table."""
    table = header_table(batch)
    names, values = table.names.texts(), table.values.texts()
    rows = zip(table.records.tolist(), names, values, table.is_null.tolist(), strict=True)
    return [(row, name.decode(), None if is_null else value) for row, name, value, is_null in rows]


@pytest.mark.parametrize("few", [0, 1, 3, 1000])
def test_as_record_by_record(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(module, "_FEW_RECORDS", few or 1)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(HEADERS, max_size=12))
    def check(rows: list[list[tuple[str, bytes | None]]]) -> None:
        batch = columns(*(record(headers=headers) for headers in rows)) if rows else RecordColumns.empty()
        assert flat(batch) == [(row, *header) for row, headers in enumerate(rows) for header in headers]
        table = header_table(batch)
        texts = table.join([Literal(b"<"), table.names, Literal(b">, ")], separator=2).texts()
        assert texts == [", ".join(f"<{name}>" for name, _ in headers).encode() for headers in rows]

    check()


def test_many_headers_of_one_record_beside_a_few() -> None:
    many = [(f"h{n}", b"%d" % n) for n in range(3000)]
    batch = columns(*(record(headers=[("a", None)] * (n % 3)) for n in range(40)), record(headers=many))
    assert flat(batch)[-3000:] == [(40, *header) for header in many]
    assert len(flat(batch)) == 3039


def test_invalid_utf_8_in_a_name_is_replaced() -> None:
    batch = columns(*(record(headers=[("bad", b"1"), ("good", b"2")]) for _ in range(20)))
    damaged = bytearray(batch.buffer)
    damaged[damaged.index(b"bad")] = 0xFF
    batch.buffer = bytes(damaged)
    assert flat(batch)[:3] == [(0, "\ufffdad", b"1"), (0, "good", b"2"), (1, "bad", b"1")]
    assert batch.headers(0) == [("\ufffdad", b"1"), ("good", b"2")]
