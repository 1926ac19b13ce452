"""Offsets and groups as records of __consumer_offsets, and what a replay of all of them amounts to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from kcli.broker.group.expiry import CommittedOffset
from kcli.broker.group.group_log import KeyAndValue
from kcli.broker.group.offset_cache import OffsetCache
from kcli.broker.group.replay import Replay
from kcli.errors import ProtocolError
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
from kcli.structs import OFFSETS_TOPIC, TopicPartition

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
    replay: Replay,
    report: Callable[[str], None],
) -> None:
    """Fill an empty cache with what the log amounts to, then `restore` every group there is.

    None is a group that only ever committed offsets. Such a group outlives its last offset, until it expires.
    """
    loading = _Loading(cache, replay)
    for key, (place, value) in replay.latest.items():
        loading.take(key, place, value)
    for key, place in replay.touched.items():
        loading.take(key, place, None)
    for key in (key for held in replay.open.values() for key in held):
        loading.hold(key)
    for group_id, group in loading.groups.items():
        restore(group_id, group)
    for what, count in loading.passed.items():
        report(f"{OFFSETS_TOPIC}: {count} records {what} are passed over")


class _Loading:
    def __init__(self, cache: OffsetCache, replay: Replay) -> None:
        self.cache = cache
        self._deleted_at: dict[str, int] = {}
        for data, place in replay.deleted_at.items():
            with suppress(ProtocolError):
                if isinstance(key := decode_key(data), GroupMetadataKey):
                    self._deleted_at[key.group] = place
        self.groups: dict[str, GroupMetadataValue | None] = {}
        self.passed: Counter[str] = Counter()

    def take(self, data: bytes, place: int, value: bytes | None) -> None:
        """A key with its latest value, None if that is gone or does not count."""
        try:
            key = decode_key(data)
            if key is None:
                self.passed[_OTHER] += 1
            elif isinstance(key, GroupMetadataKey):
                if value is not None:
                    self.groups[key.group] = decode_group_value(value)
            else:
                self._take_offset(key, value)
                if place > self._deleted_at.get(key.group, -1):
                    self.groups.setdefault(key.group, None)
        except ProtocolError:
            self.passed[_DAMAGED] += 1

    def _take_offset(self, key: OffsetCommitKey, value: bytes | None) -> None:
        if value is not None:
            committed = _from_value(decode_offset_value(value))
            self.cache.put(key.group, [(TopicPartition(key.topic, key.partition), committed)])

    def hold(self, data: bytes) -> None:
        """A key that an open transaction wrote; `take` has counted it if it is none of ours."""
        with suppress(ProtocolError):
            key = decode_key(data)
            if isinstance(key, OffsetCommitKey):
                self.cache.hold(key.group, TopicPartition(key.topic, key.partition))


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
