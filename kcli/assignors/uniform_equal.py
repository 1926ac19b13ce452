"""Uniform assignment among members that all want the same topics. Pure.

Everybody gets `low` partitions and some one more. One by one, in the order of the coordinator's hash table, members
keep what they had up to one more than `low`, as long as there is somebody who may have that; a member with less
leaves the extra one to those behind it unless they are too few to take all. What is free is then dealt in one go: the
first member in need takes all it lacks, then the next.

So nobody has more than one partition more than another, and who kept an extra one was early, not needy.
Source: Kafka's UniformHomogeneousAssignmentBuilder of 4.3 (before, an extra one was left to nobody).
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from kcli.assignors.claims import Claims
from kcli.assignors.java_hashing import copied_table, grown_table, hash_of_number, walk
from kcli.assignors.model import Assignment, Member, Topics
from kcli.assignors.server_order import walk_members, walk_names, walk_topics
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member], claims: Claims) -> Assignment:
    """The assignment of `topics`, which all `members` want."""
    low, extras = divmod(sum(topic.partitions for topic in topics.values()), len(members))
    free = list(_unclaimed(topics, members, claims))
    assignment: Assignment = {}
    lacking: dict[str, int] = {}
    for behind, member in zip(range(len(members), 0, -1), walk_members(members), strict=True):
        may_have_more = extras > 0
        kept, lost = _keep(topics, member, claims, low + may_have_more)
        lack = low + may_have_more - len(kept)
        if lack and may_have_more and behind > extras:
            lack -= 1
            may_have_more = False
        extras -= may_have_more
        assignment[member.id], lacking[member.id] = kept, lack
        free += lost
    pool = iter(free)
    for member_id, lack in lacking.items():
        assignment[member_id] += islice(pool, lack)
    return assignment


def _unclaimed(topics: Topics, members: Sequence[Member], claims: Claims) -> Iterator[TopicPartition]:
    """What nobody had, in the order of the first member's subscription."""
    owners = claims.owners()
    wanted = members[0].topics
    existing = [name for name in walk_names(wanted) if name in topics]
    for topic in walk_topics(existing, topics, copied_table(len(wanted))):
        for p in range(topics[topic].partitions):
            if (each := TopicPartition(topic, p)) not in owners:
                yield each


def _keep(
    topics: Topics, member: Member, claims: Claims, most: int
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """What a member keeps of what it had, topic by topic, and what it loses."""
    had: dict[str, list[int]] = {}
    for topic, p in claims.held[member.id]:
        had.setdefault(topic, []).append(p)
    kept: list[TopicPartition] = []
    lost: list[TopicPartition] = []
    table = grown_table(len({each.topic for each in member.owned}))
    for topic in walk_topics(list(had), topics, table):
        partitions = walk(had[topic], copied_table(len(had[topic])), hash_of_number)
        room = most - len(kept)
        kept += [TopicPartition(topic, p) for p in partitions[:room]]
        lost += [TopicPartition(topic, p) for p in partitions[room:]]
    return kept, lost
