"""States of a classic group, the events that change them, and the error codes that follow from them. Pure.

A group goes through rebalances; each successful one starts a generation. A rebalance has two phases: in the join phase
every member joins and names its assignors and topics; in the sync phase the leader sends the assignment and the other
members wait for it. Between rebalances the group is Stable and its members only heartbeat. The states:

* **Empty**: no members. The group may have committed offsets and pending member ids (handed out, not joined yet). This
  is also the state of a "simple" group, one that only commits offsets.
* **PreparingRebalance**: the join phase. Heartbeats of known members return REBALANCE_IN_PROGRESS, so that they join
  again. JoinGroup requests are parked until all members have joined or the largest rebalance timeout of the members has
  elapsed. The first rebalance of an Empty group instead waits `group.initial.rebalance.delay.ms`, extended while new
  members arrive, so that ten consumers started together cause one rebalance and not ten.
* **CompletingRebalance**: the sync phase. The generation is new and the leader knows all members; SyncGroup requests
  are parked until the leader's assignment is stored.
* **Stable**: every member has, or can fetch, its assignment.
* **Dead**: deleted. No event leaves this state; a later join creates a new group of the same name.

A member that joins, leaves, fails or changes its metadata in CompletingRebalance or Stable causes REBALANCE_WANTED. In
PreparingRebalance the same changes can only complete the join phase earlier. The join phase ends with members
(ALL_JOINED) or without (ALL_LEFT). A (state, event) pair that is not in the table is a coordinator bug and raises.

Source: KIP-62, KIP-394, KIP-345 and the behaviour of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from enum import Enum

from kcli.error_codes import ErrorCode


class GroupState(Enum):
    """The value is the state's name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """An event that moves a group to another state."""

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
    """Return the state after the event; ValueError for an event that is not valid in this state."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"event {event.value!r} is not valid for a group in state {state.value}") from None


# Error codes that a current member of the generation gets in each state.
HEARTBEAT_ERRORS = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
SYNC_ERRORS = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING: ErrorCode.NONE,  # answered after the leader's assignment has arrived
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
# Members commit during the join phase, right before they join again, so commits are accepted there.
COMMIT_ERRORS = {
    GroupState.EMPTY: ErrorCode.NONE,
    GroupState.PREPARING: ErrorCode.NONE,
    GroupState.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
