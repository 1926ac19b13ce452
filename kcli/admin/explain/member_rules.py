"""Rules about members: missing, idle, mixed, silent, and assignments with gaps or two owners. Pure."""

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
    listed,
    member_name,
    named,
    partitions_of,
)
from kcli.admin.explain.observations import REBALANCING
from kcli.admin.groups.group import CLASSIC, CONSUMER
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Movement, Observations
    from kcli.admin.groups.group import Group, GroupMember

_LEFT_FOR_A_WHILE = -2  # the epoch of a static member that closed and may join again (KIP-848)


def no_members(seen: Observations) -> Iterator[Finding]:
    """Report a group without members, or with commits from outside."""
    group = seen.group
    if group.members or group.state not in ("Empty", "Dead"):
        return
    moving = [m for m in seen.movements.values() if m.consumed]
    if moving:
        yield Finding(
            "commits-without-members",
            NOTE,
            group.group,
            f"There are no members, but commits within {format_duration(seen.elapsed_ms)} for "
            f"{named(m.tp for m in moving)}.",
            "The readers assign partitions to themselves (assign() instead of subscribe(), or an engine that does "
            "so). Kafka does not know them; look for them where they run.",
        )
        return
    behind = [row for row in seen.partitions if row.lag]
    lag = sum(row.lag or 0 for row in behind)
    left = {m.id for m in seen.before.members}
    evidence = "The group has no members" + (
        f"; {count(len(left), 'member')} left between the observations" if left else ""
    )
    if behind:
        evidence += f", and {count(lag, 'record')} in {count(len(behind), 'partition')} are unread."
        advice = "Start its consumers, or see their logs for the reason why they do not join (refusals, crashes)."
    elif not seen.partitions:
        evidence += " and no committed offsets."
        advice = "No action, if it should not run now. Without committed offsets its consumers start over."
    else:
        known = all(row.lag is not None for row in seen.partitions)
        evidence += "; its lag is 0." if known else "."
        advice = "No action, if it should not run now. Committed offsets expire (offsets.retention.minutes)."
    yield Finding("no-members", PROBLEM if behind else NOTE, group.group, evidence, advice)


def idle_members(seen: Observations) -> Iterator[Finding]:
    """Report members of a stable group without partitions."""
    group = seen.group
    if not seen.at_rest or not _assigns_partitions(group):
        return
    idle = [m for m in group.members if not m.owned and not m.target and m.epoch != _LEFT_FOR_A_WHILE and not m.error]
    for reason, members in _grouped(seen, idle).items():
        evidence, advice = reason
        yield Finding("idle-member", NOTE, listed(map(member_name, members)), evidence, advice)


def _grouped(seen: Observations, idle: list[GroupMember]) -> dict[tuple[str, str], list[GroupMember]]:
    reasons: dict[tuple[str, str], list[GroupMember]] = {}
    for member in idle:
        reasons.setdefault(_why_idle(seen, member), []).append(member)
    return reasons


def _why_idle(seen: Observations, member: GroupMember) -> tuple[str, str]:
    topics = [topic for name in member.topics if (topic := seen.topic(name))]
    if member.topics and not topics:
        return (
            f"It subscribes to {listed(sorted(member.topics))}, which do not exist in the cluster, and has no "
            "partition.",
            "Correct the topic name in the settings of the member, or create the topic.",
        )
    if not topics:
        pattern = f" with the pattern {member.pattern}" if member.pattern else ""
        return f"It subscribes to no existing topic{pattern}.", "Check the subscription of the member."
    names = {topic.name for topic in topics}
    partitions = sum(len(topic.partitions) for topic in topics)
    rivals = sum(1 for other in seen.group.members if names & ({*other.topics} | {tp.topic for tp in other.owned}))
    evidence = (
        f"{listed(sorted(names))} has {count(partitions, 'partition')}, and {count(rivals, 'member')} share them."
    )
    if rivals > partitions:
        return (
            evidence,
            "A partition has one reader, so members beyond the number of partitions are idle. Add partitions or stop "
            "members.",
        )
    assignor = seen.group.assignor or "unknown"
    return (
        f"{evidence} There are enough partitions, but the member got none (assignor {assignor}).",
        "The assignor `range` gives the first partitions of each topic to the first members; with many small topics "
        "use cooperative-sticky or roundrobin.",
    )


def mixed_members(seen: Observations) -> Iterator[Finding]:
    """Report members with different protocols or subscriptions."""
    group = seen.group
    kinds = Counter(member.member_type for member in group.members if member.member_type)
    if len(kinds) > 1:
        old = [member_name(member) for member in group.members if member.member_type == "classic"]
        yield Finding(
            "mixed-protocols",
            WARNING,
            group.group,
            f"{count(kinds['classic'], 'member speaks', 'members speak')} the classic protocol and {kinds['consumer']} "
            f"that of KIP-848. Classic: {listed(old)}.",
            "Normal during a migration. To complete it, set group.protocol=consumer in the classic members; until "
            "then each rebalance waits for them.",
        )
    yield from _mixed_subscriptions(seen)


