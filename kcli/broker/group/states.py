"""The states of a classic group and what moves it from one to the next. Pure.

A group lives in rounds, called generations. A round has two phases: everybody joins (and says which assignors and
topics it wants), then everybody syncs (the leader hands in who reads what, the others wait for it). Between rounds the
group is Stable and its members only heartbeat. So, with what each state promises:

* **Empty**: no members. The group may still hold committed offsets, and ids that were handed out to members-to-be. This
  is also the state of a "simple" group, one that only ever commits offsets.
* **PreparingRebalance**: the join phase. Known members are told by their heartbeats (error 27) to join again; those
  who have are parked until all have, or until the largest rebalance time-out of the members has passed. The first round
  of an Empty group waits a fixed delay instead, longer while new members keep coming, so that ten consumers started
  together meet in one round and not in ten.
* **CompletingRebalance**: the sync phase. The generation is a new one, the leader knows all members, whoever syncs is
  parked until the leader's assignment has been stored.
* **Stable**: everybody has, or can fetch, its assignment.
* **Dead**: deleted. Nothing leads out of it; a later join makes a new group of the same name.

Whoever joins, leaves, fails or changes its mind in CompletingRebalance or Stable causes REBALANCE_WANTED; during
PreparingRebalance the same can only bring the end of the join phase nearer. The join phase ends with members
(ALL_JOINED) or without (ALL_LEFT). A pair that is not in the table is a bug of the coordinator and refused loudly.

Source: KIP-62, KIP-394, KIP-345 and the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from enum import Enum

from kcli.error_codes import ErrorCode


class GroupState(Enum):
    """The value is the name that DescribeGroups and ListGroups tell."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """What moves a group to another state."""

    REBALANCE_WANTED = "rebalance wanted"
    ALL_JOINED = "all members joined"
    ALL_LEFT = "all members left"
    ASSIGNED = "assignment stored"
    DELETED = "group deleted"


TRANSITIONS: dict[tuple[GroupState, GroupEvent], GroupState] = {
    (GroupState.EMPTY, GroupEvent.REBALANCE_WANTED): GroupState.PREPARING,
    (GroupState.COMPLETING, GroupEvent.REBALANCE_WANTED): GroupState.PREPARING,
    (GroupState.STABLE, GroupEvent.REBALANCE_WANTED): GroupState.PREPARING,
    (GroupState.PREPARING, GroupEvent.ALL_JOINED): GroupState.COMPLETING,
    (GroupState.PREPARING, GroupEvent.ALL_LEFT): GroupState.EMPTY,
    (GroupState.COMPLETING, GroupEvent.ASSIGNED): GroupState.STABLE,
    (GroupState.EMPTY, GroupEvent.DELETED): GroupState.DEAD,
}


def next_state(state: GroupState, event: GroupEvent) -> GroupState:
    """The state after the event; ValueError for an event that cannot happen in this state."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a group in state {state.value} cannot take the event: {event.value}") from None


# What a request of a rightful member is told in each state.
HEARTBEAT_ANSWERS = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
SYNC_ANSWERS = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING: ErrorCode.NONE,  # once the leader's assignment is there
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
# Commits during the join phase are welcome: it is what a member does before it joins again.
COMMIT_ANSWERS = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING: ErrorCode.NONE,
    GroupState.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
