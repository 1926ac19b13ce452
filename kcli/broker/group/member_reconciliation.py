"""Reconciliation of a member of a consumer group with its target assignment (KIP-848). Pure.

It takes three steps, each with a heartbeat or more. First the client gives up the partitions that it shall not have
any more; until its heartbeats no longer contain them it stays in its epoch (UNREVOKED_PARTITIONS). Then it goes to the
epoch of the target assignment and gets the partitions that are free; while another member still has some of them it
waits (UNRELEASED_PARTITIONS). When it has all of them it is STABLE.

Source: the behaviour of Apache Kafka 4.3.1 (CurrentAssignmentBuilder).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kcli.broker.group.consumer_group import LEAVE_EPOCH, ConsumerGroupMember, MemberState, Partitions, Target
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

# The partitions that the client says it has, by topic id; None if it does not say.
Owned: TypeAlias = "Mapping[UUID, Collection[int]] | None"

_FREE = LEAVE_EPOCH


class Goal(NamedTuple):
    """The target assignment that a member has to reach, and the state of the group on which its next step depends.

    `epoch` is that of the target assignment. `is_subscribed` returns whether the member subscribes to the topic of an
    id. `owner_epoch` returns the epoch of the member that owns a partition; -1 if no member owns it.
    """

    epoch: int
    target: Target
    is_subscribed: Callable[[UUID], bool]
    owner_epoch: Callable[[UUID, int], int]


def reconcile(
    member: ConsumerGroupMember, goal: Goal, owned: Owned, *, subscription_changed: bool = False
) -> ConsumerGroupMember:
    """Return the next state of a member, or the same if it cannot move on.

    With a changed subscription the member loses the topics to which it no longer subscribes, whatever the target.
    BrokerError FENCED_MEMBER_EPOCH for a member in a state of a later version, unless it owns nothing.
    """
    if member.state is MemberState.STABLE:
        if member.member_epoch != goal.epoch:
            return _advance(member, goal, owned)
        return _drop_unsubscribed(member, goal, owned) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return _drop_unsubscribed(member, goal, owned) if subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise BrokerError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return _advance(member, goal, owned, epoch=goal.epoch)
    return _advance(member, goal, owned)


def is_subset(owned: Owned, assigned: Partitions) -> bool:
    """Return whether the client says what it owns, and owns nothing but assigned partitions."""
    if owned is None:
        return False
    return all(number in assigned.get(topic_id, ()) for topic_id, numbers in owned.items() for number in numbers)


def _owns_any(owned: Owned, partitions: Partitions) -> bool:
    """Return whether the client may still have some of these partitions. It may if it does not say what it has."""
    if owned is None:
        return True
    return any(number in partitions.get(topic_id, ()) for topic_id, numbers in owned.items() for number in numbers)


def _drop_unsubscribed(member: ConsumerGroupMember, goal: Goal, owned: Owned) -> ConsumerGroupMember:
    """Take away the topics to which the member does not subscribe, within its epoch."""
    lost = {topic_id: epochs for topic_id, epochs in member.assigned.items() if not goal.is_subscribed(topic_id)}
    if not lost:
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in lost}
    revoking = {**member.pending_revocation}
    for topic_id, epochs in lost.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    changed = replace(member.at_epoch(member.member_epoch), assigned=kept)
    if _owns_any(owned, revoking):
        return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=revoking)
    return changed


def _advance(member: ConsumerGroupMember, goal: Goal, owned: Owned, *, epoch: int | None = None) -> ConsumerGroupMember:
    """Take the next step to the target: revoke, or go to its epoch with the partitions that are free.

    `epoch` replaces the member's own while it revokes.
    """
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    free: dict[UUID, list[int]] = {}
    is_waiting = False
    for topic_id in {**goal.target, **member.assigned}:
        target = goal.target.get(topic_id, frozenset()) if goal.is_subscribed(topic_id) else frozenset()
        current = member.assigned.get(topic_id, {})
        own_revoking = member.pending_revocation.get(topic_id, {})
        if kept := {number: at for number, at in current.items() if number in target}:
            assigned[topic_id] = kept
        if lost := {number: at for number, at in current.items() if number not in target}:
            revoking[topic_id] = lost
        for number in sorted(target - kept.keys()):
            # One that this member itself is still revoking is no obstacle: it has just been revoked.
            if goal.owner_epoch(topic_id, number) != _FREE and number not in own_revoking:
                is_waiting = True
            else:
                free.setdefault(topic_id, []).append(number)
    if revoking and _owns_any(owned, revoking):
        return replace(
            member.at_epoch(member.member_epoch if epoch is None else epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=revoking,
        )
    for topic_id, numbers in free.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(numbers, goal.epoch))
    return replace(
        member.at_epoch(goal.epoch),
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=assigned,
        pending_revocation={},
    )
