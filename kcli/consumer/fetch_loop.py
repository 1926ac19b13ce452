"""`FetchLoop`: positions, fetches and records, turn by turn; what `Consumer` and `RangeReader` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kcli.consumer.fetch_buffer import Failure
from kcli.consumer.fetcher import Fetcher
from kcli.consumer.offset_fetcher import OffsetFetcher
from kcli.consumer.subscription import SubscriptionState
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.fetch_buffer import Decode
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.records.columns import RecordColumns


class Party(Protocol):
    """Somebody else who has something to do now and then, before records are taken: a membership, commits."""

    def poll(self, now_ms: float) -> None: ...
    def next_ms(self) -> float: ...
    def holds_back(self, now_ms: float) -> bool:
        """No records shall be handed out now."""


class FetchLoop:
    """Reads the partitions of a subscription; what stops one of them is collected in `failures`, for the caller.

    `parties` have their turn first, in order; what they raise ends the poll.
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
        self.parties: list[Party] = []
        self.offsets = OffsetFetcher(client, subscription, config, lookup)
        self.fetcher = Fetcher(client, subscription, config, memory_bytes=memory_bytes, decode=decode)
        self.failures: list[Failure] = []
        self._can_decode = False

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Records as soon as there are some.

        Nothing when the time is over, when there are `failures` to be looked at, or a partition has come to its end.
        """
        clock, client = self._client.clock, self._client
        fetcher, delivery = self.fetcher, self.fetcher.delivery
        deadline_ms = clock.now_ms() + timeout_ms
        while True:
            for party in self.parties:
                party.poll(clock.now_ms())
            now_ms = clock.now_ms()
            delivery.begin_next()
            self.offsets.send(now_ms)
            fetcher.send(now_ms)
            records = []
            if delivery:
                client.poll(timeout_ms=0)  # the next requests leave before anything is decoded
            held_back = self._is_held_back()
            if delivery and not held_back:
                records = delivery.take()
            else:
                self._wait(deadline_ms)
            self.failures += self.offsets.take_failures() + delivery.take_failures()
            out_of_time = clock.now_ms() >= deadline_ms and (held_back or not delivery)
            if records or self.failures or self._subscription.finished or out_of_time:
                return records

    def _is_held_back(self) -> bool:
        return any(party.holds_back(self._client.clock.now_ms()) for party in self.parties)

    def _wait(self, deadline_ms: float) -> None:
        """Until something arrives, or is to be asked again. The first time numpy is loaded instead."""
        if not self._can_decode and self.fetcher.is_fetching:
            self._client.poll(timeout_ms=0)
            import kcli.protocol.records.decode  # noqa: F401

            self._can_decode = True
            return
        now_ms = self._client.clock.now_ms()
        until_ms = min(deadline_ms, self.offsets.next_ms(), self.fetcher.next_ms())
        for party in self.parties:
            until_ms = min(until_ms, party.next_ms())
        self._client.poll(timeout_ms=max(0.0, until_ms - now_ms))

    def close(self) -> None:
        """Stop fetching."""
        self.fetcher.close()
        self._client.poll(timeout_ms=0)
