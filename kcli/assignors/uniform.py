"""Uniform assignor (KIP-848), the server's default: balance first, then as few moves as possible. It ignores racks.

This module has the case of members with equal subscriptions; `uniform_unequal` has the general one. With equal
subscriptions each member gets `low` partitions, and some get one more. One by one, in the order of the coordinator's
hash table, members keep their previous partitions, up to one more than `low` as long as extra ones are left; a member
with less leaves the extra one to the members after it, unless these are too few to take all. Free partitions are then
assigned member by member: the first member that needs some gets all it needs, then the next. So no member has more than
one partition more than another, and an extra one goes to an early member, not to a needy one.

Source: org.apache.kafka.coordinator.group.assignor.UniformAssignor and UniformHomogeneousAssignmentBuilder of Kafka 4.3
(earlier versions do not let a member keep an extra partition).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kcli.assignors import uniform_unequal
from kcli.assignors.claims import Claims, settle
from kcli.assignors.java_hashing import copied_table, grown_table, hash_of_number, walk
from kcli.assignors.model import Assignment, Member, Topics, subscribed
from kcli.assignors.server_order import walk_members, walk_names, walk_topics
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the target assignment of the group coordinator; each member's partitions are sorted.

    `owned` is the previous target assignment. Kafka's result depends on the order of hash tables, and so does this one:
    it is equal if topics have their ids, and if members and their partitions are in the order of ConsumerGroupDescribe,
    new members last. Without ids, topics are sorted by name.

    Two intended differences: a partition that two members claim counts as free (this cannot happen on the server), and
    partitions that do not exist are ignored.
    """
    existing = subscribed(topics, members)
    claims = settle(existing, members)
    if not existing:
        return {member.id: [] for member in members}
    equal = all(member.topics == members[0].topics for member in members)
    assignment = (_assign_equal if equal else uniform_unequal.assign)(existing, members, claims)
    return {member.id: sorted(assignment.get(member.id, ())) for member in members}


def _assign_equal(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """Return the assignment of `topics`, to all of which all `members` subscribe."""
    low, extras = divmod(sum(topic.partitions for topic in topics.values()), len(members))
    free = list(_unclaimed(topics, members, claims))
    assignment: Assignment = {}
    missing: dict[str, int] = {}
    for remaining, member in zip(range(len(members), 0, -1), walk_members(members), strict=True):
        may_get_extra = extras > 0
        kept, lost = _keep(topics, member, claims, low + may_get_extra)
        needed = low + may_get_extra - len(kept)
        if needed and may_get_extra and remaining > extras:
            needed -= 1
            may_get_extra = False
        extras -= may_get_extra
        assignment[member.id], missing[member.id] = kept, needed
        free += lost
    pool = iter(free)
    for member_id, needed in missing.items():
        assignment[member_id] += islice(pool, needed)
    return assignment


def _unclaimed(topics: Topics, members: Sequence[Member], claims: Claims) -> Iterator[TopicPartition]:
    """Yield the partitions without an owner, in the order of the first member's subscription."""
    owners = claims.owners()
    names = members[0].topics
    existing = [name for name in walk_names(names) if name in topics]
    for topic in walk_topics(existing, topics, copied_table(len(names))):
        for p in range(topics[topic].partitions):
            if (each := TopicPartition(topic, p)) not in owners:
                yield each


def _keep(
    topics: Topics, member: Member, claims: Claims, most: int
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the partitions that a member keeps, topic by topic, and those that it loses."""
    claimed: dict[str, list[int]] = {}
    for topic, p in claims.valid[member.id]:
        claimed.setdefault(topic, []).append(p)
    kept: list[TopicPartition] = []
    lost: list[TopicPartition] = []
    table = grown_table(len({each.topic for each in member.owned}))
    for topic in walk_topics(list(claimed), topics, table):
        partitions = walk(claimed[topic], copied_table(len(claimed[topic])), hash_of_number)
        free_slots = most - len(kept)
        kept += [TopicPartition(topic, p) for p in partitions[:free_slots]]
        lost += [TopicPartition(topic, p) for p in partitions[free_slots:]]
    return kept, lost
