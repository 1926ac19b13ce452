"""Broker look-ups for planning: partitions, log bounds, offsets by time, committed offsets.

A look-up is tried `fetchOffset.numRetries` times in total, `fetchOffset.retryIntervalMs` apart, each time with a new
connection, and ends after `default.api.timeout.ms` at the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kcli.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kcli.clock import Clock, SystemClock
from kcli.error_codes import ErrorCode
from kcli.errors import AuthenticationError, BrokerError, ConfigError, KcliError, TimeoutExpired
from kcli.spark.selection import Assign, Pattern, Subscribe, compile_pattern
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster, TopicInfo
    from kcli.spark.options import SourceOptions

T = TypeVar("T")

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class LogEnds(NamedTuple):
    """First offset of a log, and its end offset: under read_committed the last stable offset."""

    start: int
    end: int


class Lookup:
    """Look-ups for one `SourceOptions`. Connects on the first call; use it in a `with` statement, or call `close`."""

    def __init__(self, options: SourceOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._config: ConsumerConfig | None = None
        self._client: ConsumerNetworkClient | None = None

    def __repr__(self) -> str:
        state = "connected" if self._client is not None else "not connected"
        return f"<Lookup {self._options.selection} {state}>"

    def __enter__(self) -> Lookup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def config(self) -> ConsumerConfig:
        """The client configuration. Files and variables that the options name are read on first access."""
        if self._config is None:
            from kcli.spark.client_options import client_config

            self._config = client_config(self._options.kafka)
        return self._config

    @property
    def client(self) -> ConsumerNetworkClient:
        """The client; it connects on first access."""
        if self._client is None:
            from kcli.client.connect import connect

            self._client = connect(self.config, self._clock)
        return self._client

    def now_ms(self) -> int:
        """Return the time, ms since the epoch."""
        return self._clock.wall_ms()

    def partitions(self) -> set[TopicPartition]:
        """Return the selected partitions that exist; without a selection, those of all topics except internal ones."""
        return self._retrying(self._partitions)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnds]:
        """Return the log bounds. Missing partitions are omitted; other errors raise."""
        requested = sorted(partitions)
        return self._retrying(lambda deadline_ms: self._ends(requested, deadline_ms))

    def logs(
        self, known: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, LogEnds]:
        """Return the bounds of these partitions, or of all selected ones.

        `known` are offsets that were seen before. A known partition that seems to be missing, or to end before its
        known offset, is looked up again before the answer is accepted: a broker may briefly have stale metadata.
        """
        requested = None if partitions is None else list(partitions)
        bounds: dict[TopicPartition, LogEnds] = {}
        for number in range(self._options.fetch_offset_attempts):
            if number:
                self.client.sleep(self._options.fetch_offset_retry_interval_ms)
            bounds = self.ends(self.partitions() if requested is None else requested)
            if all(tp in bounds and offset <= bounds[tp].end for tp, offset in known.items()):
                break
        return bounds

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermarks, whatever the isolation level. Missing partitions are omitted."""
        timestamps = dict.fromkeys(sorted(partitions), LATEST)
        return self._retrying(lambda deadline_ms: self._offsets(timestamps, deadline_ms, isolation=0))

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of the first record at or after each time (ms since the epoch); -1: no such record."""
        return self._retrying(lambda deadline_ms: self._offsets(times, deadline_ms))

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of the group; empty for a group that is unknown or has committed nothing."""
        return self._retrying(lambda deadline_ms: self._committed(group, deadline_ms))

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID | None]:
        """Return the latest known topic ids; None for an unknown topic, and from brokers before 2.8."""
        return {topic: self.client.metadata.topic_id(topic) for topic in topics}

    def close(self) -> None:
        """Close the connection. The next look-up opens a new one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _retrying(self, request: Callable[[float], T]) -> T:
        deadline_ms = self._clock.now_ms() + self.config.default_api_timeout_ms
        attempts = self._options.fetch_offset_attempts
        while True:
            attempts -= 1
            try:
                return request(deadline_ms)
            except (ConfigError, AuthenticationError, TimeoutExpired):
                raise
            except KcliError:
                is_too_late = self._clock.now_ms() + self._options.fetch_offset_retry_interval_ms >= deadline_ms
                if attempts <= 0 or is_too_late:
                    raise
                self.client.sleep(self._options.fetch_offset_retry_interval_ms)
                self.close()

    def _partitions(self, deadline_ms: float) -> set[TopicPartition]:
        selection = self._options.selection
        if isinstance(selection, Assign):
            names: list[str] | None = sorted({tp.topic for tp in selection.partitions})
        else:
            names = list(selection.topics) if isinstance(selection, Subscribe) else None
        cluster = self.client.topics_metadata(names, deadline_ms)
        if names is None:
            names = _matching_topics(selection, cluster.topics.values())
        partitions = {TopicPartition(name, number) for name in names for number in _partitions_of(cluster, name)}
        return partitions & selection.partitions if isinstance(selection, Assign) else partitions

    def _ends(self, partitions: list[TopicPartition], deadline_ms: float) -> dict[TopicPartition, LogEnds]:
        starts = self._offsets(dict.fromkeys(partitions, EARLIEST), deadline_ms)
        ends = self._offsets(dict.fromkeys(starts, LATEST), deadline_ms)
        # Apache's last stable offset is before the log start if the log starts within a batch of an open transaction.
        return {tp: LogEnds(starts[tp], max(starts[tp], end)) for tp, end in ends.items()}

    def _offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: float, isolation: int | None = None
    ) -> dict[TopicPartition, int]:
        if not timestamps:
            return {}
        level = int(self.config.reads_committed) if isolation is None else isolation
        result = list_offsets(self.client, timestamps, deadline_ms, level)
        for error in result.errors.values():
            if not (isinstance(error, BrokerError) and error.code in _GONE):
                raise error
        return {tp: timed.offset for tp, timed in result.values.items()}

    def _committed(self, group: str, deadline_ms: float) -> dict[TopicPartition, int]:
        from kcli.admin.groups.committed_offsets import committed_offsets

        result = committed_offsets(self.client, [group], deadline_ms)
        for error in result.errors.values():
            raise error
        offsets = {}
        for tp, committed in result.values[group].items():
            if isinstance(committed, KcliError):
                raise committed
            offsets[tp] = committed.offset
        return offsets


def _matching_topics(selection: object, topics: Iterable[TopicInfo]) -> list[str]:
    names = sorted(topic.name for topic in topics if not topic.internal)
    if not isinstance(selection, Pattern):
        return names
    pattern = compile_pattern(selection.regex)
    return [name for name in names if pattern.fullmatch(name)]


def _partitions_of(cluster: Cluster, name: str) -> Iterable[int]:
    error = cluster.topic_error(name)
    if error is None:
        return cluster.topics[name].partitions
    if error.code in (*_GONE, ErrorCode.LEADER_NOT_AVAILABLE):
        return ()
    raise error
