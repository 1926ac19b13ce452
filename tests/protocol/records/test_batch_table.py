"""Facts of each record from its batch header (KIP-98), also after cuts, holes, old formats and aborts."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.protocol.records.batch_table import BatchFacts
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.decode import RecordSection, decode_sections
from tests.protocol.records.vectors import VECTORS


def decoded(data: bytes, offset: int = 0, aborted: list[tuple[int, int]] | None = None) -> RecordColumns:
    [section] = decode_sections([RecordSection("t", 0, data, offset, aborted)])
    assert section.error is None
    return section.columns


def facts_by_record(facts: BatchFacts) -> list[tuple[int, ...]]:
    """Return (offset, base offset, leader epoch, producer, epoch, sequence) of each record."""
    batches = facts.batches
    whole = (facts.of_each(it) for it in (batches.leader_epochs, batches.producer_ids, batches.producer_epochs))
    columns = (facts.offsets, facts.base_offsets(), *whole, facts.sequences())
    return list(zip(*(it.tolist() for it in columns), strict=True))


def test_facts_of_a_transactional_batch_written_by_kafka() -> None:
    facts = decoded(VECTORS["v2-none-txn-pid4000-ep3-seq9"]).batch_facts()
    assert facts_by_record(facts) == [(100, 100, 5, 4000, 3, 9), (101, 100, 5, 4000, 3, 10)]
    assert facts.transactional().tolist() == [1, 1]


def test_a_selected_record_has_the_facts_of_its_own_batch() -> None:
    rows = [NewRecord(None, b"v", 0)] * 3
    data = b"".join(
        build_batch(rows, base_offset=3 * n, leader_epoch=n, compression=codec)
        for n, codec in enumerate(["none", "gzip", "lz4", "none"])
    )
    columns = decoded(data, offset=1)
    facts = columns.batch_facts()
    assert [(it[0], it[1], it[2]) for it in facts_by_record(facts)] == [(o, o // 3 * 3, o // 3) for o in range(1, 12)]
    assert facts.codecs().tolist() == [0, 0, 1, 1, 1, 3, 3, 3, 0, 0, 0]
    assert [it[:3] for it in facts_by_record(columns.take([10, 0, 5]).batch_facts())] == [
        (11, 9, 3),
        (1, 0, 0),
        (6, 6, 2),
    ]
    assert facts_by_record(columns.take(slice(4, 5)).batch_facts()) == [(5, 3, 1, -1, -1, -1)]


def test_sections_of_one_response_have_their_own_batches() -> None:
    data = [build_batch([NewRecord(None, b"v", 0)] * 2, base_offset=5, leader_epoch=n) for n in range(3)]
    sections = decode_sections([RecordSection("t", n, it, 0) for n, it in enumerate(data)])
    assert [[row[2] for row in facts_by_record(it.columns.batch_facts())] for it in sections] == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]


def test_sequences_count_offsets_and_wrap_after_31_bits() -> None:
    """As DefaultRecordBatch.incrementSequence: 2147483647 is followed by 0; compaction leaves holes in both."""
    how: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 2}
    data = build_batch([NewRecord(None, b"v", 0)] * 3, offset_deltas=[0, 1, 5], base_offset=40, **how)
    assert [(row[0], row[5]) for row in facts_by_record(decoded(data).batch_facts())] == [
        *[(40, 2**31 - 2), (41, 2**31 - 1), (45, 3)]
    ]


def test_skipped_batches_do_not_shift_the_others() -> None:
    how: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    row = [NewRecord(None, b"v", 0)]
    marker = [NewRecord(bytes([0, 0, 0, 0]), bytes(6), 0)]
    data = (
        build_batch(row, base_offset=0, base_sequence=0, leader_epoch=1, **how)
        + build_batch(marker, base_offset=1, control=True, leader_epoch=1, **how)
        + build_batch([], base_offset=2, last_offset_delta=3, leader_epoch=1)
        + build_batch(row, base_offset=6, leader_epoch=2)
    )
    assert facts_by_record(decoded(data, aborted=[(7, 0)]).batch_facts()) == [(6, 6, 2, -1, -1, -1)]


@pytest.mark.parametrize("name", [name for name in VECTORS if "2rec" in name])
def test_old_formats_have_no_producer_and_compressed_sets_no_base_offset(name: str) -> None:
    facts = decoded(VECTORS[name]).batch_facts()
    bases = [42, 43] if "none" in name else [-1, -1]
    assert facts_by_record(facts) == [(42, bases[0], -1, -1, -1, -1), (43, bases[1], -1, -1, -1, -1)]
    assert facts.transactional().tolist() == [0, 0]


def test_records_without_batches_have_no_facts() -> None:
    with pytest.raises(ValueError, match="not known"):
        RecordColumns.empty().batch_facts()
