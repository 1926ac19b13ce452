"""Headers of many records as columns: the same as reading each record's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.cli.consume import header_table as module
from kcli.cli.consume.header_table import header_table
from kcli.cli.consume.text_columns import Literal
from kcli.protocol.records.columns import RecordColumns
from tests.cli.consume.data import columns, record

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
