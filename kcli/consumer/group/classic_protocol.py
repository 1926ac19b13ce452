"""Requests of a classic member (join, sync, heartbeat, leave), and the reaction to each error code in their responses.

Pure. Source of the reactions: Kafka's protocol page and the behaviour of Apache Kafka's Java client. Two differ: an
authorization error of a heartbeat is raised at once (Java continues until the session ends), and a coordinator that is
loading is asked again after any request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.error_codes import ErrorCode
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, by_topic, encode_subscription
from kcli.protocol.registry import ApiKey, api_name

if TYPE_CHECKING:
    from kcli.assignors.lookup import Strategy
    from kcli.client.config import ConsumerConfig
    from kcli.consumer.group.group_membership import Generation
    from kcli.protocol.messages.heartbeat import HeartbeatRequest
    from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kcli.protocol.messages.leave_group import LeaveGroupRequest
    from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from kcli.protocol.wire import Request
    from kcli.structs import TopicPartition


class Reaction(Enum):
    """The reaction of a member to an error code."""

    CONTINUE = "no reaction"
    RETRY = "retry after a backoff"
    FIND = "find the coordinator again, then retry after a backoff"
    REJOIN = "join again at once, as the same member"
    TAKE_ID = "join again at once, with the member id of the response"
    FORGET_GENERATION = "the generation has ended: join again at once, as the same member"
    FORGET_MEMBER = "the member was removed: join again at once, as a new member"
    RAISE = "raise the error"
    FENCED = "another process has this group.instance.id: raise the error, at every poll"


_COORDINATOR = {
    ErrorCode.NONE: Reaction.CONTINUE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
}

_REACTIONS: dict[int, dict[ErrorCode, Reaction]] = {
    ApiKey.JOIN_GROUP: {
        **_COORDINATOR,
        ErrorCode.MEMBER_ID_REQUIRED: Reaction.TAKE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        ErrorCode.FENCED_INSTANCE_ID: Reaction.FENCED,
    },
    ApiKey.SYNC_GROUP: {
        **_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        ErrorCode.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        ErrorCode.FENCED_INSTANCE_ID: Reaction.FENCED,
    },
    ApiKey.HEARTBEAT: {
        **_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        ErrorCode.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        ErrorCode.FENCED_INSTANCE_ID: Reaction.FENCED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.RAISE,
    },
    # The commit itself raises the error, and finds the coordinator again.
    ApiKey.OFFSET_COMMIT: {
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        ErrorCode.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    },
    # The member has left: no reaction is possible.
    ApiKey.LEAVE_GROUP: {},
}
_DEFAULT_REACTIONS = {
    ApiKey.JOIN_GROUP: Reaction.RAISE,
    ApiKey.SYNC_GROUP: Reaction.RAISE,
    ApiKey.HEARTBEAT: Reaction.RETRY,  # if the error persists, the session ends
    ApiKey.OFFSET_COMMIT: Reaction.CONTINUE,
    ApiKey.LEAVE_GROUP: Reaction.CONTINUE,
}


def refusal(api: ApiKey, code: ErrorCode) -> str:
    """Return a description of the refusal, also used as the reason of the next JoinGroup (KIP-800)."""
    return f"{api_name(api)} failed with {code.name}"


def reaction_to(api: ApiKey, code: ErrorCode) -> Reaction:
    """Return the reaction to an error code in the response to `api`."""
    return _REACTIONS[api].get(code, _DEFAULT_REACTIONS[api])


# The first versions with static members (KIP-345).
_WITH_INSTANCE: dict[int, int] = {ApiKey.JOIN_GROUP: 5, ApiKey.SYNC_GROUP: 3, ApiKey.HEARTBEAT: 3}
# The first version of LeaveGroup that names its members in a list.
LEAVE_WITH_MEMBERS = 3
# Brokers refuse longer reasons.
_LONGEST_REASON = 255


class JoinFields(NamedTuple):
    """The fields of a JoinGroup that depend on the subscription.

    `owned`: the partitions read now. `last` and `last_generation`: the latest assignment and its generation, for sticky
    assignors, although it may have been given up since.
    """

    topics: Collection[str] = ()
    owned: Collection[TopicPartition] = ()
    last: Collection[TopicPartition] = ()
    last_generation: int = -1


def lowest_version(request: Request[Any], config: ConsumerConfig) -> int | None:
    """Return the lowest version that can carry a request of this member; None: any version."""
    return _WITH_INSTANCE[request.API_KEY] if config.group_instance_id else None


def join_timeout_ms(config: ConsumerConfig) -> float:
    """Return the timeout of JoinGroup: max.poll.interval.ms, the limit of the slowest member, plus 5 s, as in Java."""
    return max(config.request_timeout_ms, config.max_poll_interval_ms + 5_000)


def join_request(
    config: ConsumerConfig, strategies: Iterable[Strategy], generation: Generation, fields: JoinFields, reason: str
) -> JoinGroupRequest:
    """Return a JoinGroup with all supported assignors, preferred first."""
    from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

    def metadata(strategy: Strategy) -> bytes:
        subscription = Subscription(
            topics=sorted(fields.topics),
            user_data=strategy.user_data(sorted(fields.last), fields.last_generation),
            owned_partitions=by_topic(sorted(fields.owned)),
            generation_id=generation.id,
            rack_id=config.client_rack or None,
        )
        return encode_subscription(subscription)

    return JoinGroupRequest(
        group_id=config.group_id or "",
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=each.name, metadata=metadata(each)) for each in strategies],
        reason=reason[:_LONGEST_REASON],
    )


def sync_request(config: ConsumerConfig, generation: Generation, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
    """Return a SyncGroup. The leader's contains the assignments of all members."""
    from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

    return SyncGroupRequest(
        group_id=config.group_id or "",
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        ],
    )


def heartbeat_request(config: ConsumerConfig, generation: Generation) -> HeartbeatRequest:
    """Return a heartbeat."""
    from kcli.protocol.messages.heartbeat import HeartbeatRequest

    return HeartbeatRequest(
        group_id=config.group_id or "",
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: ConsumerConfig, member_id: str, reason: str, highest_version: int) -> LeaveGroupRequest:
    """Return a LeaveGroup in the form of the broker's highest version."""
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    group = config.group_id or ""
    if highest_version < LEAVE_WITH_MEMBERS:
        return LeaveGroupRequest(group_id=group, member_id=member_id)
    identity = MemberIdentity(member_id=member_id, reason=reason[:_LONGEST_REASON])
    return LeaveGroupRequest(group_id=group, members=[identity])


def code_of(response: JoinGroupResponse | SyncGroupResponse) -> ErrorCode:
    """Return the error code of a response. A group of another protocol type than `consumer` is an error too."""
    if not response.error_code and response.protocol_type not in (None, "", PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.of(response.error_code)
