"""Records of __consumer_offsets: their encoding, and the replay of the whole topic at start. Pure.

A replay keeps the latest record of each key in bytes and decodes only those: a group commits the same few offsets over
and over.

Records of a transaction (KIP-98) are held per producer until its commit or abort marker; a marker ends only what the
producer wrote in the same partition. This broker runs no transactions yet, but a data directory of Apache Kafka may
contain some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.group.offset_cache import OffsetCache
from kcli.errors import CorruptRecords, ProtocolError
from kcli.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
    encode_offset_value,
)
from kcli.protocol.records import batch as layout
from kcli.protocol.records.checksum import crc32c
from kcli.protocol.records.record import COMMIT_MARKER, control_type
from kcli.protocol.records.scan import read_pairs
from kcli.structs import OFFSETS_TOPIC, TopicPartition

KeyAndValue: TypeAlias = "tuple[bytes, bytes | None]"
Producer: TypeAlias = tuple[int, int]  # partition of __consumer_offsets, producer id

_UNKNOWN_KINDS = "of unknown kinds"
_DAMAGED = "that cannot be decoded"


def offset_record(group_id: str, partition: TopicPartition, committed: CommittedOffset | None) -> KeyAndValue:
    """Return the record of a committed offset; None: its tombstone."""
    key = encode_key(OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition))
    return key, None if committed is None else encode_offset_value(_to_value(committed))


def group_record(group_id: str, value: GroupMetadataValue | None) -> KeyAndValue:
    """Return the record of a group's state; None: its tombstone."""
    return encode_key(GroupMetadataKey(group=group_id)), None if value is None else encode_group_value(value)


class LatestValue(NamedTuple):
    """The latest value of a key, None after a tombstone. `offset` is that of the last record with a value."""

    offset: int
    value: bytes | None


class Replay:
    """State of all replayed batches, by record key.

    `latest` has the latest value of each key; `tombstones` the offset of each key's last tombstone; `transactions` the
    records of open transactions by producer; `transactional` the offset of the last record that any transaction wrote
    for a key, committed or not.
    """

    def __init__(self) -> None:
        self.latest: dict[bytes, LatestValue] = {}
        self.tombstones: dict[bytes, int] = {}
        self.transactions: dict[Producer, dict[bytes, LatestValue]] = {}
        self.transactional: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<Replay {len(self.latest)} keys, {len(self.transactions)} open transactions>"

    def add_batch(self, partition: int, data: memoryview) -> None:
        """Add the next whole batch of a partition. CorruptRecords, and no change, when it is damaged."""
        header = layout.HEADER.unpack_from(data)
        base_offset, magic, crc, attributes, producer_id = header[0], header[3], header[4], header[5], header[9]
        if magic == 2 and crc32c(data[layout.CRC_FROM :]) != crc & 0xFFFFFFFF:
            raise CorruptRecords("its checksum is wrong")
        pairs = read_pairs(data)
        if attributes & layout.CONTROL_BIT:
            for committed in [_is_commit(key) for _, key, _ in pairs]:
                self._end_transaction((partition, producer_id), committed)
            return
        table = self.latest
        if attributes & layout.TRANSACTIONAL_BIT:
            table = self.transactions.setdefault((partition, producer_id), {})
        for delta, key, value in pairs:
            if key is None:
                continue
            if value is None:
                self._delete(key, base_offset + delta)
                continue
            table[key] = LatestValue(base_offset + delta, value)
            if table is not self.latest:
                self.transactional[key] = base_offset + delta

    def _delete(self, key: bytes, offset: int) -> None:
        self.tombstones[key] = offset
        current = self.latest.get(key)
        if current is not None:
            self.latest[key] = LatestValue(current.offset, None)
        for open_records in self.transactions.values():
            open_records.pop(key, None)

    def _end_transaction(self, producer: Producer, committed: bool) -> None:
        """Keep the records of a committed transaction, except where a later record has replaced them."""
        for key, record in self.transactions.pop(producer, {}).items():
            current = self.latest.get(key)
            if committed and (current is None or current.offset < record.offset):
                self.latest[key] = record


def _is_commit(key: bytes | None) -> bool:
    kind = control_type(key)
    if kind is None:
        raise CorruptRecords("a transaction marker has no type")
    return kind == COMMIT_MARKER


def load_replay(
    replay: Replay,
    cache: OffsetCache,
    restore: Callable[[str, GroupMetadataValue | None], None],
    report: Callable[[str], None],
) -> None:
    """Fill an empty cache from a replay, then call `restore` for every group.

    The value None is a group that has only committed offsets. Such a group remains after its last offset is deleted,
    until it expires.
    """
    decoder = _Decoder(cache, replay)
    for key, (offset, value) in replay.latest.items():
        decoder.add(key, offset, value)
    for key, offset in replay.transactional.items():
        decoder.add(key, offset, None)
    for key in (key for records in replay.transactions.values() for key in records):
        decoder.mark_unstable(key)
    for group_id, group in decoder.groups.items():
        restore(group_id, group)
    for kind, count in decoder.skipped.items():
        report(f"{OFFSETS_TOPIC}: {count} records {kind} were skipped")


class _Decoder:
    def __init__(self, cache: OffsetCache, replay: Replay) -> None:
        self.cache = cache
        self._group_tombstones: dict[str, int] = {}
        for data, offset in replay.tombstones.items():
            with suppress(ProtocolError):
                if isinstance(key := decode_key(data), GroupMetadataKey):
                    self._group_tombstones[key.group] = offset
        self.groups: dict[str, GroupMetadataValue | None] = {}
        self.skipped: Counter[str] = Counter()

    def add(self, data: bytes, offset: int, value: bytes | None) -> None:
        """Add a key with its latest value, None if it was deleted or is not committed."""
        try:
            key = decode_key(data)
            if key is None:
                self.skipped[_UNKNOWN_KINDS] += 1
            elif isinstance(key, GroupMetadataKey):
                if value is not None:
                    self.groups[key.group] = decode_group_value(value)
            else:
                self._add_offset(key, value)
                if offset > self._group_tombstones.get(key.group, -1):
                    self.groups.setdefault(key.group, None)
        except ProtocolError:
            self.skipped[_DAMAGED] += 1

    def _add_offset(self, key: OffsetCommitKey, value: bytes | None) -> None:
        if value is not None:
            committed = _from_value(decode_offset_value(value))
            self.cache.put(key.group, [(TopicPartition(key.topic, key.partition), committed)])

    def mark_unstable(self, data: bytes) -> None:
        """Add a key of an open transaction. Keys that cannot be decoded were already counted by `add`."""
        with suppress(ProtocolError):
            key = decode_key(data)
            if isinstance(key, OffsetCommitKey):
                self.cache.mark_unstable(key.group, TopicPartition(key.topic, key.partition))


def _to_value(committed: CommittedOffset) -> OffsetCommitValue:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    if committed.topic_id is not None:
        value.topic_id = committed.topic_id
    return value


def _from_value(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id if value.topic_id.int else None,
    )
