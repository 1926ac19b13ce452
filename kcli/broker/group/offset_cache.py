"""The committed offsets of all groups, by group and partition. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from kcli.broker.group.expiry import CommittedOffset
from kcli.structs import TopicPartition

_NOTHING: Mapping[TopicPartition, CommittedOffset] = MappingProxyType({})


class OffsetCache:
    """Besides, the partitions for which an open transaction holds an offset that may still be committed."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._unstable: dict[str, set[TopicPartition]] = {}

    def __repr__(self) -> str:
        return f"<OffsetCache {sum(map(len, self._groups.values()))} offsets of {len(self._groups)} groups>"

    def groups(self) -> Iterator[str]:
        """The groups that have offsets, those only committed in an open transaction included."""
        yield from {**self._groups, **self._unstable}

    def of_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All of a group's offsets; empty for an unknown group."""
        return self._groups.get(group, _NOTHING)

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction holds an offset for this partition."""
        return partition in self._unstable.get(group, ())

    def has_open_transaction(self, group: str) -> bool:
        """Whether an open transaction holds an offset of the group."""
        return group in self._unstable

    def put(self, group: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset]]) -> None:
        """Offsets that were committed outside of transactions, or by one that ended."""
        self._groups.setdefault(group, {}).update(offsets)

    def hold(self, group: str, partition: TopicPartition) -> None:
        """An open transaction has an offset for this partition."""
        self._unstable.setdefault(group, set()).add(partition)

    def remove(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget offsets, those of open transactions too."""
        offsets, unstable = self._groups.get(group, {}), self._unstable.get(group, set())
        for partition in partitions:
            offsets.pop(partition, None)
            unstable.discard(partition)
        if not offsets:
            self._groups.pop(group, None)
        if not unstable:
            self._unstable.pop(group, None)

    def partitions_to_forget(self, group: str) -> list[TopicPartition]:
        """All partitions for which the group has an offset, in or outside of transactions."""
        return list(dict.fromkeys([*self.of_group(group), *self._unstable.get(group, ())]))
