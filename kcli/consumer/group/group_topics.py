"""`GroupTopics`: the subscribed topics of a classic member, by name or by pattern, and their metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.client.metadata import matching_topics
from kcli.consumer.group.leadership import topic_snapshot
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    import re

    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.group.leadership import Leadership
    from kcli.consumer.subscription import SubscriptionState


class GroupTopics:
    """Keeps the client's metadata of the topics fresh. A pattern is matched against all topics of the cluster."""

    def __init__(self, client: ConsumerNetworkClient, subscription: SubscriptionState, config: ConsumerConfig) -> None:
        self._client = client
        self._subscription = subscription
        self._with_internal = not config.exclude_internal_topics
        self._with_racks = bool(config.client_rack)
        self._requested: frozenset[str] = frozenset()
        self._ticket: int | None = None  # of the first request for all topics
        self._pattern: re.Pattern[str] | None = None
        self._matched_in: object = None  # the cluster that was matched, and the matching topics
        self._matched: frozenset[str] = frozenset()
        self._unchanged_in: object = None  # the cluster and the snapshot of the last comparison
        self._unchanged_since: object = None
        self._checked_in: object = None

    def are_known(self) -> bool:
        """True if a rebalance may begin: the topics of a pattern must have been requested once."""
        metadata, pattern = self._client.metadata, self._subscription.pattern
        metadata.all_topics = pattern is not None
        if pattern is None:
            self._ticket = self._pattern = None
            return True
        if self._ticket is None or pattern != self._pattern:
            self._ticket = metadata.request_update(at_once=True, all_topics=True)
            self._pattern, self._matched_in = pattern, None
        return metadata.is_answered(self._ticket)

    def subscribed(self) -> frozenset[str]:
        """Return the subscribed topics; for a pattern, those that match now."""
        cluster, pattern = self._client.metadata.cluster, self._subscription.pattern
        if pattern is None:
            return self._subscription.topics
        if self._matched_in is not cluster:
            self._matched = matching_topics(cluster, pattern, with_internal=self._with_internal)
            self._matched_in = cluster
        return self._matched

    def match(self, partitions: Iterable[TopicPartition]) -> bool:
        """True if all these partitions are of subscribed topics.

        The leader may know topics that this member does not know yet.
        """
        topics = {tp.topic for tp in partitions}
        pattern = self._subscription.pattern
        if pattern is None:
            return topics <= self._subscription.topics
        return all(pattern.fullmatch(topic) for topic in topics)

    def have_changed(self, leadership: Leadership) -> bool:
        """True if the topics of the group differ from those that the leader has assigned."""
        cluster, before = self._client.metadata.cluster, leadership.snapshot
        if before is None or (self._unchanged_in is cluster and self._unchanged_since is before):
            return False
        if topic_snapshot(cluster, leadership.topics, before, with_racks=self._with_racks) != before:
            return True
        self._unchanged_in, self._unchanged_since = cluster, before
        return False

    def raise_refusals(self) -> None:
        """Raise BrokerError for subscribed topics that must not be read or are invalid, once per metadata response."""
        cluster = self._client.metadata.cluster
        if self._checked_in is cluster:
            return
        self._checked_in = cluster
        for code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION):
            topics = (cluster.topics.get(name) for name in sorted(self._subscription.topics))
            refused = [topic.name for topic in topics if topic is not None and topic.error == code]
            if refused:
                raise BrokerError(code, api="Metadata", topics=", ".join(refused), principal=cluster.principal)

    def add_assigned(self, topics: Iterable[str]) -> None:
        """Add assigned topics that match the pattern and are not in the metadata yet."""
        unknown = frozenset(topics) - self.subscribed()
        if unknown:
            self._matched |= unknown
            self._client.metadata.request_update()

    def request_metadata(self, names: Iterable[str]) -> None:
        """Request metadata of these topics, and no longer of the previous ones."""
        metadata = self._client.metadata
        subscribed = frozenset[str]() if metadata.all_topics else frozenset(names)
        metadata.drop_topics(self._requested - subscribed)
        metadata.add_topics(sorted(subscribed))
        self._requested = subscribed

    def forget(self) -> None:
        """Request metadata of no topics."""
        self.request_metadata(())
        self._ticket = self._pattern = self._matched_in = self._unchanged_in = None
        self._client.metadata.all_topics = False
