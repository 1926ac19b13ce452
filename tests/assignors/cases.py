"""Difficult groups from a seeded random generator: for comparisons, properties and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from kcli.assignors.claims import settle
from kcli.assignors.model import Member, Topic, subscribed
from kcli.assignors.racks import rack_match
from kcli.structs import TopicPartition

RACKS = ("a", "b", "c")


class Case(NamedTuple):
    """The input of an assignor."""

    topics: dict[str, Topic]
    members: list[Member]

    def __repr__(self) -> str:
        topics = [f"{name}:{topic.partitions}{_racks(topic)}" for name, topic in self.topics.items()]
        return "\n  ".join(["Case", *topics, *map(_member_text, self.members)])


def _racks(topic: Topic) -> str:
    return " " + ",".join("".join(sorted(racks)) or "-" for racks in topic.racks) if topic.racks else ""


def _member_text(member: Member) -> str:
    owned = ",".join(map(str, member.owned))
    name = f"{member.id} rack={member.rack} instance={member.instance_id}"
    return f"{name}: {','.join(sorted(member.topics))} owns {owned}@{member.generation}"


def features(case: Case) -> set[str]:
    """Return the features of the group that make its assignment difficult."""
    topics = subscribed(case.topics, case.members)
    claimants = [member for member in case.members if member.owned]
    found = {
        "racks": bool(rack_match(topics, case.members).members),
        "static members": any(member.instance_id for member in case.members),
        "stale generations": len({member.generation for member in claimants}) > 1,
        "double claims": bool(settle(case.topics, case.members).disputed),
        "unequal subscriptions": len({member.topics for member in case.members}) > 1,
    }
    return {feature for feature, present in found.items() if present}


def make_cases(count: int, seed: int) -> Iterator[Case]:
    """Yield cases, each from a seed of its own."""
    for number in range(count):
        yield make_case(Random(f"{seed}/{number}"))


def make_case(random: Random) -> Case:
    """Make topics with and without racks, and members with an older assignment; some claims are false."""
    topics = _topics(random)
    wanted = [*topics, "ghost"] if random.random() < 0.2 else list(topics)
    members = [_member(random, f"c{number:02}", wanted) for number in range(random.randint(1, 8))]
    if random.random() < 0.6:
        common = members[0].topics
        members = [member._replace(topics=common) for member in members]
    members = _owning(random, topics, members)
    random.shuffle(members)
    return Case(topics, members)


def _topics(random: Random) -> dict[str, Topic]:
    names = [f"t{number:02}" for number in range(random.randint(1, 6))]
    same = random.randint(1, 10) if random.random() < 0.4 else None
    racks = random.choice(("none", "none", "everywhere", "one", "some", "half known"))
    return {name: _topic(random, same or random.randint(1, 12), racks) for name in names}


def _topic(random: Random, partitions: int, racks: str) -> Topic:
    if racks == "none":
        return Topic(partitions)
    if racks == "everywhere":
        return Topic(partitions, (frozenset(RACKS),) * partitions)
    most = {"one": 1, "some": 2, "half known": 1}[racks]
    least = 0 if racks == "half known" else 1
    return Topic(
        partitions,
        tuple(frozenset(random.sample(RACKS, random.randint(least, most))) for _ in range(partitions)),
    )


def _member(random: Random, name: str, wanted: Sequence[str]) -> Member:
    topics = frozenset(random.sample(wanted, random.randint(1, len(wanted))))
    rack = random.choice((*RACKS, *RACKS, "far", None))
    instance = f"i{random.randint(0, 99):02}{name}" if random.random() < 0.2 else None
    return Member(name, topics, rack=rack, instance_id=instance)


def _owning(random: Random, topics: dict[str, Topic], members: list[Member]) -> list[Member]:
    """Return the members as an earlier assignment of the group left them, with one of several histories."""
    history = random.choice(("fresh", "fair", "fair", "uneven", "stale", "stale", "doubled", "wild"))
    if history == "fresh":
        return members
    new_count = random.randint(0, len(members) - 1) if random.random() < 0.5 else 0
    old_members = members[new_count:]
    owned: dict[str, list[TopicPartition]] = {member.id: [] for member in members}
    partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions)]
    if random.random() < 0.5:  # members have left and topics have grown since
        partitions = [each for each in partitions if random.random() < 0.8]
    if random.random() < 0.2:
        partitions.append(TopicPartition("deleted", 0))
    for number, partition in enumerate(partitions):
        able = old_members if history == "wild" else [each for each in old_members if partition.topic in each.topics]
        if able:
            owner = able[0] if history == "uneven" and random.random() < 0.6 else able[number % len(able)]
            owned[owner.id].append(partition)
            if history in ("doubled", "wild") and random.random() < 0.2:
                owned[random.choice(able).id].append(partition)
    generations = {member.id: 7 for member in members}
    if history in ("stale", "wild"):
        for member in random.sample(old_members, random.randint(1, len(old_members))):
            generations[member.id] = random.choice((3, 6, -1))
            owned[member.id] = random.sample(partitions, random.randint(0, len(partitions) // 2))
    given_members = []
    for member in members:
        mine = tuple(dict.fromkeys(owned[member.id]))
        joined = member in old_members
        given_members.append(
            member._replace(owned=mine if joined else (), generation=generations[member.id] if joined else -1)
        )
    return given_members
