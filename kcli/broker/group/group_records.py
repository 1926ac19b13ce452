"""Records of __consumer_offsets: their encoding, and the replay of the whole topic at start. Pure.

A replay keeps the latest record of each key in bytes and decodes only those: a group commits the same few offsets over
and over.

Records of a transaction (KIP-98) are held per producer until its commit or abort marker; a marker ends only what the
producer wrote in the same partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.group.offset_cache import OffsetCache, Producer
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
from kcli.protocol.records.record import COMMIT_MARKER, control_type
from kcli.structs import OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kcli.broker.group.consumer_group import ConsumerGroup
    from kcli.protocol.records.batch import BatchInfo
    from kcli.protocol.records.scan import Pair

StoredGroup: TypeAlias = "GroupMetadataValue | ConsumerGroup"
KeyAndValue: TypeAlias = "tuple[bytes, bytes | None]"

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

    def add_batch(self, partition: int, batch: BatchInfo, pairs: Sequence[Pair]) -> None:
        """Add the next whole batch of a partition, with its keys and values. CorruptRecords for a damaged marker."""
        base_offset, producer = batch.base_offset, (partition, batch.producer_id)
        if batch.is_control:
            for committed in [_is_commit(key) for _, key, _ in pairs]:
                self._end_transaction(producer, committed)
            return
        table = self.latest
        if batch.is_transactional:
            table = self.transactions.setdefault(producer, {})
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
    restore: Callable[[str, StoredGroup | None], None],
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
    pending = [(record, key, id) for id, records in replay.transactions.items() for key, record in records.items()]
    for record, key, producer in sorted(pending):
        latest = replay.latest.get(key)
        is_replaced = latest is not None and latest.offset > record.offset
        decoder.add_pending(producer, key, None if is_replaced else record.value)
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
        self.groups: dict[str, StoredGroup | None] = {}
        self.skipped: Counter[str] = Counter()

    def add(self, data: bytes, offset: int, value: bytes | None) -> None:
        """Add a key with its latest value, None if it was deleted or is not committed."""
        try:
            key = decode_key(data)
            if key is None:
                self._add_to_consumer_group(data, value)
            elif isinstance(key, GroupMetadataKey):
                if value is not None:
                    self.groups[key.group] = decode_group_value(value)
            else:
                self._add_offset(key, value)
                if offset > self._group_tombstones.get(key.group, -1):
                    self.groups.setdefault(key.group, None)
        except ProtocolError:
            self.skipped[_DAMAGED] += 1

    def _add_to_consumer_group(self, data: bytes, value: bytes | None) -> None:
        """Add a record of a KIP-848 group. A group is there if it has any; all its records make it, in any order."""
        from kcli.broker.group.consumer_group import ConsumerGroup  # most brokers have no such group
        from kcli.protocol.consumer_group_records import decode_group_record

        record: tuple[Any, Any] | None = decode_group_record(data, value)
        if record is None:
            self.skipped[_UNKNOWN_KINDS] += 1
        elif value is not None:
            group = self.groups.get(record[0].group_id)
            if not isinstance(group, ConsumerGroup):
                group = self.groups[record[0].group_id] = ConsumerGroup(record[0].group_id)
            group.apply(*record)

    def _add_offset(self, key: OffsetCommitKey, value: bytes | None) -> None:
        if value is not None:
            committed = _from_value(decode_offset_value(value))
            self.cache.put(key.group, [(TopicPartition(key.topic, key.partition), committed)])

    def add_pending(self, producer: Producer, data: bytes, value: bytes | None) -> None:
        """Add a key of an open transaction; None: a later record has replaced its value.

        Keys that cannot be decoded were already counted by `add`.
        """
        with suppress(ProtocolError):
            key = decode_key(data)
            if isinstance(key, OffsetCommitKey):
                committed = None if value is None else _from_value(decode_offset_value(value))
                self.cache.put_pending(producer, key.group, [(TopicPartition(key.topic, key.partition), committed)])


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
