"""Offsets and groups as records of __consumer_offsets, and what a replay of all of them amounts to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.group.group_log import EndOfTransaction, KeyAndValue, LoggedRecord, LogItem
from kcli.broker.group.offset_cache import OffsetCache
from kcli.errors import ProtocolError
from kcli.protocol.offsets_topic import (
    TOPIC,
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
from kcli.structs import TopicPartition

_OTHER = "of kinds that only newer groups have"
_DAMAGED = "that cannot be read"


def offset_record(group_id: str, partition: TopicPartition, committed: CommittedOffset | None) -> KeyAndValue:
    """A committed offset; None: its tombstone."""
    key = encode_key(OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition))
    return key, None if committed is None else encode_offset_value(_to_value(committed))


def group_record(group_id: str, value: GroupMetadataValue | None) -> KeyAndValue:
    """A group's state; None: its tombstone."""
    return encode_key(GroupMetadataKey(group=group_id)), None if value is None else encode_group_value(value)


def load_into(
    cache: OffsetCache,
    restore: Callable[[str, GroupMetadataValue | None], None],
    items: Iterable[LogItem],
    report: Callable[[str], None],
) -> None:
    """Replay the log into an empty cache, then `restore` every group there is.

    None is a group that only ever committed offsets. Such a group outlives its last offset, until it expires.
    """
    groups: dict[str, GroupMetadataValue | None] = {}
    passed: Counter[str] = Counter()
    for item in items:
        if isinstance(item, EndOfTransaction):
            cache.end_transaction(item.producer, committed=item.committed)
            continue
        try:
            if not _replay(cache, groups, item):
                passed[_OTHER] += 1
        except ProtocolError:
            passed[_DAMAGED] += 1
    for group_id, value in groups.items():
        restore(group_id, value)
    for what, count in passed.items():
        report(f"{TOPIC}: {count} records {what} are passed over")


def _replay(cache: OffsetCache, groups: dict[str, GroupMetadataValue | None], record: LoggedRecord) -> bool:
    """Whether it is a record of ours."""
    key = decode_key(record.key)
    if isinstance(key, OffsetCommitKey):
        committed = None if record.value is None else _from_value(decode_offset_value(record.value))
        partition = TopicPartition(key.topic, key.partition)
        cache.replay(record.place, record.producer, key.group, partition, committed)
        if committed is not None:
            groups.setdefault(key.group, None)
    elif isinstance(key, GroupMetadataKey):
        if record.value is None:
            groups.pop(key.group, None)
        else:
            groups[key.group] = decode_group_value(record.value)
    return key is not None


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
