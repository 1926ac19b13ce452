"""Rules about rebalances: in progress, ended, or between the observations. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    join_members,
    join_partitions,
    member_name,
    quantity,
)
from kcli.admin.explain.observations import REBALANCING
from kcli.admin.groups.group import CLASSIC
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations
    from kcli.admin.groups.group import Group, GroupMember

_MOST_LATE_MEMBERS = 5

_REJOIN = (
    "A consumer rejoins when it calls poll(). Check what these members do between two polls (a slow record, a blocked "
    "call). A member that has not rejoined after max.poll.interval.ms (5 minutes by default) is removed, and the "
    "rebalance continues without it; `kcli group remove-members` removes it at once."
)
_REVOKE = (
    "A member revokes partitions in poll(), after committing. Check what the late members do between two polls. A "
    "member that has not finished after its rebalance timeout (max.poll.interval.ms) is fenced."
)


def rebalances(facts: Observations) -> Iterator[Finding]:
    """A rebalance at one of the observations or between them, and the members that delay it."""
    group, elapsed = facts.group, format_duration(facts.elapsed_ms)
    was_rebalancing, is_rebalancing = facts.group_before.state in REBALANCING, group.state in REBALANCING
    if is_rebalancing:
        since = f"at both observations, {elapsed} apart" if was_rebalancing else f"now, but was not {elapsed} ago"
        evidence, advice = _classic_rebalance(facts) if group.type == CLASSIC else _broker_rebalance(group)
        state = f"The group is rebalancing {since} ({group.state}, {quantity(len(group.members), 'member')}). "
        severity = PROBLEM if was_rebalancing else WARNING
        yield Finding("rebalancing", severity, group.group, state + evidence, advice)
    elif was_rebalancing:
        yield _ended_rebalance(facts)
    elif _has_changed(facts.group_before, group):
        joined, left = _member_changes(facts.group_before, group)
        evidence = (
            f"The group was Stable at both observations, {elapsed} apart, but rebalanced between them"
            f"{_format_changes(joined, left)}."
        )
        advice = (
            "A single rebalance is normal after a deployment or a restart. If rebalances repeat, look for members that "
            "crash or call poll() too rarely."
        )
        yield Finding("rebalanced", WARNING if left else NOTE, group.group, evidence, advice)


def _classic_rebalance(facts: Observations) -> tuple[str, str]:
    if facts.group.state == "CompletingRebalance":
        return (
            "All members have joined; the group leader has not sent the assignment yet.",
            "This usually takes a moment. If it lasts, the leader is blocked between JoinGroup and SyncGroup and is "
            "removed after its session timeout or max.poll.interval.ms. Check the members' logs.",
        )
    owners = [member for member in facts.group.members if member.owned]
    joined = [member for member in facts.group.members if not member.owned]
    if not owners:
        return (
            "No member owns partitions of the previous generation, so the members that have not rejoined are unknown.",
            _REJOIN,
        )
    busy = [member for member in owners if _commits(facts, member)]
    evidence = (
        f"It waits for at least one of the members that own partitions of the previous generation: "
        f"{join_members(owners)}."
    )
    if busy:
        evidence += f" Still committing, so not rejoined: {join_members(busy)}."
    if joined:
        evidence += f" Newly joined: {join_members(joined)}."
    return evidence + " Kafka reports no more about the members of a classic group.", _REJOIN


def _commits(facts: Observations, member: GroupMember) -> bool:
    return any(tp in facts.progress and facts.progress[tp].consumed > 0 for tp in member.owned)


def _broker_rebalance(group: Group) -> tuple[str, str]:
    """A group whose broker assigns (KIP-848, KIP-932, KIP-1071): the members' epochs and targets show the late ones."""
    if group.state == "Assigning":
        return (
            f"The broker has an assignment for epoch {group.target_epoch}, but not yet for epoch {group.epoch}.",
            "This usually takes about a second (group.consumer.assignment.interval.ms). If it lasts, check the log of "
            f"{group.coordinator}.",
        )
    late = [member for member in group.members if _is_late(member, group)]
    if not late:
        return (
            "Every member has its target assignment.",
            "Nothing to do: the rebalance has just ended. Run the command again to confirm.",
        )
    evidence = " ".join(map(_late_member, late[:_MOST_LATE_MEMBERS]))
    if len(late) > _MOST_LATE_MEMBERS:
        evidence += f" Late in total: {len(late)} members."
    return evidence, _REVOKE


def _is_late(member: GroupMember, group: Group) -> bool:
    late = member.epoch is not None and group.epoch is not None and member.epoch < group.epoch
    return late or (member.target is not None and set(member.target) != set(member.owned))


def _late_member(member: GroupMember) -> str:
    to_revoke = sorted(set(member.owned) - set(member.target or ()))
    to_receive = sorted(set(member.target or ()) - set(member.owned))
    clauses = [f"is at epoch {member.epoch}"]
    if to_revoke:
        clauses.append(f"must still revoke {join_partitions(to_revoke)}")
    if to_receive:
        clauses.append(f"waits for {join_partitions(to_receive)}")
    return f"{member_name(member)} {' and '.join(clauses)}."


def _ended_rebalance(facts: Observations) -> Finding:
    joined, left = _member_changes(facts.group_before, facts.group)
    evidence = (
        f"A rebalance that was in progress {format_duration(facts.elapsed_ms)} ago has ended"
        f"{_format_changes(joined, left)}."
    )
    advice = "Nothing to do if this was a deployment."
    if left:
        advice = "The members that left stopped, or did not rejoin in time. Check their logs for a late poll()."
    return Finding("rebalance-ended", WARNING if left else NOTE, facts.group.group, evidence, advice)


def _has_changed(before: Group, now: Group) -> bool:
    if before.state != "Stable" or now.state != "Stable":
        return False
    return before.epoch != now.epoch or {m.id for m in before.members} != {m.id for m in now.members}


def _member_changes(before: Group, now: Group) -> tuple[list[GroupMember], list[GroupMember]]:
    earlier, later = {m.id: m for m in before.members}, {m.id: m for m in now.members}
    joined = [member for id, member in later.items() if id not in earlier]
    return joined, [member for id, member in earlier.items() if id not in later]


def _format_changes(joined: list[GroupMember], left: list[GroupMember]) -> str:
    changes = [f"left: {join_members(left)}"] if left else []
    changes += [f"joined: {join_members(joined)}"] if joined else []
    return f" ({'; '.join(changes)})" if changes else ""
