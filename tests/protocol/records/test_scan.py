"""Records read in order without numpy, and the summary of a batch."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import CorruptRecords
from kcli.protocol.records.batch import HEADER_BYTES
from kcli.protocol.records.builder import NewRecord, build_batch, encode_records
from kcli.protocol.records.record import NewRecords, Record
from kcli.protocol.records.scan import iter_records
from kcli.protocol.records.summary import RecordsSummary, summarize_records

NOW = 1_700_000_000_000
SOME = [
    NewRecord(b"k", b"v", NOW),
    NewRecord(None, b"v" * 300, NOW + 100, [("h", b"x"), ("n", None)]),
    NewRecord(b"k" * 100, None, NOW - 5),
]

keys = st.none() | st.binary(max_size=90)
headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=9)), max_size=2)
deltas = st.integers(-(1 << 30), 1 << 40) | st.integers(0, 70)
rows = st.lists(
    st.builds(NewRecord, keys, keys, deltas.map(lambda delta: NOW + delta), headers), min_size=1, max_size=40
)
runs = st.builds(lambda row, times: [row] * times, rows.map(lambda some: some[0]), st.integers(1, 300))


def encode(records: list[NewRecord]) -> bytes:
    return encode_records(NewRecords.of(records), range(len(records)), NOW)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_a_batch_equal_the_encoded_rows(codec: str) -> None:
    data = build_batch(SOME, compression=codec, base_offset=100, offset_deltas=[0, 7, 9])
    assert list(iter_records(data + b"what follows")) == [
        Record(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
        for offset, record in zip((100, 107, 109), SOME, strict=True)
    ]


def test_records_of_an_append_time_batch_have_the_append_time() -> None:
    data = build_batch(SOME, timestamp_type="append", max_timestamp_ms=NOW + 77)
    assert {record.timestamp_ms for record in iter_records(data)} == {NOW + 77}


def test_an_empty_batch_has_no_records() -> None:
    assert list(iter_records(build_batch([], base_offset=5, last_offset_delta=3))) == []


def test_a_truncated_batch_is_corrupt() -> None:
    data = build_batch(SOME)
    for cut in (0, 40, HEADER_BYTES, len(data) - 1):
        with pytest.raises(CorruptRecords):
            list(iter_records(data[:cut]))


def test_plain_batches_need_no_numpy() -> None:
    code = (
        "import sys; from kcli.protocol.records.builder import *; from kcli.protocol.records.scan import *;"
        "list(iter_records(build_batch([NewRecord(b'k', b'v', 1)]))); print('numpy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@given(st.lists(rows | runs, min_size=1, max_size=3).map(lambda parts: list(chain.from_iterable(parts))))
def test_the_summary_equals_that_of_all_records(records: list[NewRecord]) -> None:
    times = [record.timestamp_ms - NOW for record in records]
    no_key = any(record.key is None for record in records)
    assert summarize_records(encode(records), len(records)) == RecordsSummary(min(times), max(times), no_key, True)


@given(rows | runs, st.data())
def test_the_summary_rejects_the_batches_that_the_scan_rejects(records: list[NewRecord], data: st.DataObject) -> None:
    """One byte of the batch is changed, or its end is cut: both readers must agree on its validity."""
    whole = bytearray(build_batch(records))
    whole[data.draw(st.integers(HEADER_BYTES, len(whole) - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(whole[HEADER_BYTES:])
    try:
        found = list(iter_records(whole))
    except CorruptRecords:
        with pytest.raises(CorruptRecords):
            summarize_records(payload, len(records))
    else:
        base = records[0].timestamp_ms
        times = [record.timestamp_ms - base for record in found]
        dense = [record.offset for record in found] == list(range(len(found)))
        no_key = any(record.key is None for record in found)
        assert summarize_records(payload, len(records)) == RecordsSummary(min(times), max(times), no_key, dense)


@pytest.mark.parametrize("count", [0, 1, 149, 151, 1 << 30])
def test_a_batch_must_have_exactly_its_declared_record_count(count: int) -> None:
    with pytest.raises(CorruptRecords):
        summarize_records(encode([NewRecord(None, b"x" * 100, NOW)] * 150), count)


def test_long_runs_cross_the_varint_widths_of_offset_deltas() -> None:
    records = [NewRecord(b"key", b"x" * 10, NOW + index // 100) for index in range(20_000)]
    assert summarize_records(encode(records), 20_000) == RecordsSummary(0, 199, False, True)


def test_a_gap_in_the_offsets_within_a_run_is_not_dense() -> None:
    places = [*range(100), *range(101, 200)]
    data = encode_records(NewRecords([b"x" * 50] * len(places), NOW), places, NOW)
    assert not summarize_records(data, len(places)).is_dense


def test_a_null_key_is_found_at_any_position() -> None:
    record = NewRecord(b"", b"x" * 50, NOW)
    for place in (0, 1, 2, 50, 99):
        records = [record] * place + [NewRecord(None, b"x" * 50, NOW)] + [record] * (99 - place)
        assert summarize_records(encode(records), 100).has_null_key
    assert not summarize_records(encode([record] * 100), 100).has_null_key
