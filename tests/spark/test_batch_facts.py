"""The broker-fact columns of `records`, as Arrow: what the header says, null where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.spark.arrow import Batcher, arrow_schema
from kcli.spark.record_schema import BATCH_FACTS
from kcli.structs import TopicPartition

TP = TopicPartition("t", 0)


def rows(data: bytes, **how: Any) -> list[dict[str, Any]]:
    [section] = decode_sections([RecordSection(*TP, data, 0)])
    found = list(Batcher(TP, [("offset", "bigint"), *BATCH_FACTS], **how).batches(section.columns))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema == arrow_schema([("offset", "bigint"), *BATCH_FACTS])
    return [row for batch in found for row in batch.to_pylist()]


def test_facts_of_plain_and_of_transactional_records_over_several_arrow_batches() -> None:
    three = [NewRecord(b"k", b"v", 5)] * 3
    how: dict[str, Any] = {"producer_id": 9, "producer_epoch": 4, "base_sequence": 70, "transactional": True}
    data = build_batch(three, leader_epoch=1) + build_batch(
        three, base_offset=3, leader_epoch=2, compression="zstd", **how
    )
    plain = {"producer_id": None, "producer_epoch": None, "sequence": None, "compression": "none", "base_offset": 0}
    theirs = {"producer_id": 9, "producer_epoch": 4, "compression": "zstd", "base_offset": 3}
    assert rows(data, batch_rows=4) == [
        *[{"offset": n, "leader_epoch": 1, **plain, "is_transactional": False} for n in range(3)],
        *[
            {"offset": 3 + n, "leader_epoch": 2, **theirs, "sequence": 70 + n, "is_transactional": True}
            for n in range(3)
        ],
    ]


def test_an_unknown_leader_epoch_is_null() -> None:
    [row] = rows(build_batch([NewRecord(None, None, 0)]))
    assert row["leader_epoch"] is None
