"""What each error of a group's coordinator means for a classic member: a table. Pure.

Source: Kafka's protocol page and the behaviour of Apache Kafka's Java client. Two answers are ours: a heartbeat that is
refused for want of rights is raised at once (Java goes on until the session is over), and a coordinator that is still
loading is asked again whatever the request was.
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
    """What to do; the value is said to a person."""

    GO_ON = "nothing is wrong"
    RETRY = "try again after a while"
    FIND = "find the coordinator again, then try again after a while"
    REJOIN = "join again at once, as the same member"
    TAKE_ID = "join again at once, with the id from the answer"
    FORGET_GENERATION = "the generation is gone: join again at once, as the same member"
    FORGET_MEMBER = "the member is gone: join again at once, as a new one"
    RAISE = "tell the caller"
    FENCED = "another has taken our place: tell the caller, now and always"


_COORDINATOR = {
    ErrorCode.NONE: Reaction.GO_ON,
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
    # Whoever commits has told the caller already, and looked for the coordinator.
    ApiKey.OFFSET_COMMIT: {
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        ErrorCode.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    },
    # Who leaves has left: there is nobody to try again for.
    ApiKey.LEAVE_GROUP: {},
}
_OTHERWISE = {
    ApiKey.JOIN_GROUP: Reaction.RAISE,
    ApiKey.SYNC_GROUP: Reaction.RAISE,
    ApiKey.HEARTBEAT: Reaction.RETRY,  # if the member is in trouble the session will end
    ApiKey.OFFSET_COMMIT: Reaction.GO_ON,
    ApiKey.LEAVE_GROUP: Reaction.GO_ON,
}


def refusal(api: ApiKey, code: ErrorCode) -> str:
    """For a person, and for the reason that brokers are told when we join again."""
    return f"{api_name(api)} was answered with {code.name}"


def reaction_to(api: ApiKey, code: ErrorCode) -> Reaction:
    """What a member does about `code` in the answer to `api`."""
    return _REACTIONS[api].get(code, _OTHERWISE[api])


# The first versions with static members (KIP-345).
_WITH_INSTANCE: dict[int, int] = {ApiKey.JOIN_GROUP: 5, ApiKey.SYNC_GROUP: 3, ApiKey.HEARTBEAT: 3}
# The first version of LeaveGroup that names its members in a list.
LEAVE_WITH_MEMBERS = 3
# Brokers refuse longer ones.
_LONGEST_REASON = 255


class Wish(NamedTuple):
    """What a member says of itself when it joins. `owned`: what it reads now. `last` and `last_generation`: its last
    assignment and of which generation, which sticky strategies want to know though it was given up since."""

    topics: Collection[str] = ()
    owned: Collection[TopicPartition] = ()
    last: Collection[TopicPartition] = ()
    last_generation: int = -1


def lowest_version(request: Request[Any], config: ConsumerConfig) -> int | None:
    """The lowest version that can carry a request of this member; None: any."""
    return _WITH_INSTANCE[request.API_KEY] if config.group_instance_id else None


def join_timeout_ms(config: ConsumerConfig) -> float:
    """How long JoinGroup may stay unanswered: as long as the slowest member may take, and a little, as in Java."""
    return max(config.request_timeout_ms, config.max_poll_interval_ms + 5_000)


def join_request(
    config: ConsumerConfig, strategies: Iterable[Strategy], generation: Generation, wish: Wish, reason: str
) -> JoinGroupRequest:
    """Join with all strategies that are supported, the best first."""
    from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

    def metadata(strategy: Strategy) -> bytes:
        subscription = Subscription(
            topics=sorted(wish.topics),
            user_data=strategy.user_data(sorted(wish.last), wish.last_generation),
            owned_partitions=by_topic(sorted(wish.owned)),
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


def sync_request(config: ConsumerConfig, generation: Generation, shares: Mapping[str, bytes]) -> SyncGroupRequest:
    """Ask for our share; the leader hands in everybody's."""
    from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

    return SyncGroupRequest(
        group_id=config.group_id or "",
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol,
        assignments=[SyncGroupRequestAssignment(member_id=id_, assignment=share) for id_, share in shares.items()],
    )


def heartbeat_request(config: ConsumerConfig, generation: Generation) -> HeartbeatRequest:
    """Say that we live."""
    from kcli.protocol.messages.heartbeat import HeartbeatRequest

    return HeartbeatRequest(
        group_id=config.group_id or "",
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: ConsumerConfig, member_id: str, reason: str, highest_version: int) -> LeaveGroupRequest:
    """Leave, in the form that a broker with this version of LeaveGroup understands."""
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    group = config.group_id or ""
    if highest_version < LEAVE_WITH_MEMBERS:
        return LeaveGroupRequest(group_id=group, member_id=member_id)
    identity = MemberIdentity(member_id=member_id, reason=reason[:_LONGEST_REASON])
    return LeaveGroupRequest(group_id=group, members=[identity])


def code_of(answer: JoinGroupResponse | SyncGroupResponse) -> ErrorCode:
    """The error of an answer; an answer from a group that is not one of consumers is one, too."""
    if not answer.error_code and answer.protocol_type not in (None, "", PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.of(answer.error_code)
