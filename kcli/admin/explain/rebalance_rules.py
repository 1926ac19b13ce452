"""Rules about rebalances: is one under way, and for whom does it wait? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import NOTE, PROBLEM, WARNING, Finding, count, lasting, listed, named
from kcli.admin.explain.observations import REBALANCING
from kcli.admin.groups.group import CLASSIC

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations
    from kcli.admin.groups.group import Group, GroupMember

_REJOIN = (
    "A consumer rejoins in poll(): see what these do between two polls (a slow record, a blocked call). Who has not "
    "rejoined after max.poll.interval.ms (5 min by default) is thrown out and the rebalance goes on without it; "
    "`kcli group remove-members` does that at once."
)
_HAND_OVER = (
    "A member gives partitions up in poll(), after committing: see what the ones that lag behind do between two polls. "
    "Who is not done after its rebalance timeout (max.poll.interval.ms) is fenced."
)


def rebalancing(facts: Observations) -> Iterator[Finding]:
    """A rebalance that is under way, or was at the first look, and who holds it up."""
    group, elapsed = facts.group, lasting(facts.elapsed_ms)
    was, is_now = facts.before.state in REBALANCING, group.state in REBALANCING
    if is_now:
        since = f"at both looks, {elapsed} apart" if was else f"now, though not {elapsed} ago"
        evidence, advice = _classic(facts) if group.type == CLASSIC else _by_broker(group)
        state = f"The group is {group.state} {since}, with {count(len(group.members), 'member')}. "
        yield Finding("rebalancing", PROBLEM if was else WARNING, group.group, state + evidence, advice)
    elif was:
        yield from _ended(facts)
    elif _has_changed(facts.before, group):
        came, left = _difference(facts.before, group)
        evidence = (
            f"The group was Stable at both looks, {elapsed} apart, but has rebalanced between them{_who(came, left)}."
        )
        advice = "One rebalance is a deploy or a restart. If it goes on, look for members that die or poll too seldom."
        yield Finding("rebalanced", WARNING if left else NOTE, group.group, evidence, advice)


def _classic(facts: Observations) -> tuple[str, str]:
    if facts.group.state == "CompletingRebalance":
        return (
            "All members have joined; the leader, one of them, has not yet sent the assignment.",
            "This takes the leader a moment. If it lasts, the leader hangs between join and sync: it is thrown out "
            "after its session or poll time-out. See the members' logs.",
        )
    holders = [member for member in facts.group.members if member.owned]
    joined = [member for member in facts.group.members if not member.owned]
    if not holders:
        return "No member has partitions of the generation before, so it is not to be seen who has not joined.", _REJOIN
    busy = [member for member in holders if _goes_on(facts, member)]
    told = f"It waits for one or more of those that have partitions of the generation before: {_members(holders)}."
    if busy:
        told += f" Still reading and committing, so surely not rejoined: {_members(busy)}."
    if joined:
        told += f" Newly joined: {_members(joined)}."
    return told + " Kafka does not tell more of a classic group.", _REJOIN


def _goes_on(facts: Observations, member: GroupMember) -> bool:
    return any(tp in facts.movements and facts.movements[tp].consumed > 0 for tp in member.owned)


def _by_broker(group: Group) -> tuple[str, str]:
    """KIP-848 and its kin: members' epochs and targets say who is behind."""
    if group.state == "Assigning":
        return (
            f"The broker has an assignment for epoch {group.target_epoch}, and not yet for {group.epoch}.",
            "This takes it a second or so (group.consumer.assignment.interval.ms). If it lasts, see the log of "
            f"{group.coordinator}.",
        )
    late = [member for member in group.members if _is_behind(member, group)]
    if not late:
        return "Every member has what it is to have by now.", "Nothing: it has just ended. Look again."
    return " ".join(map(_lateness, late[:5])) + (f" And {len(late) - 5} more." if len(late) > 5 else ""), _HAND_OVER


def _is_behind(member: GroupMember, group: Group) -> bool:
    late = member.epoch is not None and group.epoch is not None and member.epoch < group.epoch
    return late or (member.target is not None and set(member.target) != set(member.owned))


def _lateness(member: GroupMember) -> str:
    to_give = sorted(set(member.owned) - set(member.target or ()))
    to_take = sorted(set(member.target or ()) - set(member.owned))
    parts = [f"is at epoch {member.epoch}"]
    if to_give:
        parts.append(f"has still to give up {named(to_give)}")
    if to_take:
        parts.append(f"waits for {named(to_take)}")
    return f"{who(member)} {' and '.join(parts)}."


def _ended(facts: Observations) -> Iterator[Finding]:
    came, left = _difference(facts.before, facts.group)
    evidence = f"A rebalance that was under way {lasting(facts.elapsed_ms)} ago has ended{_who(came, left)}."
    advice = "Nothing, if it was a deploy."
    if left:
        advice = "Those who left had not rejoined in time, or went. See their logs for a poll that took too long."
    yield Finding("rebalance-ended", WARNING if left else NOTE, facts.group.group, evidence, advice)


def _has_changed(before: Group, now: Group) -> bool:
    if before.state != "Stable" or now.state != "Stable":
        return False
    return before.epoch != now.epoch or {m.id for m in before.members} != {m.id for m in now.members}


def _difference(before: Group, now: Group) -> tuple[list[GroupMember], list[GroupMember]]:
    earlier, later = {m.id: m for m in before.members}, {m.id: m for m in now.members}
    return [m for id, m in later.items() if id not in earlier], [m for id, m in earlier.items() if id not in later]


def _who(came: list[GroupMember], left: list[GroupMember]) -> str:
    told = [f"left: {_members(left)}"] if left else []
    told += [f"came: {_members(came)}"] if came else []
    return f" ({'; '.join(told)})" if told else ""


def _members(members: Iterable[GroupMember]) -> str:
    return listed(who(member) for member in members)


def who(member: GroupMember) -> str:
    """A member as a person looks for it: its own name if it has one, its client's, and the host it runs on."""
    if member.instance_id:
        name = f"{member.instance_id} (static)"
    else:  # ids made by brokers begin with the client's, those of KIP-848 members are random
        told = not member.client_id or member.id.startswith(member.client_id)
        name = member.id if told else f"{member.client_id} ({member.id})"
    return f"{name} on {member.host}" if member.host else name