def _mixed_subscriptions(seen: Observations) -> Iterator[Finding]:
    evidence = [(m.topics, m.pattern) for m in seen.group.members if m.topics or m.pattern]
    kinds = Counter((tuple(sorted(topics)), pattern) for topics, pattern in evidence)
    if len(kinds) < 2:
        return
    shown = [f"{count(n, 'member')}: {pattern or listed(topics)}" for (topics, pattern), n in kinds.most_common()]
    yield Finding(
        "mixed-subscriptions",
        NOTE,
        seen.group.group,
        f"Members have different subscriptions: {listed(shown)}.",
        "Often an incomplete deploy, or two applications with one group id, which need one each.",
    )


def assignors(seen: Observations) -> Iterator[Finding]:
    """Report partitions of a stable group with two owners or none."""
    group = seen.group
    if not seen.at_rest or not _assigns_partitions(group) or any(member.error for member in group.members):
        return
    owners = Counter(tp for member in group.members for tp in member.owned)
    twice = [tp for tp, number in owners.items() if number > 1]
    if twice:
        yield Finding(
            "owned-twice",
            PROBLEM,
            group.group,
            f"More than one member owns {named(twice)} (assignor {group.assignor or 'unknown'}): records are read "
            "twice.",
            "The assignor of the group leader is faulty: check its client library and version.",
        )
    read = {name for member in group.members for name in member.topics}
    for name in sorted(read):
        topic = seen.topic(name)
        orphans = [p for p in (topic.partitions if topic else ()) if TopicPartition(name, p) not in owners]
        if orphans:
            yield Finding(
                "unassigned",
                PROBLEM,
                partitions_of(name, orphans),
                f"No member owns {partitions_of(name, orphans)}, although the group is Stable and subscribes to "
                f"{name}.",
                "Clients see new partitions after a refresh of their metadata (metadata.max.age.ms, 5 min by "
                "default). If that has passed, the assignor of the leader left them out, or may not see them "
                "(authorization).",
            )


def gone_static_members(seen: Observations) -> Iterator[Finding]:
    """Report static members that left or look so; they keep their partitions until their session expires (KIP-345)."""
    now = {member.instance_id for member in seen.group.members}
    for member in seen.before.members:
        if member.instance_id and member.instance_id not in now:
            yield Finding(
                "static-member-gone",
                WARNING,
                member_name(member),
                f"It was in the group {format_duration(seen.elapsed_ms)} ago, with {_owns(member)}; now it is not.",
                "Its session has expired or it was removed, and other members get its partitions. Start it if it "
                "should run.",
            )
    for member in seen.group.members:
        if member.instance_id and member.epoch == _LEFT_FOR_A_WHILE:
            yield Finding(
                "static-member-gone",
                PROBLEM,
                member_name(member),
                f"It has closed and may join again (epoch {_LEFT_FOR_A_WHILE}), and keeps "
                f"{_owns(member, target=True)}: no member reads them until it joins again or its session expires.",
                f"Start it again with group.instance.id={member.instance_id}, or free its partitions with `kcli group "
                "remove-members`.",
            )


def silent_members(seen: Observations) -> Iterator[Finding]:
    """Report members with unread records and without a commit between the observations, outside a rebalance."""
    if {seen.before.state, seen.group.state} & REBALANCING:
        return
    for member in seen.group.members:
        owned = [seen.movements[tp] for tp in member.owned if tp in seen.movements]
        behind = [movement for movement in owned if movement.lag]
        if not behind or any(movement.consumed for movement in owned) or member.epoch == _LEFT_FOR_A_WHILE:
            continue
        yield _silent(seen, member, behind)


def _silent(seen: Observations, member: GroupMember, behind: list[Movement]) -> Finding:
    unread = f"{count(sum(m.lag for m in behind), 'record')} unread in {named(m.tp for m in behind)}"
    did = "committed" if seen.commits else "acknowledged"
    evidence = f"It {did} nothing in {format_duration(seen.committed_elapsed_ms)}, with {unread}."
    oldest = max((m.second.time_lag_ms or 0 for m in behind), default=0)
    if oldest:
        evidence += f" The oldest of them is {format_duration(oldest)} old."
    if member.instance_id:
        return Finding(
            "static-member-gone",
            WARNING,
            member_name(member),
            evidence + " It is a static member: if it has died, the group waits for it until its session expires.",
            f"Check whether {member.instance_id} runs. If not, start it, or remove it with `kcli group "
            "remove-members`. If so, it hangs, or commits less often than the observations (--interval).",
        )
    return Finding(
        "silent-member",
        WARNING,
        member_name(member),
        evidence + " Its session is alive.",
        "See its log: a record that fails again and again, a blocking call, or disabled commits; or it commits less "
        "often than the observations (--interval).",
    )


def _assigns_partitions(group: Group) -> bool:
    """Return True for consumers; the workers of Connect have a classic group too, but do not assign partitions."""
    return group.type == CONSUMER or (group.type == CLASSIC and group.protocol_type == "consumer")


def _owns(member: GroupMember, *, target: bool = False) -> str:
    partitions = member.owned or (member.target or () if target else ())
    if not partitions:
        return "no partitions"
    return listed(partitions_of(topic, numbers) for topic, numbers in numbers_by_topic(partitions).items())
