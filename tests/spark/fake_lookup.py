"""Fake of `Lookup` for planning without brokers: the test changes the logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kcli.spark.broker_lookup import LogEnds
from kcli.spark.options import SourceOptions, parse_options
from kcli.structs import TopicPartition

BASE = {"kafka.bootstrap.servers": "a:9092", "subscribe": "orders"}


def options(stream: bool = False, **given: object) -> SourceOptions:
    """Return options that read topic orders, changed by `given`; an underscore stands for a dot."""
    changed = {name.replace("_", "."): str(value) for name, value in given.items()}
    base = dict(BASE)
    if {"assign", "subscribePattern"} & changed.keys():
        del base["subscribe"]
    return parse_options({**base, **changed}, stream=stream)


def orders(*offsets: int) -> dict[TopicPartition, int]:
    """Return offsets of partitions 0, 1, ... of topic orders."""
    return {TopicPartition("orders", number): offset for number, offset in enumerate(offsets)}


def logs(*ends: tuple[int, int]) -> dict[TopicPartition, LogEnds]:
    """Return logs of partitions 0, 1, ... of topic orders."""
    return {TopicPartition("orders", number): LogEnds(*both) for number, both in enumerate(ends)}


FIRST_MS = 1_700_000_000_000


class FakeLookup:
    """Answers of a `Lookup`, for logs in which the record at offset n has the timestamp FIRST_MS + 1000 * n."""

    def __init__(self, *ends: tuple[int, int]) -> None:
        self.there = logs(*ends)
        self.hidden: dict[TopicPartition, int] = {}  # high watermarks after the last stable offset
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.ids: dict[str, UUID | None] = {"orders": UUID(int=1)}
        self.wall_ms = FIRST_MS + 100_000
        self.asked = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def partitions(self) -> set[TopicPartition]:
        return set(self.there)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnds]:
        self.asked += 1
        return {tp: self.there[tp] for tp in sorted(partitions) if tp in self.there}

    def logs(
        self, known: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, LogEnds]:
        return self.ends(self.partitions() if partitions is None else partitions)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.hidden.get(tp, self.there[tp].end) for tp in partitions if tp in self.there}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {}
        for tp, ms in times.items():
            offset = max(self.there[tp].start, -((FIRST_MS - ms) // 1000))
            found[tp] = offset if offset < self.there[tp].end else -1
        return found

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        return self.committed.get(group, {})

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID | None]:
        return {topic: self.ids.get(topic) for topic in topics}

    def close(self) -> None: ...
