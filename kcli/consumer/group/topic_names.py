"""`TopicNames`: what the topics are called that a broker has assigned by their ids (KIP-848, KIP-516)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff
from kcli.errors import KcliError

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.protocol.messages.metadata import MetadataResponse

# From this version on Metadata looks a topic up by its id.
FIRST_VERSION_BY_ID = 12


class TopicNames:
    """The names that metadata knows, and those that brokers were asked for one by one. `trouble` is for a person."""

    def __init__(self, client: ConsumerNetworkClient) -> None:
        self._client = client
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._told: dict[UUID, str] = {}
        self._asked: RequestFuture[MetadataResponse] | None = None
        self._failures = 0
        self._not_before_ms = float("-inf")
        self.trouble = ""

    def of(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """The names known so far; those of other topics are forgotten."""
        known = {t.topic_id: t.name for t in self._client.metadata.cluster.topics.values() if t.topic_id is not None}
        self._told = {it: name for it in topic_ids if (name := known.get(it) or self._told.get(it)) is not None}
        return self._told

    def ask(self, topic_ids: Iterable[UUID], now_ms: float) -> None:
        """Ask for these, unless a question is on its way or the last one failed a moment ago."""
        from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        if self._asked is not None or now_ms < self._not_before_ms:
            return
        node = self._client.least_loaded_node()
        if node is None:
            self._failed("no broker can be reached", now_ms)
            return
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self._asked = self._client.send(node, request, min_version=FIRST_VERSION_BY_ID)
        self._asked.on_done(self._answered)

    def next_ms(self) -> float:
        """When to `ask` again though nothing arrives."""
        return float("inf") if self._asked is not None else self._not_before_ms

    def _answered(self, done: RequestFuture[MetadataResponse]) -> None:
        self._asked = None
        now_ms = self._client.clock.now_ms()
        if done.error is not None:
            self._failed(done.error, now_ms)
            return
        found = {topic.topic_id: topic.name for topic in done.value().topics if topic.name and not topic.error_code}
        self._told = {**self._told, **found}
        if len(found) < len(done.value().topics):
            # A broker hears of a new topic a little later than the coordinator that assigns it.
            self._failed("a topic that was assigned is not known to the brokers yet", now_ms)
        else:
            self._failures, self._not_before_ms, self.trouble = 0, float("-inf"), ""

    def _failed(self, reason: KcliError | str, now_ms: float) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self.trouble = str(reason)
