"""Batches that Kafka's own classes wrote: read as they were meant, and written back byte for byte."""

import pytest

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.columns import Record
from kcli.protocol.records.decode import RecordSection, decode_sections
from tests.protocol_records.vectors import VECTORS

T = 1500000000000
R0 = NewRecord(b"k0", b"v0", T)
R1 = NewRecord(None, b"value-1", T + 1)
R2 = NewRecord(b"k2", None, T - 5, [("h", b"x"), ("n", None)])
MARKER_COMMIT = NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\x0b", T)
MARKER_ABORT = NewRecord(b"\0\0\0\0", b"\0\0\0\0\0\x0b", T)
TRANSACTION = {"leader_epoch": 5, "producer_id": 4000, "producer_epoch": 3, "transactional": True}

WRITTEN = {
    "v2-none-1rec": ([R0], {"leader_epoch": 0}),
    "v2-none-3rec-base42-ple7": ([R0, R1, R2], {"base_offset": 42, "leader_epoch": 7}),
    "v2-none-txn-pid4000-ep3-seq9": ([R0, R1], {"base_offset": 100, "base_sequence": 9, **TRANSACTION}),
    "control-commit": ([MARKER_COMMIT], {"base_offset": 200, "control": True, **TRANSACTION}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_uncompressed_batches_are_written_byte_for_byte(name):
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


@pytest.mark.parametrize("name", [name for name in VECTORS if "3rec" in name and "append" not in name])
def test_three_records_come_back_with_null_key_null_value_and_headers(name):
    section = decode(VECTORS[name])
    assert list(section.columns) == THREE
    assert (section.next_offset, section.last_epoch, section.error, section.truncated) == (45, 7, None, False)


@pytest.mark.parametrize("name", [name for name in VECTORS if "2rec" in name])
def test_old_messages_come_back_wrapped_or_not(name):
    section = decode(VECTORS[name])
    stamps = (-1, -1) if name.startswith("v0") else (T, T + 1)
    assert list(section.columns) == [
        Record(42, stamps[0], b"k0", b"v0", []),
        Record(43, stamps[1], None, b"value-1", []),
    ]
    assert (section.next_offset, section.last_epoch, section.error, section.truncated) == (44, -1, None, False)
