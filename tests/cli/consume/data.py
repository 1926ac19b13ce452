"""Records of a partition as columns, decoded from a batch as a broker would send it."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.records.columns import RecordColumns
from kcli.protocol.records.decode import RecordSection, decode_sections
from kcli.structs import TopicPartition

ORDERS_3 = TopicPartition("orders", 3)
NOON = 1_706_702_400_000  # 2024-01-31T12:00:00Z


def record(
    value: bytes | None = b"v",
    key: bytes | None = None,
    timestamp_ms: int = NOON,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> NewRecord:
    return NewRecord(key, value, timestamp_ms, headers)


def columns(*records: NewRecord, base_offset: int = 0, **options: object) -> RecordColumns:
    batch = build_batch(records, base_offset=base_offset, **options)  # type: ignore[arg-type]
    [section] = decode_sections([RecordSection("orders", 3, batch, base_offset, None)])
    assert section.error is None
    return section.columns
