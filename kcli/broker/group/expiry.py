"""Which committed offsets have had their time (KIP-211). Pure: a group's facts in, partitions out.

A member that still reads a topic keeps its offset there for ever; what nobody reads any more goes after
`offsets.retention.minutes`. From when that counts depends on the group:

* no protocol type (a "simple" group, whose offsets were committed without membership): from each commit;
* Empty: from when the last member left, or from each commit where an old record does not tell when that was;
* Stable, of protocol type "consumer" and with subscriptions that can be read: from each commit, in topics that no
  member subscribes to;
* anything else (a rebalance is going on, another protocol type, Dead): nothing expires.

A commit of OffsetCommit v2 to v4 may carry a retention of its own; then that deadline alone decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

CONSUMER = "consumer"


class CommittedOffset(NamedTuple):
    """An offset as kept; `expire_timestamp_ms` -1: by the broker's retention; `topic_id` None: unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID | None = None


class GroupFacts(NamedTuple):
    """What expiry must know of a group.

    `state` as Kafka spells it; `protocol_type` None (or "") for a simple group; `subscribed_topics` None: not known;
    `state_timestamp_ms`: wall clock when it got into its state, -1 not known.
    """

    state: str
    protocol_type: str | None
    subscribed_topics: frozenset[str] | None
    state_timestamp_ms: int = -1


def expired_offsets(
    offsets: Mapping[TopicPartition, CommittedOffset], group: GroupFacts, now_wall_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The partitions whose offsets the group is to lose now."""
    if not _may_expire(group):
        return []
    since_ms = group.state_timestamp_ms if group.protocol_type and group.state == "Empty" else -1
    return [
        partition
        for partition, committed in offsets.items()
        if not is_subscribed(group, partition.topic) and _is_over(committed, since_ms, now_wall_ms, retention_ms)
    ]


def is_subscribed(group: GroupFacts, topic: str) -> bool:
    """Whether a member reads the topic; a consumer group whose subscriptions are not known reads everything."""
    if group.subscribed_topics is None:
        return group.protocol_type == CONSUMER
    return topic in group.subscribed_topics


def _may_expire(group: GroupFacts) -> bool:
    if not group.protocol_type or group.state == "Empty":
        return True
    return group.state == "Stable" and group.protocol_type == CONSUMER and group.subscribed_topics is not None


def _is_over(committed: CommittedOffset, since_ms: int, now_wall_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != -1:
        return now_wall_ms >= committed.expire_timestamp_ms
    base_ms = committed.commit_timestamp_ms if since_ms == -1 else since_ms
    return now_wall_ms - base_ms >= retention_ms
