"""What the header of a record batch (format v2, KIP-98) tells the log."""

from __future__ import annotations

from typing import NamedTuple

from kcli.protocol.records import batch
from kcli.protocol.records.batch import Buffer

_MOST_SEQUENCE = (1 << 31) - 1


class BatchInfo(NamedTuple):
    """One batch: offsets, times in ms, its producer (ids -1: none), its `size` in bytes, and the bytes themselves."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size: int
    records: Buffer

    def __repr__(self) -> str:
        producer = (
            f" producer={self.producer_id}/{self.producer_epoch}@{self.base_sequence}" if self.has_producer else ""
        )
        return f"<BatchInfo {self.base_offset}..{self.last_offset} n={self.record_count} {self.size} bytes{producer}>"

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers go on at 0 behind the largest int32. -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        last = self.base_sequence + self.last_offset - self.base_offset
        return last if last <= _MOST_SEQUENCE else last - _MOST_SEQUENCE - 1

    @property
    def codec(self) -> int:
        return self.attributes & batch.CODEC_MASK

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & batch.APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & batch.TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & batch.CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When its tombstones may go (KIP-534), once a cleaner has passed over them."""
        return self.base_timestamp_ms if self.attributes & batch.DELETE_HORIZON_BIT else None


def read_batch_info(data: Buffer, at: int = 0) -> BatchInfo:
    """The header at `at`, believed as it stands; `struct.error` when `data` ends inside it."""
    (
        base_offset, size, leader_epoch, _magic, _crc, attributes, last_delta, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, count,
    ) = batch.HEADER.unpack_from(data, at)  # fmt: skip
    size += batch.PREFIX_BYTES
    return BatchInfo(
        base_offset, base_offset + last_delta, leader_epoch, attributes, base_timestamp_ms, max_timestamp_ms,
        producer_id, producer_epoch, base_sequence, count, size, memoryview(data)[at : at + size],
    )  # fmt: skip
