"""Chunks of responses: the cuts, the size of a chunk, and aborted transactions."""

from __future__ import annotations

import pytest

from kcli.consumer.fetch_buffer import CompletedFetch, Section, cut_section, is_compressed, position_after
from kcli.consumer.subscription import FetchPosition
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.structs import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base: int, count: int = 1, size: int = 10, **how: object) -> bytes:
    records = [NewRecord(None, b"%d" % (base + i) + b"x" * size, 0) for i in range(count)]
    return build_batch(records, base_offset=base, leader_epoch=3, **how)  # type: ignore[arg-type]


def transactional(base: int, producer_id: int, value: str) -> bytes:
    how = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    return build_batch([NewRecord(None, value.encode(), 0)], base_offset=base, **how)  # type: ignore[arg-type]


def marker(base: int, producer_id: int, *, commit: bool) -> bytes:
    record = NewRecord(bytes([0, 0, 0, int(commit)]), bytes(6), 0)
    how = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True, "control": True}
    return build_batch([record], base_offset=base, **how)  # type: ignore[arg-type]


def section(data: bytes, offset: int = 0, aborted: list[tuple[int, int]] | None = None) -> Section:
    return Section(T0, memoryview(data), offset, aborted)


def test_the_position_after_a_section_is_read_from_its_last_header() -> None:
    data = batch(0, 3) + batch(3, 2)
    assert position_after(memoryview(data)) == FetchPosition(5, 3)
    assert position_after(memoryview(data + batch(5)[:40])) == FetchPosition(5, 3)
    assert position_after(memoryview(batch(5)[:40])) is None
    assert position_after(memoryview(b"")) is None


def test_messages_of_old_formats_have_positions_too() -> None:
    # v0-none-2rec-base42 and v1-none-2rec-base42 as kafka-clients 4.3.1 wrote them
    v0 = (
        "000000000000002a000000128697724c0000000000026b30000000027630"
        "000000000000002b0000001598dda4ae0000ffffffff0000000776616c75652d31"
    )
    assert position_after(memoryview(bytes.fromhex(v0))) == FetchPosition(44, -1)
    assert not is_compressed(memoryview(bytes.fromhex(v0)))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_is_read_from_the_header(codec: str) -> None:
    assert is_compressed(memoryview(batch(0, compression=codec)))
    assert not is_compressed(memoryview(batch(0)))
    assert not is_compressed(memoryview(b"\0" * 10))


def test_a_section_is_cut_between_batches() -> None:
    parts = [batch(0, 3), batch(3, 2), batch(5, 4)]
    cut = cut_section(section(b"".join(parts)), len(parts[0]) + 1)
    assert cut is not None
    first, rest = cut
    assert bytes(first.data) == parts[0] + parts[1]
    assert (bytes(rest.data), rest.fetch_offset) == (parts[2], 5)


def test_a_chunk_has_at_least_one_batch_and_a_batch_is_never_cut() -> None:
    parts = [batch(0, 3), batch(3, 2)]
    cut = cut_section(section(b"".join(parts)), 0)
    assert cut is not None
    assert bytes(cut[0].data) == parts[0]
    assert cut_section(section(parts[0]), 0) is None


def test_a_partial_batch_stays_with_the_rest() -> None:
    parts = [batch(0), batch(1), batch(2)[:30]]
    cut = cut_section(section(b"".join(parts)), 1)
    assert cut is not None
    assert bytes(cut[1].data) == parts[1] + parts[2]


def test_chunks_are_bounded_and_contain_all_batches() -> None:
    data = b"".join(batch(i, size=1_000) for i in range(50))
    received = CompletedFetch(1, [section(data), Section(T1, memoryview(data), 0)], [])
    pieces = []
    while received.sections:
        pieces.append(received.next_chunk(16.0, chunk_bytes=10_000))
    assert b"".join(bytes(it.data) for piece in pieces for it in piece if it.tp == T0) == data
    assert b"".join(bytes(it.data) for piece in pieces for it in piece if it.tp == T1) == data
    sizes = [sum(len(it.data) for it in piece) for piece in pieces]
    assert max(sizes) < 12_000
    assert len(pieces) < 13


def test_compressed_sections_count_with_their_expected_decoded_size() -> None:
    data = b"".join(batch(i, size=1_000, compression="lz4") for i in range(50))
    received = CompletedFetch(1, [section(data)], [])
    (first,) = received.next_chunk(10.0, chunk_bytes=len(data))
    assert len(data) / 12 < len(first.data) < len(data) / 8


def test_small_sections_share_a_chunk() -> None:
    sections = [Section(TopicPartition("t", number), memoryview(batch(0)), 0) for number in range(100)]
    received = CompletedFetch(1, sections, [])
    assert len(received.next_chunk(1.0)) == 100


def aborted_texts(sections: list[Section]) -> list[str]:
    found = []
    for it in sections:
        (decoded,) = decode_sections([RecordSection("t", 0, it.data, it.fetch_offset, it.aborted)])
        assert decoded.error is None
        found += [value.decode() for value in decoded.columns.values() if value is not None]
    return found


def test_aborted_transactions_are_skipped_at_any_cut_of_a_section() -> None:
    batches = [
        transactional(0, 7, "aborted"),
        transactional(1, 8, "kept"),
        transactional(2, 7, "aborted too"),
        marker(3, 7, commit=False),
        transactional(4, 7, "kept too"),
        marker(5, 8, commit=True),
        transactional(6, 8, "aborted as well"),
        marker(7, 7, commit=True),
        marker(8, 8, commit=False),
        transactional(9, 8, "kept at last"),
    ]
    whole = section(b"".join(batches), aborted=[(7, 0), (8, 6)])
    kept = ["kept", "kept too", "kept at last"]
    assert aborted_texts([whole]) == kept
    at = 0
    for number in range(1, len(batches)):
        at += len(batches[number - 1])
        cut = cut_section(whole, at)
        assert cut is not None
        assert aborted_texts(list(cut)) == kept, f"cut before batch {number}"
