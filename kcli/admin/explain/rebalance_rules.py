"""Rules about rebalances: one in progress, the members it waits for, and one that has ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import NOTE, PROBLEM, WARNING, Finding, count, listed, member_name, named
from kcli.admin.explain.observations import REBALANCING
from kcli.admin.groups.group import CLASSIC
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations
    from kcli.admin.groups.group import Group, GroupMember

_REJOIN = (
    "A consumer rejoins in poll(): check what these members do between two polls (a slow record, a blocking call). A "
    "member that has not rejoined after max.poll.interval.ms (5 min by default) is removed, and the rebalance "
    "continues; `kcli group remove-members` removes it at once."
)
_HAND_OVER = (
    "A member gives up partitions in poll(), after a commit: check what the late members do between two polls. A "
    "member that is not done after its rebalance time-out (max.poll.interval.ms) is fenced."
)


def rebalancing(seen: Observations) -> Iterator[Finding]:
    """Report a rebalance in progress with the members that delay it, or one that has ended since."""
    group, elapsed = seen.group, format_duration(seen.elapsed_ms)
    was, is_now = seen.before.state in REBALANCING, group.state in REBALANCING
    if is_now:
        since = f"at both observations, {elapsed} apart" if was else f"now, but was not {elapsed} ago"
        evidence, advice = _classic(seen) if group.type == CLASSIC else _by_broker(group)
        state = f"The group is {group.state} {since}, with {count(len(group.members), 'member')}. "
        yield Finding("rebalancing", PROBLEM if was else WARNING, group.group, state + evidence, advice)
    elif was:
        yield from _ended(seen)
    elif _has_changed(seen.before, group):
        came, left = _difference(seen.before, group)
        evidence = (
            f"The group was Stable at both observations, {elapsed} apart, but has rebalanced between "
            f"them{_who(came, left)}."
        )
        advice = (
            "One rebalance is a deploy or a restart. If there are more, look for members that crash or poll too seldom."
        )
        yield Finding("rebalanced", WARNING if left else NOTE, group.group, evidence, advice)


def _classic(seen: Observations) -> tuple[str, str]:
    if seen.group.state == "CompletingRebalance":
        return (
            "All members have joined; the group leader, one of them, has not sent the assignment yet.",
            "This normally takes a moment. If it lasts, the leader hangs between join and sync: it is removed after "
            "its session or poll time-out. See the logs of the members.",
        )
    holders = [member for member in seen.group.members if member.owned]
    joined = [member for member in seen.group.members if not member.owned]
    if not holders:
        return "No member has partitions of the previous generation, so the late members are unknown.", _REJOIN
    busy = [member for member in holders if _commits(seen, member)]
    evidence = (
        f"It waits for one or more of the members with partitions of the previous generation: {_members(holders)}."
    )
    if busy:
        evidence += f" Still reading and committing, so so they have not rejoined: {_members(busy)}."
    if joined:
        evidence += f" Newly joined: {_members(joined)}."
    return evidence + " Kafka has no more information on a classic group.", _REJOIN


def _commits(seen: Observations, member: GroupMember) -> bool:
    return any(tp in seen.movements and seen.movements[tp].consumed > 0 for tp in member.owned)


def _by_broker(group: Group) -> tuple[str, str]:
    """Use the epochs and targets of members to find the late ones (KIP-848, KIP-932, KIP-1071)."""
    if group.state == "Assigning":
        return (
            f"The broker has an assignment for epoch {group.target_epoch}, but none for epoch {group.epoch} yet.",
            "This takes about a second (group.consumer.assignment.interval.ms). If it lasts, see the log of "
            f"{group.coordinator}.",
        )
    late = [member for member in group.members if _is_late(member, group)]
    if not late:
        return "Every member has its target assignment now.", "No action: the rebalance has just ended."
    return " ".join(map(_lateness, late[:5])) + (f" And {len(late) - 5} more." if len(late) > 5 else ""), _HAND_OVER


def _is_late(member: GroupMember, group: Group) -> bool:
    late = member.epoch is not None and group.epoch is not None and member.epoch < group.epoch
    return late or (member.target is not None and set(member.target) != set(member.owned))


def _lateness(member: GroupMember) -> str:
    to_give = sorted(set(member.owned) - set(member.target or ()))
    to_take = sorted(set(member.target or ()) - set(member.owned))
    parts = [f"is at epoch {member.epoch}"]
    if to_give:
        parts.append(f"still has to give up {named(to_give)}")
    if to_take:
        parts.append(f"waits for {named(to_take)}")
    return f"{member_name(member)} {' and '.join(parts)}."


def _ended(seen: Observations) -> Iterator[Finding]:
    came, left = _difference(seen.before, seen.group)
    evidence = f"A rebalance that was in progress {format_duration(seen.elapsed_ms)} ago has ended{_who(came, left)}."
    advice = "No action, if it was a deploy."
    if left:
        advice = (
            "The members that left did not rejoin in time, or stopped. See their logs for a poll that took too long."
        )
    yield Finding("rebalance-ended", WARNING if left else NOTE, seen.group.group, evidence, advice)


def _has_changed(before: Group, now: Group) -> bool:
    if before.state != "Stable" or now.state != "Stable":
        return False
    return before.epoch != now.epoch or {m.id for m in before.members} != {m.id for m in now.members}


def _difference(before: Group, now: Group) -> tuple[list[GroupMember], list[GroupMember]]:
    earlier, later = {m.id: m for m in before.members}, {m.id: m for m in now.members}
    return [m for id, m in later.items() if id not in earlier], [m for id, m in earlier.items() if id not in later]


def _who(came: list[GroupMember], left: list[GroupMember]) -> str:
    evidence = [f"left: {_members(left)}"] if left else []
    evidence += [f"came: {_members(came)}"] if came else []
    return f" ({'; '.join(evidence)})" if evidence else ""


def _members(members: Iterable[GroupMember]) -> str:
    return listed(member_name(member) for member in members)
