"""`FetchLoop`: find positions, send fetches, return records; shared by `Consumer` and `RangeReader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kcli import logs
from kcli.client.metrics import RECORDS
from kcli.consumer.fetcher import Fetcher
from kcli.consumer.offset_fetcher import OffsetFetcher
from kcli.consumer.subscription import PartitionFailure, SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.fetch_buffer import Decode
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.records.columns import RecordColumns


class PollTask(Protocol):
    """A task that runs in each poll before records are returned: a membership, commits."""

    def poll(self, now_ms: float) -> None: ...
    def next_ms(self) -> float: ...
    def suspends_delivery(self, now_ms: float) -> bool:
        """True if no records may be returned now."""


class UnknownTopics:
    """A `PollTask` that logs the subscribed topics and assigned partitions which do not exist, each once.

    They may be created later, so that they are no error.
    """

    def __init__(self, client: ConsumerNetworkClient, subscription: SubscriptionState) -> None:
        self._client = client
        self._subscription = subscription
        self._logged: set[str] = set()
        self._checked_in: object = None
        self._count = 0

    def poll(self, now_ms: float) -> None:
        """Look for unknown names after a change of the metadata or of the partitions."""
        cluster, partitions = self._client.metadata.cluster, self._subscription.partitions()
        if self._checked_in is cluster and self._count == len(partitions):
            return
        self._checked_in, self._count = cluster, len(partitions)
        unknown = {f"topic {topic}" for topic in self._subscription.topics if self._is_unknown(topic)}
        for tp in partitions:
            if self._is_unknown(tp.topic):
                unknown.add(f"topic {tp.topic}")
            elif (topic := cluster.topics.get(tp.topic)) and topic.partitions and tp.partition not in topic.partitions:
                unknown.add(f"partition {tp}")
        for name in sorted(unknown - self._logged):
            logs.warning("kcli.consumer", "%s does not exist; it is read when it is created", name)
        self._logged = unknown

    def _is_unknown(self, topic: str) -> bool:
        info = self._client.metadata.cluster.topics.get(topic)
        return info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def next_ms(self) -> float:
        """Return infinity: new metadata end a poll of the client."""
        return float("inf")

    def suspends_delivery(self, now_ms: float) -> bool:
        """Return False."""
        return False


class FetchLoop:
    """The loop over the partitions of a subscription. Errors of partitions are collected in `failures`, for the caller.

    The `tasks` run first, in order; their exceptions end the poll.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        *,
        memory_bytes: int | None = None,
        lookup: CoordinatorLookup | None = None,
        decode: Decode | None = None,
    ) -> None:
        self._client = client
        self._subscription = subscription
        self.tasks: list[PollTask] = []
        self.offsets = OffsetFetcher(client, subscription, config, lookup)
        self.fetcher = Fetcher(client, subscription, config, memory_bytes=memory_bytes, decode=decode)
        self.failures: list[PartitionFailure] = []
        self._can_decode = False

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Return records as soon as there are some.

        Return an empty list at the timeout, when there are `failures` to handle, or when a partition has reached its
        end. Raise AuthenticationError if it has failed and no broker is connected.
        """
        clock, client = self._client.clock, self._client
        fetcher, buffer = self.fetcher, self.fetcher.buffer
        deadline_ms = clock.now_ms() + timeout_ms
        while True:
            for task in self.tasks:
                task.poll(clock.now_ms())
            now_ms = clock.now_ms()
            buffer.start_next()
            self.offsets.send(now_ms)
            fetcher.send(now_ms)
            records = []
            if buffer:
                client.poll(timeout_ms=0)  # the next requests are sent before anything is decoded
            is_suspended = self._delivery_is_suspended()
            if buffer and not is_suspended:
                records = buffer.take()
                self._client.metrics.sensor(RECORDS).record(sum(len(columns) for _, columns in records), clock.now_ms())
            else:
                self._wait(deadline_ms)
            self.failures += self.offsets.take_failures() + buffer.take_failures()
            out_of_time = clock.now_ms() >= deadline_ms and (is_suspended or not buffer)
            if records or self.failures or self._subscription.ended or out_of_time:
                return records

    def _delivery_is_suspended(self) -> bool:
        return any(task.suspends_delivery(self._client.clock.now_ms()) for task in self.tasks)

    def _wait(self, deadline_ms: float) -> None:
        """Wait for a response, or for the next retry.

        The first call loads numpy instead, while the first fetch is in flight.
        """
        if not self._can_decode and self.fetcher.is_fetching:
            self._client.poll(timeout_ms=0)
            import kcli.protocol.records.decode  # noqa: F401

            self._can_decode = True
            return
        now_ms = self._client.clock.now_ms()
        until_ms = min(deadline_ms, self.offsets.next_ms(), self.fetcher.next_ms())
        for task in self.tasks:
            until_ms = min(until_ms, task.next_ms())
        self._client.poll(timeout_ms=max(0.0, until_ms - now_ms))
        self._client.raise_authentication_error()

    def close(self) -> None:
        """Stop fetching. No wakeup interrupts this."""
        self.fetcher.close()
        with self._client.without_wakeups():
            self._client.poll(timeout_ms=0)
