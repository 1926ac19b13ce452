"""Properties of the decoder: any rows are decoded as encoded with any codec, and no bytes raise."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.compression import CODEC_NAMES
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.protocol.records.record import Record
from tests.protocol.records import reference
from tests.protocol.records.mutations import check_hostile, mutate

blobs = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3)
records = st.builds(NewRecord, blobs, blobs, st.integers(-1, (1 << 62) - 1), headers)
batches = st.lists(st.lists(records, min_size=1, max_size=30), min_size=1, max_size=6)
codecs = st.sampled_from(CODEC_NAMES)


def written(rows, base_offset):
    return [
        Record(base_offset + i, row.timestamp_ms, row.key, row.value, list(row.headers)) for i, row in enumerate(rows)
    ]


@settings(max_examples=80, deadline=None)
@given(batches, st.data())
def test_encoded_rows_are_decoded_with_any_codec(parts, data):
    out, expected, offset = [], [], 5
    for rows in parts:
        codec = data.draw(codecs)
        out.append(build_batch(rows, compression=codec, base_offset=offset))
        expected += written(rows, offset)
        offset += len(rows)
    [decoded] = decode_sections([RecordSection("t", 0, b"".join(out), 0)])
    assert decoded.error is None
    assert list(decoded.columns) == expected
    assert decoded.next_offset == offset


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=1, max_size=30))
def test_the_reference_decoder_reads_encoded_rows(rows):
    data = build_batch(rows, base_offset=9)
    assert reference.records(data) == written(rows, 9)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=1, max_size=20), codecs, st.data())
def test_rows_of_columns_with_holes_are_encoded_again(rows, codec, data):
    offsets = sorted(data.draw(st.sets(st.integers(0, 1000), min_size=len(rows), max_size=len(rows))))
    holey = build_batch(rows, base_offset=offsets[0], offset_deltas=[offset - offsets[0] for offset in offsets])
    [decoded] = decode_sections([RecordSection("t", 0, holey, 0)])
    assert decoded.columns.offsets.tolist() == offsets
    read = [NewRecord(row.key, row.value, row.timestamp_ms, row.headers) for row in decoded.columns]
    assert build_batch(read, compression=codec) == build_batch(rows, compression=codec)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=1, max_size=40), st.data())
def test_a_selection_of_columns_equals_the_selection_of_rows(rows, data):
    [decoded] = decode_sections([RecordSection("t", 0, build_batch(rows), 0)])
    everything = list(decoded.columns)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    assert list(decoded.columns.take(mask)) == [row for row, wanted in zip(everything, mask, strict=True) if wanted]
    assert list(decoded.columns.take(slice(1, None, 2))) == everything[1::2]
    assert [decoded.columns.row(i) for i in range(len(rows))] == everything
    assert decoded.columns.keys() == [row.key for row in rows]
    joined = RecordColumns.join([decoded.columns.take(slice(0, 1)), decoded.columns.take(slice(1, None))])
    assert list(joined) == everything


@settings(max_examples=150, deadline=None)
@given(st.lists(records, min_size=1, max_size=10), codecs, st.integers(0, 1 << 32), st.booleans())
def test_mutated_batches_do_not_raise(rows, codec, seed, check_crcs):
    rng = random.Random(seed)
    bad = mutate(rng, build_batch(rows, compression=codec))
    check_hostile([RecordSection("t", 0, bad, rng.choice((0, 3)), rng.choice((None, [(1, 0)])))], check_crcs)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 1 << 62))
def test_arbitrary_bytes_do_not_raise(data, fetch_offset):
    check_hostile([RecordSection("t", 0, data, fetch_offset)], check_crcs=False)
