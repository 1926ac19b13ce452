"""Control records as text: what the markers of transactions say, by the layout of KIP-98 (EndTxnMarker.json)."""

from __future__ import annotations

import json
from typing import Any

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.control_records import decode_control
from kcli.protocol.records.decode import RecordSection

COMMIT, ABORT = bytes([0, 0, 0, 1]), bytes([0, 0, 0, 0])


def marker(base_offset: int, key: bytes | None = COMMIT, value: bytes | None = bytes([0, 0, 0, 0, 0, 9])) -> bytes:
    how: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 7, "transactional": True, "control": True}
    return build_batch([NewRecord(key, value, 1_700_000_000_000 + base_offset)], base_offset=base_offset, **how)


def data(base_offset: int, *values: bytes) -> bytes:
    how: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 7, "base_sequence": 0, "transactional": True}
    return build_batch([NewRecord(None, value, 0) for value in values], base_offset=base_offset, **how)


def section(*batches: bytes, fetch_offset: int = 0) -> RecordSection:
    return RecordSection("t", 0, b"".join(batches), fetch_offset, None)


def test_markers_are_records_with_the_type_as_key_and_all_they_say_as_value() -> None:
    [decoded] = decode_control([section(data(0, b"a", b"b"), marker(2), data(3, b"c"), marker(4, ABORT))])
    columns = decoded.columns
    assert (decoded.error, decoded.next_offset) == (None, 5)
    assert columns.offsets.tolist() == [2, 4]
    assert columns.timestamps_ms.tolist() == [1_700_000_000_002, 1_700_000_000_004]
    assert [columns.timestamp_type(row) for row in range(2)] == ["create", "create"]
    assert columns.keys() == [b"commit", b"abort"]
    says = {"producer_id": 4000, "producer_epoch": 7, "coordinator_epoch": 9}
    assert [json.loads(value or b"") for value in columns.values()] == [
        {"type": "commit", **says},
        {"type": "abort", **says},
    ]
    assert [columns.headers(row) for row in range(2)] == [[], []]


def test_sections_without_markers_advance_the_position() -> None:
    first, second = decode_control([section(data(0, b"a")), section(data(7, b"b"), fetch_offset=7)])
    assert (len(first.columns), first.next_offset, len(second.columns), second.next_offset) == (0, 1, 0, 8)
    assert decode_control([]) == []


def test_markers_before_the_fetch_offset_are_left_out() -> None:
    [decoded] = decode_control([section(marker(4), marker(5), fetch_offset=5)])
    assert decoded.columns.offsets.tolist() == [5]


def test_types_that_end_no_transaction_have_only_their_name() -> None:
    keys = [bytes([0, 0, 0, 2]), bytes([0, 0, 0, 77])]
    [decoded] = decode_control([section(*(marker(at, key, None) for at, key in enumerate(keys)))])
    assert decoded.columns.keys() == [b"leader_change", b"unknown(77)"]
    assert decoded.columns.values() == [b'{"type": "leader_change"}', b'{"type": "unknown(77)"}']


def test_a_damaged_marker_is_an_error_after_the_markers_before_it() -> None:
    broken = bytearray(marker(1))
    broken[-1] ^= 1
    for last, problem in (
        (bytes(broken), "its CRC is"),
        (marker(1, b"\0"), "the control record has no type"),
        (marker(1, None), "the control record has no type"),
        (marker(1, COMMIT, b"\0\0"), "the transaction marker has no coordinator epoch"),
        (marker(1, COMMIT, None), "the transaction marker has no coordinator epoch"),
    ):
        [decoded] = decode_control([section(marker(0), last, marker(2))])
        assert decoded.columns.keys() == [b"commit"]
        assert decoded.next_offset == 1
        assert problem in str(decoded.error)
