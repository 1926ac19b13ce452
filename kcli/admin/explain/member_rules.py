"""Rules about members: none, idle ones, mixed ones, gone ones, and partitions that nobody or two of them have. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    count,
    lasting,
    listed,
    named,
    partitions_of,
)
from kcli.admin.explain.observations import REBALANCING
from kcli.admin.explain.rebalance_rules import who
from kcli.admin.groups.group import CLASSIC, CONSUMER
from kcli.structs import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Movement, Observations
    from kcli.admin.groups.group import Group, GroupMember

_LEFT_FOR_A_WHILE = -2  # the epoch of a static member that closed and may come back (KIP-848)


def no_members(facts: Observations) -> Iterator[Finding]:
    """Nobody is in the group."""
    group = facts.group
    if group.members or group.state not in ("Empty", "Dead"):
        return
    moving = [m for m in facts.movements.values() if m.consumed]
    if moving:
        yield Finding(
            "commits-without-members",
            NOTE,
            group.group,
            f"No members, but within {lasting(facts.elapsed_ms)} commits came for {named(m.tp for m in moving)}.",
            "Its readers assign partitions to themselves (assign() instead of subscribe(), or an engine that does so): "
            "look for them where they run; Kafka does not know them.",
        )
        return
    behind = [row for row in facts.partitions if row.lag]
    lag = sum(row.lag or 0 for row in behind)
    left = {m.id for m in facts.before.members}
    evidence = "The group has no members" + (f"; {count(len(left), 'member')} left between the looks" if left else "")
    if behind:
        evidence += f", and {count(lag, 'record')} in {count(len(behind), 'partition')} wait for it."
        advice = "Start its consumers, or find out why they do not join: see their logs for refusals and crashes."
    elif not facts.partitions:
        evidence += ", and nothing is committed."
        advice = "Nothing, if it is not meant to run now. Without committed offsets its consumers begin anew."
    else:
        known = all(row.lag is not None for row in facts.partitions)
        evidence += "; its lag is 0." if known else "."
        advice = "Nothing, if it is not meant to run now. Committed offsets expire (offsets.retention.minutes)."
    yield Finding("no-members", PROBLEM if behind else NOTE, group.group, evidence, advice)


def idle_members(facts: Observations) -> Iterator[Finding]:
    """Members of a group at rest that have no partition."""
    group = facts.group
    if not facts.at_rest or not _assigns_partitions(group):
        return
    idle = [m for m in group.members if not m.owned and not m.target and m.epoch != _LEFT_FOR_A_WHILE and not m.error]
    for reason, members in _grouped(facts, idle).items():
        evidence, advice = reason
        yield Finding("idle-member", NOTE, listed(map(who, members)), evidence, advice)


def _grouped(facts: Observations, idle: list[GroupMember]) -> dict[tuple[str, str], list[GroupMember]]:
    reasons: dict[tuple[str, str], list[GroupMember]] = {}
    for member in idle:
        reasons.setdefault(_why_idle(facts, member), []).append(member)
    return reasons


def _why_idle(facts: Observations, member: GroupMember) -> tuple[str, str]:
    topics = [topic for name in member.topics if (topic := facts.topic(name))]
    if member.topics and not topics:
        return (
            f"It subscribes to {listed(sorted(member.topics))}, which the cluster does not have, and has no partition.",
            "Correct the topic's name in the member's settings, or create the topic.",
        )
    if not topics:
        pattern = f" with the pattern {member.pattern}" if member.pattern else ""
        return f"It subscribes to no topic there is{pattern}.", "See what the member subscribes to."
    names = {topic.name for topic in topics}
    partitions = sum(len(topic.partitions) for topic in topics)
    rivals = sum(1 for other in facts.group.members if names & ({*other.topics} | {tp.topic for tp in other.owned}))
    told = f"{listed(sorted(names))} has {count(partitions, 'partition')}, and {count(rivals, 'member')} share them."
    if rivals > partitions:
        return (
            told,
            "A partition has one reader: more members than partitions stand by. Add partitions or stop members.",
        )
    assignor = facts.group.assignor or "unknown"
    return (
        f"{told} That is enough for all, but it was given none (assignor {assignor}).",
        "The assignor `range` gives the first partitions of each topic to the first members: with many small topics "
        "use cooperative-sticky or roundrobin.",
    )


def mixed_members(facts: Observations) -> Iterator[Finding]:
    """Members that do not agree: on the protocol, or on what to read."""
    group = facts.group
    kinds = Counter(member.member_type for member in group.members if member.member_type)
    if len(kinds) > 1:
        old = [who(member) for member in group.members if member.member_type == "classic"]
        yield Finding(
            "mixed-protocols",
            WARNING,
            group.group,
            f"{count(kinds['classic'], 'member speaks', 'members speak')} the classic protocol and {kinds['consumer']} "
            f"the one of KIP-848. Classic: {listed(old)}.",
            "Well during a migration. Finish it: give the classic ones group.protocol=consumer; until then each "
            "rebalance takes as long as they need.",
        )
    yield from _mixed_subscriptions(facts)


def _mixed_subscriptions(facts: Observations) -> Iterator[Finding]:
    told = [(m.topics, m.pattern) for m in facts.group.members if m.topics or m.pattern]
    kinds = Counter((tuple(sorted(topics)), pattern) for topics, pattern in told)
    if len(kinds) < 2:
        return
    shown = [f"{count(n, 'member')}: {pattern or listed(topics)}" for (topics, pattern), n in kinds.most_common()]
    yield Finding(
        "mixed-subscriptions",
        NOTE,
        facts.group.group,
        f"Members do not subscribe to the same: {listed(shown)}.",
        "Often a deploy that is half done, or two applications under one group id, which had better have one each.",
    )


def assignors(facts: Observations) -> Iterator[Finding]:
    """Partitions of a group at rest that two members have, or nobody: what members agree on does not fit together."""
    group = facts.group
    if not facts.at_rest or not _assigns_partitions(group) or any(member.error for member in group.members):
        return
    owners = Counter(tp for member in group.members for tp in member.owned)
    twice = [tp for tp, number in owners.items() if number > 1]
    if twice:
        yield Finding(
            "owned-twice",
            PROBLEM,
            group.group,
            f"More than one member has {named(twice)} (assignor {group.assignor or 'unknown'}): it is read twice.",
            "The assignor of the group's leader is at fault: see which library and version leads the group.",
        )
    read = {name for member in group.members for name in member.topics}
    for name in sorted(read):
        topic = facts.topic(name)
        orphans = [p for p in (topic.partitions if topic else ()) if TopicPartition(name, p) not in owners]
        if orphans:
            yield Finding(
                "unassigned",
                PROBLEM,
                partitions_of(name, orphans),
                f"No member has {partitions_of(name, orphans)}, though the group is Stable and subscribes to {name}.",
                "New partitions are seen when clients refresh their metadata (metadata.max.age.ms, 5 min by default); "
                "if that is over, the leader's assignor left them out, or may not see them (authorization).",
            )


def gone_static_members(facts: Observations) -> Iterator[Finding]:
    """Static members that have gone, or look so: they keep their partitions until their session is over (KIP-345)."""
    now = {member.instance_id for member in facts.group.members}
    for member in facts.before.members:
        if member.instance_id and member.instance_id not in now:
            yield Finding(
                "static-member-gone",
                WARNING,
                who(member),
                f"It was in the group {lasting(facts.elapsed_ms)} ago, with {_owns(member)}, and no longer is.",
                "Its session is over or it was removed, and others get its partitions. Start it if it should run.",
            )
    for member in facts.group.members:
        if member.instance_id and member.epoch == _LEFT_FOR_A_WHILE:
            yield Finding(
                "static-member-gone",
                PROBLEM,
                who(member),
                f"It has closed, to come back (epoch {_LEFT_FOR_A_WHILE}), and keeps {_owns(member, target=True)}: "
                "nobody reads that until it is back or its session is over.",
                f"Start it again under group.instance.id={member.instance_id}, or let others have its partitions with "
                "`kcli group remove-members`.",
            )


def silent_members(facts: Observations) -> Iterator[Finding]:
    """Members with records to read that committed nothing between the looks, though no rebalance kept them from it."""
    if {facts.before.state, facts.group.state} & REBALANCING:
        return
    for member in facts.group.members:
        owned = [facts.movements[tp] for tp in member.owned if tp in facts.movements]
        behind = [movement for movement in owned if movement.lag]
        if not behind or any(movement.consumed for movement in owned) or member.epoch == _LEFT_FOR_A_WHILE:
            continue
        yield _silent(facts, member, behind)


def _silent(facts: Observations, member: GroupMember, behind: list[Movement]) -> Finding:
    waiting = f"{count(sum(m.lag for m in behind), 'record')} to read in {named(m.tp for m in behind)}"
    did = "committed" if facts.commits else "acknowledged"
    evidence = f"It {did} nothing in {lasting(facts.committing_ms)}, with {waiting}."
    oldest = max((m.second.time_lag_ms or 0 for m in behind), default=0)
    if oldest:
        evidence += f" The oldest of them is {lasting(oldest)} old."
    if member.instance_id:
        return Finding(
            "static-member-gone",
            WARNING,
            who(member),
            evidence + " It is a static member: should it have died, the group waits for it until its session is over.",
            f"See whether {member.instance_id} still runs. If not, start it, or remove it with "
            "`kcli group remove-members`. If so, it hangs, or commits more seldom than we looked (--interval).",
        )
    return Finding(
        "silent-member",
        WARNING,
        who(member),
        evidence + " Its session is alive, or it would not be in the group.",
        "See its log: a record that it fails on again and again, a call that blocks, or commits that are switched off; "
        "or it commits more seldom than the looks are apart (--interval).",
    )


def _assigns_partitions(group: Group) -> bool:
    """Are its members consumers? Connect's workers have a classic group too, but share out other things."""
    return group.type == CONSUMER or (group.type == CLASSIC and group.protocol_type == "consumer")


def _owns(member: GroupMember, *, target: bool = False) -> str:
    partitions = member.owned or (member.target or () if target else ())
    if not partitions:
        return "no partition"
    return listed(partitions_of(topic, numbers) for topic, numbers in numbers_by_topic(partitions).items())
