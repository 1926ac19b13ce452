"""Batches written by Kafka's own classes: decoded to their values, and encoded byte for byte."""

import pytest

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.protocol.records.record import Record
from kcli.protocol.records.scan import iter_records
from tests.protocol.records.vectors import VECTORS

T = 1500000000000
R0 = NewRecord(b"k0", b"v0", T)
R1 = NewRecord(None, b"value-1", T + 1)
R2 = NewRecord(b"k2", None, T - 5, [("h", b"x"), ("n", None)])
MARKER_COMMIT = NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\x0b", T)
MARKER_ABORT = NewRecord(b"\0\0\0\0", b"\0\0\0\0\0\x0b", T)
TRANSACTION = {"leader_epoch": 5, "producer_id": 4000, "producer_epoch": 3, "transactional": True}

ROWS_200 = [
    NewRecord(b"k%d" % i if i % 3 == 0 else None, None if i % 7 == 0 else b"value-%d" % i, T + i // 50)
    for i in range(200)
]
APART = [-1, (1 << 63) - 1]
STAMPS = [T, T + (1 << 40), 0, -1, (1 << 63) - 1]
HEADERS = [("", b""), ("é€", None), ("twice", b"1"), ("twice", b"2"), ("big", bytes(range(200)))]
HOLES = [42, 45, 200]
AT_42 = {"base_offset": 42, "leader_epoch": 7}

WRITTEN = {
    "v2-none-1rec": ([R0], {"leader_epoch": 0}),
    "v2-none-3rec-base42-ple7": ([R0, R1, R2], AT_42),
    "v2-none-txn-pid4000-ep3-seq9": ([R0, R1], {"base_offset": 100, "base_sequence": 9, **TRANSACTION}),
    "v2-none-append-time": ([R0, R1, R2], {"timestamp_type": "append", "max_timestamp_ms": T + 1000, **AT_42}),
    "v2-none-200rec": (ROWS_200, {"base_offset": 1000, "leader_epoch": 7}),
    "v2-none-timestamps": ([NewRecord(None, b"%d" % t, t) for t in STAMPS], {"leader_epoch": 7}),
    "v2-none-timestamps-65-bits": ([NewRecord(b"k", b"v", t) for t in APART], {}),
    "v2-none-headers": ([NewRecord(b"", b"", T, HEADERS)], {"leader_epoch": 7}),
    "v2-none-holes-to-300": (
        [NewRecord(b"k%d" % o, b"v%d" % o, T + o) for o in HOLES],
        {"offset_deltas": [o - 42 for o in HOLES], "last_offset_delta": 258, **AT_42},
    ),
    "v2-none-delete-horizon": (
        [NewRecord(b"k0", None, T), NewRecord(b"k1", b"v1", T + 1)],
        {"delete_horizon_ms": T + 86400000, **AT_42},
    ),
    "v2-empty-retained": (
        [],
        {"base_offset": 100, "last_offset_delta": 4, "base_sequence": 9, "max_timestamp_ms": T, **TRANSACTION},
    ),
    "control-commit": ([MARKER_COMMIT], {"base_offset": 200, "control": True, **TRANSACTION}),
    "control-abort": ([MARKER_ABORT], {"base_offset": 201, "control": True, **TRANSACTION}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_uncompressed_batches_are_encoded_byte_for_byte(name):
    records, options = WRITTEN[name]
    assert build_batch(records, **options) == VECTORS[name]


THREE = [
    Record(42, T, b"k0", b"v0", []),
    Record(43, T + 1, None, b"value-1", []),
    Record(44, T - 5, b"k2", None, [("h", b"x"), ("n", None)]),
]


def decode(data, fetch_offset=0, **options):
    [section] = decode_sections([RecordSection("t", 0, data, fetch_offset)], **options)
    return section


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", [name for name in VECTORS if "3rec" in name or name == "v2-lz4-txn"])
def test_records_with_null_key_null_value_and_headers(name):
    section = decode(VECTORS[name])
    assert list(section.columns) == THREE
    assert (section.next_offset, section.last_epoch, section.error, section.truncated) == (45, 7, None, False)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", [name for name in VECTORS if "2rec" in name])
def test_old_messages_with_and_without_wrapper(name):
    section = decode(VECTORS[name])
    stamps = (-1, -1) if name.startswith("v0") else (T, T + 1)
    assert list(section.columns) == [
        Record(42, stamps[0], b"k0", b"v0", []),
        Record(43, stamps[1], None, b"value-1", []),
    ]
    assert (section.next_offset, section.last_epoch, section.error, section.truncated) == (44, -1, None, False)


@pytest.mark.parametrize("name", [name for name in VECTORS if "append-time" in name])
def test_append_time_replaces_the_producers_timestamps(name):
    columns = decode(VECTORS[name]).columns
    assert columns.timestamps_ms.tolist() == [T + 1000] * len(columns)
    assert {columns.timestamp_type(i) for i in range(len(columns))} == {"append"}
    assert columns.values()[:2] == [b"v0", b"value-1"]


def test_timestamp_types_of_create_time_and_no_timestamp():
    assert decode(VECTORS["v2-none-1rec"]).columns.timestamp_type(0) == "create"
    assert decode(VECTORS["v1-gzip-2rec-base42"]).columns.timestamp_type(0) == "create"
    assert decode(VECTORS["v0-gzip-2rec-base42"]).columns.timestamp_type(0) == "none"


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_payloads_of_several_compressed_blocks_are_decoded(codec):
    assert decode(VECTORS[f"v2-{codec}-70000-a"]).columns.values() == [b"a" * 70000]


def test_a_compacted_batch_keeps_its_offsets_and_moves_the_position_after_its_last():
    section = decode(VECTORS["v2-none-holes-to-300"])
    assert section.columns.offsets.tolist() == HOLES
    assert section.columns.timestamps_ms.tolist() == [T + o for o in HOLES]
    assert section.next_offset == 301


def test_an_empty_batch_moves_the_position():
    section = decode(VECTORS["v2-empty-retained"], 100)
    assert (len(section.columns), section.next_offset, section.last_epoch) == (0, 105, 5)


@pytest.mark.parametrize("name", ["control-commit", "control-abort"])
def test_control_batches_have_no_records_but_move_the_position(name):
    section = decode(VECTORS[name])
    assert len(section.columns) == 0
    assert section.next_offset in (201, 202)


def test_two_hundred_records_with_some_nulls():
    columns = decode(VECTORS["v2-none-200rec"]).columns
    assert columns.offsets.tolist() == list(range(1000, 1200))
    assert columns.timestamps_ms.tolist() == [row.timestamp_ms for row in ROWS_200]
    assert columns.keys() == [row.key for row in ROWS_200]
    assert columns.values() == [row.value for row in ROWS_200]


def test_timestamps_at_the_limits():
    assert decode(VECTORS["v2-none-timestamps"]).columns.timestamps_ms.tolist() == STAMPS


def test_timestamps_whose_difference_has_more_than_64_bits():
    data = VECTORS["v2-none-timestamps-65-bits"]
    assert decode(data).columns.timestamps_ms.tolist() == APART
    assert [record.timestamp_ms for record in iter_records(data)] == APART


def test_headers_keep_order_duplicates_nulls_and_unicode():
    columns = decode(VECTORS["v2-none-headers"]).columns
    assert columns.headers(0) == HEADERS
    assert columns.row(0) == Record(0, T, b"", b"", HEADERS)


def test_timestamp_deltas_count_from_the_delete_horizon():
    columns = decode(VECTORS["v2-none-delete-horizon"]).columns
    assert columns.timestamps_ms.tolist() == [T, T + 1]
    assert columns.values() == [None, b"v1"]
