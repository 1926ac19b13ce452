"""The one part of planning that talks to brokers: partitions, ends of logs, offsets by time and of groups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.spark.options import SourceOptions
    from kcli.structs import Node


class LogEnds(NamedTuple):
    """A log's first offset and the one behind its last record: under read_committed the last stable offset."""

    start: int
    end: int


class Lookup:
    """Looks things up for one `SourceOptions`; connects at the first question. Use it in a `with`, or `close` it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: ConsumerNetworkClient | None = None

    def __enter__(self) -> Lookup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> ConsumerNetworkClient:
        """The connection, made when it is first asked for."""
        if self._client is None:
            from kcli.client.connect import connect
            from kcli.spark.options import client_config

            self._client = connect(client_config(self._options))
        return self._client

    def now_ms(self) -> int:
        """The time, ms since the epoch."""
        return int(time.time() * 1000)

    def partitions(self) -> set[TopicPartition]:
        """The partitions that the options select and that exist."""
        raise NotImplementedError

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnds]:
        """Where the logs begin and end. Partitions that are gone are left out; other troubles raise."""
        raise NotImplementedError

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of the first record at or after the time (ms since the epoch) of each; -1: none so young."""
        raise NotImplementedError

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """What the group has committed."""
        raise NotImplementedError

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID | None]:
        """Ids of topics; None from a broker older than 2.8."""
        raise NotImplementedError

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Node | None]:
        """Who leads; None: nobody now."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up the connection. The next question makes another one."""
        if self._client is not None:
            self._client.close()
            self._client = None
