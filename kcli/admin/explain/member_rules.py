"""Rules about members: none, idle, mixed, silent or absent ones, and wrong assignments. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.admin.explain.findings import (
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    format_topic_partitions,
    join_members,
    join_names,
    join_partitions,
    member_name,
    quantity,
)
from kcli.admin.explain.observations import REBALANCING
from kcli.admin.groups.group import CLASSIC, CONSUMER
from kcli.structs import TopicPartition, numbers_by_topic
from kcli.text import format_duration

if TYPE_CHECKING:
    from kcli.admin.explain.observations import Observations, PartitionProgress
    from kcli.admin.groups.group import Group, GroupMember

_TEMPORARILY_CLOSED = -2  # the epoch of a static member that closed and may return (KIP-848)


def no_members(facts: Observations) -> Iterator[Finding]:
    """A group without members."""
    group = facts.group
    if group.members or group.state not in ("Empty", "Dead"):
        return
    advancing = [progress for progress in facts.progress.values() if progress.consumed]
    if advancing:
        yield Finding(
            "commits-without-members",
            NOTE,
            group.group,
            f"The group has no members, but offsets of {join_partitions(p.tp for p in advancing)} were committed "
            f"within {format_duration(facts.elapsed_ms)}.",
            "The consumers call assign() instead of subscribe(), directly or through a processing engine, so Kafka "
            "does not list them as members. Look for them on the hosts where they run.",
        )
        return
    lagging = [row for row in facts.partitions if row.lag]
    lag = sum(row.lag or 0 for row in lagging)
    left = {member.id for member in facts.group_before.members}
    evidence = "The group has no members"
    if left:
        evidence += f"; {quantity(len(left), 'member')} left between the observations"
    if lagging:
        evidence += f"; unread: {quantity(lag, 'record')} in {quantity(len(lagging), 'partition')}."
        advice = (
            "Start the consumers. If they are running, check their logs for the reason why they do not join, such as "
            "an authorization error or a crash."
        )
    elif not facts.partitions:
        evidence += "; no offsets are committed."
        advice = (
            "Nothing to do if the group is not meant to run now. Without committed offsets, its consumers start where "
            "auto.offset.reset says."
        )
    else:
        known = all(row.lag is not None for row in facts.partitions)
        evidence += "; its lag is 0." if known else "."
        advice = (
            "Nothing to do if the group is not meant to run now. Committed offsets expire after "
            "offsets.retention.minutes."
        )
    yield Finding("no-members", PROBLEM if lagging else NOTE, group.group, evidence, advice)


def idle_members(facts: Observations) -> Iterator[Finding]:
    """Members of a stable group that own no partition."""
    group = facts.group
    if not facts.is_stable or not _assigns_partitions(group):
        return
    by_reason: dict[tuple[str, str], list[GroupMember]] = {}
    for member in group.members:
        if not member.owned and not member.target and member.epoch != _TEMPORARILY_CLOSED and not member.error:
            by_reason.setdefault(_idle_reason(facts, member), []).append(member)
    for (evidence, advice), members in by_reason.items():
        yield Finding("idle-member", NOTE, join_members(members), evidence, advice)


def _idle_reason(facts: Observations, member: GroupMember) -> tuple[str, str]:
    """Return evidence and advice."""
    topics = [topic for name in member.topics if (topic := facts.topic(name))]
    if member.topics and not topics:
        return (
            f"It subscribes to {join_names(sorted(member.topics))}, which the cluster does not have, and owns no "
            "partition.",
            "Correct the topic name in the member's configuration, or create the topic.",
        )
    if not topics:
        pattern = f" (pattern {member.pattern})" if member.pattern else ""
        return f"It subscribes to no existing topic{pattern}.", "Check the subscription of the member."
    names = {topic.name for topic in topics}
    partitions = sum(len(topic.partitions) for topic in topics)
    readers = sum(1 for other in facts.group.members if names & ({*other.topics} | {tp.topic for tp in other.owned}))
    has = "has" if len(names) == 1 else "have"
    evidence = (
        f"{join_names(sorted(names))} {has} {quantity(partitions, 'partition')}, and {quantity(readers, 'member')} "
        "share them."
    )
    if readers > partitions:
        return (
            evidence,
            "Each partition is read by one member only, so additional members are idle. Add partitions or stop "
            "members.",
        )
    assignor = facts.group.assignor or "unknown"
    return (
        f"{evidence} There are enough partitions for every member, but this one was assigned none (assignor "
        f"{assignor}).",
        "The assignor `range` gives the first partitions of each topic to the first members. With many topics of few "
        "partitions, use cooperative-sticky or roundrobin.",
    )


def mixed_members(facts: Observations) -> Iterator[Finding]:
    """Members that use different protocols or have different subscriptions."""
    group = facts.group
    types = Counter(member.member_type for member in group.members if member.member_type)
    if len(types) > 1:
        classic = [member for member in group.members if member.member_type == "classic"]
        yield Finding(
            "mixed-protocols",
            WARNING,
            group.group,
            f"Members use different protocols: {types['classic']} classic, {types['consumer']} consumer (KIP-848). "
            f"Classic: {join_members(classic)}.",
            "This is normal during a migration. To finish it, set group.protocol=consumer on the classic members; "
            "until then every rebalance waits for them.",
        )
    yield from _mixed_subscriptions(facts)


def _mixed_subscriptions(facts: Observations) -> Iterator[Finding]:
    known = [(m.topics, m.pattern) for m in facts.group.members if m.topics or m.pattern]
    subscriptions = Counter((tuple(sorted(topics)), pattern) for topics, pattern in known)
    if len(subscriptions) < 2:
        return
    counts = [
        f"{quantity(number, 'member')}: {pattern or join_names(topics)}"
        for (topics, pattern), number in subscriptions.most_common()
    ]
    yield Finding(
        "mixed-subscriptions",
        NOTE,
        facts.group.group,
        f"Members have different subscriptions: {join_names(counts, '; ')}.",
        "Either a deployment is in progress, or two applications use the same group id. Give each application a group "
        "id of its own.",
    )


def wrong_assignments(facts: Observations) -> Iterator[Finding]:
    """Partitions of a stable group that have two owners or none."""
    group = facts.group
    if not facts.is_stable or not _assigns_partitions(group) or any(member.error for member in group.members):
        return
    owners = Counter(tp for member in group.members for tp in member.owned)
    owned_twice = [tp for tp, number in owners.items() if number > 1]
    if owned_twice:
        yield Finding(
            "owned-twice",
            PROBLEM,
            group.group,
            f"More than one member owns {join_partitions(owned_twice)} (assignor {group.assignor or 'unknown'}), so "
            "records are read twice.",
            "The assignor of the group leader is faulty. Check the client library and version of the group leader.",
        )
    subscribed = {name for member in group.members for name in member.topics}
    for name in sorted(subscribed):
        topic = facts.topic(name)
        unassigned = [p for p in (topic.partitions if topic else ()) if TopicPartition(name, p) not in owners]
        if unassigned:
            partitions = format_topic_partitions(name, unassigned)
            yield Finding(
                "unassigned",
                PROBLEM,
                partitions,
                f"No member owns {partitions}, although the group is Stable and subscribes to {name}.",
                "Clients discover new partitions when they refresh their metadata (metadata.max.age.ms, 5 minutes by "
                "default). If that time has passed, the assignor omitted them, or the group leader is not authorized "
                "to describe the topic.",
            )


def absent_static_members(facts: Observations) -> Iterator[Finding]:
    """Static members that left. They keep their partitions until their session expires (KIP-345)."""
    instance_ids = {member.instance_id for member in facts.group.members}
    for member in facts.group_before.members:
        if member.instance_id and member.instance_id not in instance_ids:
            yield Finding(
                "static-member-gone",
                WARNING,
                member_name(member),
                f"It was in the group {format_duration(facts.elapsed_ms)} ago, with {_owned(member)}, and is no longer "
                "a member.",
                "Its session expired or it was removed; other members receive its partitions. Start it if it "
                "should run.",
            )
    for member in facts.group.members:
        if member.instance_id and member.epoch == _TEMPORARILY_CLOSED:
            yield Finding(
                "static-member-gone",
                PROBLEM,
                member_name(member),
                f"It has closed temporarily (epoch {_TEMPORARILY_CLOSED}) and keeps {_owned(member, target=True)}: "
                "nobody reads from there until it returns or its session expires.",
                f"Start it again with group.instance.id={member.instance_id}, or release its partitions with "
                "`kcli group remove-members`.",
            )


def silent_members(facts: Observations) -> Iterator[Finding]:
    """Members with a lag that committed nothing between the observations, although no rebalance prevented it."""
    if {facts.group_before.state, facts.group.state} & REBALANCING:
        return
    for member in facts.group.members:
        owned = [facts.progress[tp] for tp in member.owned if tp in facts.progress]
        lagging = [progress for progress in owned if progress.lag]
        if not lagging or any(progress.consumed for progress in owned) or member.epoch == _TEMPORARILY_CLOSED:
            continue
        yield _silent_member(facts, member, lagging)


def _silent_member(facts: Observations, member: GroupMember, lagging: list[PartitionProgress]) -> Finding:
    unread = f"{quantity(sum(p.lag for p in lagging), 'record')} to read in {join_partitions(p.tp for p in lagging)}"
    verb = "committed" if facts.commits_offsets else "acknowledged"
    evidence = f"It {verb} nothing in {format_duration(facts.committing_ms)}, with {unread}."
    oldest_ms = max((progress.second.time_lag_ms or 0 for progress in lagging), default=0)
    if oldest_ms:
        evidence += f" The oldest of them is {format_duration(oldest_ms)} old."
    if member.instance_id:
        return Finding(
            "static-member-gone",
            WARNING,
            member_name(member),
            evidence + " It is a static member: if it has crashed, the group waits for it until its session expires.",
            f"Check whether {member.instance_id} is running. If not, start it, or remove it with `kcli group "
            "remove-members`. If it is, it is blocked, or it commits less often than --interval.",
        )
    return Finding(
        "silent-member",
        WARNING,
        member_name(member),
        evidence + " Its session is alive, because the group still lists it.",
        "Check its log for a record that it fails on repeatedly, a blocked call, or disabled commits. If it commits "
        "less often than --interval, repeat with a longer --interval.",
    )


def _assigns_partitions(group: Group) -> bool:
    """True if the members are consumers. Workers of Kafka Connect form classic groups too, but assign connectors."""
    return group.type == CONSUMER or (group.type == CLASSIC and group.protocol_type == "consumer")


def _owned(member: GroupMember, *, target: bool = False) -> str:
    partitions = member.owned or (member.target or () if target else ())
    if not partitions:
        return "no partition"
    by_topic = numbers_by_topic(partitions)
    return join_names(format_topic_partitions(topic, numbers) for topic, numbers in by_topic.items())
