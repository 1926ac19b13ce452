"""Records to be written, as columns: they equal the rows that they stand for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.records.record import NewRecord, NewRecords

blobs = st.none() | st.binary(max_size=4)
headers = st.lists(st.tuples(st.text(max_size=2), blobs), max_size=2)
rows = st.builds(NewRecord, st.just(None) | blobs, blobs, st.sampled_from([3, 4]), st.just(()) | headers)
tables = st.lists(rows, max_size=6)


def rows_of(records: NewRecords) -> list[NewRecord]:
    """The rows, with the same type of empty headers in all."""
    return [row._replace(headers=list(row.headers)) for row in records.rows()]


def expected(rows):
    return [row._replace(headers=list(row.headers)) for row in rows]


@settings(deadline=None)
@given(tables)
def test_columns_of_rows_are_these_rows(rows):
    records = NewRecords.of(iter(rows))
    assert len(records) == len(rows)
    assert rows_of(records) == expected(rows)


@settings(deadline=None)
@given(st.lists(tables, min_size=1, max_size=5))
def test_joined_columns_are_the_rows_of_all_parts(parts):
    joined = NewRecords.joined([NewRecords.of(rows) for rows in parts])
    assert rows_of(joined) == expected(row for rows in parts for row in rows)


@settings(deadline=None)
@given(tables, st.integers(0, 6), st.integers(0, 6))
def test_a_part_has_the_rows_between_two_indices(rows, start, end):
    assert rows_of(NewRecords.of(rows).part(start, end)) == expected(rows[start:end])


@settings(deadline=None)
@given(tables, st.data())
def test_a_selection_has_the_rows_at_the_indices_in_their_order(rows, data):
    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6)) if rows else []
    assert rows_of(NewRecords.of(rows).select(indices)) == expected(rows[index] for index in indices)


def test_columns_without_keys_headers_and_different_times_are_not_stored():
    records = NewRecords.of([NewRecord(None, b"a", 7), NewRecord(None, None, 7, [])])
    assert (records.keys, records.headers, records.timestamps_ms) == (None, None, 7)
    both = NewRecords.joined([records, NewRecords([b"b"], 7)])
    assert (both.keys, both.headers, both.timestamps_ms) == (None, None, 7)
