"""What each error of a group's coordinator means for a classic member: a table. Pure.

Source: Kafka's protocol page and the behaviour of Apache Kafka's Java client. Two answers are ours: a heartbeat that is
refused for want of rights is raised at once (Java goes on until the session is over), and a coordinator that is still
loading is asked again whatever the request was.
"""

from __future__ import annotations

from enum import Enum

from kcli.error_codes import ErrorCode
from kcli.protocol.registry import ApiKey, api_name


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
