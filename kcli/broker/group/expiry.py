"""Expiry of committed offsets (KIP-211). Pure: a group's facts in, partitions out.

The offset of a topic that a member subscribes to never expires; other offsets expire after `offsets.retention.minutes`.
The start of that period depends on the group:

* no protocol type (a "simple" group, whose offsets were committed without membership): each commit;
* Empty: the time when the last member left, or each commit where an old record does not contain that time;
* Stable, of protocol type "consumer" and with subscriptions that can be decoded, or a consumer group (KIP-848) in any
  state: each commit, for topics that no member subscribes to;
* any other group (in a rebalance, of another protocol type, Dead): nothing expires.

A commit of OffsetCommit v2 to v4 may have a retention of its own; then only that deadline counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

# The states in which subscriptions are known; the last two are of KIP-848 groups.
_SETTLED_STATES = ("Stable", "Assigning", "Reconciling")
CONSUMER = "consumer"  # the protocol type of consumers; Kafka Connect and schema registries use others


class CommittedOffset(NamedTuple):
    """A stored offset. `expire_timestamp_ms` -1: the broker's retention applies; `topic_id` None: unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID | None = None


class GroupFacts(NamedTuple):
    """The facts about a group that expiry depends on.

    `state` is Kafka's name; `protocol_type` None (or "") is a simple group; `subscribed_topics` None is unknown;
    `state_timestamp_ms` is the wall clock time of the last state change, -1 unknown.
    """

    state: str
    protocol_type: str | None
    subscribed_topics: frozenset[str] | None
    state_timestamp_ms: int = -1


def expired_offsets(
    offsets: Mapping[TopicPartition, CommittedOffset], group: GroupFacts, now_wall_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """Return the partitions whose offsets have expired."""
    if not _may_expire(group):
        return []
    since_ms = group.state_timestamp_ms if group.protocol_type and group.state == "Empty" else -1
    return [
        partition
        for partition, committed in offsets.items()
        if not is_subscribed(group, partition.topic) and _is_expired(committed, since_ms, now_wall_ms, retention_ms)
    ]


def is_subscribed(group: GroupFacts, topic: str) -> bool:
    """Return whether a member subscribes to the topic; true for a consumer group whose subscriptions are unknown."""
    if group.subscribed_topics is None:
        return group.protocol_type == CONSUMER
    return topic in group.subscribed_topics


def _may_expire(group: GroupFacts) -> bool:
    if not group.protocol_type or group.state == "Empty":
        return True
    is_settled = group.state in _SETTLED_STATES
    return is_settled and group.protocol_type == CONSUMER and group.subscribed_topics is not None


def _is_expired(committed: CommittedOffset, since_ms: int, now_wall_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != -1:
        return now_wall_ms >= committed.expire_timestamp_ms
    base_ms = committed.commit_timestamp_ms if since_ms == -1 else since_ms
    return now_wall_ms - base_ms >= retention_ms
