"""OffsetCommit of a consumer: the request, and the reaction to each error code in the response. Pure.

The reactions are those of Kafka's Java client (ConsumerCoordinator for classic groups, CommitRequestManager for KIP-848
groups), code by code in `REACTIONS`. A code that is not in the table is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client import offset_commit
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, CommitFailed, KcliError, TopicAuthorizationError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.consumer.group.group_membership import Generation
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


class Reaction(Enum):
    """The reaction to a refused commit, the most severe last."""

    RETRY = "send it again to the same coordinator"
    FIND = "find the coordinator again, then send it again"
    RAISE = "the caller must change something"
    REBALANCING = "the caller must poll until the rebalance is over"
    STALE = "the epoch is old: send it again if there is a newer one, otherwise CommitFailed"
    GONE = "the generation has ended: CommitFailed, and the member joins again"
    FENCED = "another process has this member's group.instance.id"


REACTIONS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND,
    ErrorCode.REQUEST_TIMED_OUT: Reaction.FIND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.RAISE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.RAISE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: Reaction.RAISE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Reaction.RAISE,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REBALANCING,
    ErrorCode.ILLEGAL_GENERATION: Reaction.GONE,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.GONE,
    ErrorCode.STALE_MEMBER_EPOCH: Reaction.STALE,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.FENCED,
}
_SEVERITY = list(Reaction)


class Refusal(NamedTuple):
    """A refused commit: the most severe error code, its partitions, and the principal of the connection."""

    code: ErrorCode
    reaction: Reaction
    partitions: tuple[TopicPartition, ...]
    principal: str | None


def commit_request(
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    generation: Generation,
    instance_id: str | None = None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> OffsetCommitRequest:
    """Return the request, with `topic_ids` if all are known. Raise ValueError for a negative offset."""
    for tp, offset in offsets.items():
        if offset.offset < 0:
            raise ValueError(f"offset must not be negative; got {offset.offset} for {tp}")
    return offset_commit.commit_request(
        group,
        offsets,
        generation=generation.id,
        member_id=generation.member_id,
        instance_id=instance_id,
        topic_ids=topic_ids,
    )


def read_refusal(
    requested: Mapping[TopicPartition, OffsetAndMetadata], response: OffsetCommitResponse
) -> Refusal | None:
    """Return the most severe refusal in a response; None if everything is stored.

    A partition that is missing in the response counts as UNKNOWN_SERVER_ERROR.
    """
    codes = dict.fromkeys(requested, ErrorCode.UNKNOWN_SERVER_ERROR)
    codes |= {tp: ErrorCode.of(code) for tp, code in offset_commit.partition_codes(response).items()}
    refused = {code for code in codes.values() if code != ErrorCode.NONE}
    if not refused:
        return None
    most_severe = max(refused, key=lambda code: (_SEVERITY.index(_reaction(code)), -code))
    partitions = tuple(sorted(tp for tp, code in codes.items() if code == most_severe))
    return Refusal(most_severe, _reaction(most_severe), partitions, response.principal)


def _reaction(code: ErrorCode) -> Reaction:
    return REACTIONS.get(code, Reaction.RAISE)


def error_of(refusal: Refusal, group: str, *, is_member: bool, has_moved_on: bool) -> KcliError:
    """Return the error to raise for a refusal.

    `is_member`: the commit was sent with a generation. `has_moved_on`: the member is in the next rebalance already, so
    the refusal does not concern its next generation.
    """
    code, reaction = refusal.code, refusal.reaction
    if reaction is Reaction.REBALANCING or (has_moved_on and reaction in (Reaction.GONE, Reaction.FENCED)):
        return rebalancing(group)
    if reaction in (Reaction.GONE, Reaction.STALE):
        return CommitFailed(_GONE if is_member else _NOT_OURS, group=group, code=code.name)
    evidence: dict[str, Any] = {"api": "OffsetCommit", "group": group, "principal": refusal.principal}
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return TopicAuthorizationError.of((tp.topic for tp in refusal.partitions), **evidence)
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED or reaction in (Reaction.FIND, Reaction.FENCED):
        return BrokerError(code, **evidence)
    return BrokerError(code, **evidence, partitions=_few(refusal.partitions))


def rebalancing(group: str) -> KcliError:
    """Return the error of a commit during a rebalance."""
    text = "the group is rebalancing; poll until the rebalance ends, then commit the partitions that are still assigned"
    return BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, text, api="OffsetCommit", group=group)


def not_a_member(group: str) -> CommitFailed:
    """Return the error of a commit by a consumer that was removed from the group, or has not joined it yet."""
    return CommitFailed(_GONE, group=group)


_GONE = (
    "the commit failed: the group has removed this consumer, which may have exceeded max.poll.interval.ms or "
    "session.timeout.ms; its partitions may belong to other members"
)
_NOT_OURS = (
    "the commit failed: the group has members, and only members may commit; this consumer has assigned its partitions "
    "itself and is not a member"
)


def _few(partitions: tuple[TopicPartition, ...]) -> str:
    shown = ", ".join(map(str, partitions[:5]))
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
