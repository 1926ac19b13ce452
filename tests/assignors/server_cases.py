"""Groups of the consumer protocol (KIP-848), small and large: topics with ids, members with a previous target."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from uuid import UUID

from kcli.assignors.claims import settle
from kcli.assignors.model import Member, Topic
from kcli.structs import TopicPartition
from tests.assignors.cases import Case, make_case


def make_server_cases(count: int, seed: int) -> Iterator[Case]:
    """Yield groups, each from a seed of its own."""
    for number in range(count):
        yield make_server_case(Random(f"{seed}/server/{number}"))


def make_server_case(random: Random) -> Case:
    """Make a group as the coordinator has it: no partition twice in the target, realistic names and ids.

    A few are much larger or have many more topics, so that hash tables grow.
    """
    topics, members = make_case(random)
    if random.random() < 0.1:
        factor = random.randint(2, 20)
        topics = {name: Topic(topic.partitions * factor, ()) for name, topic in topics.items()}
        members = [each for n in range(random.randint(2, 4)) for each in _copies(members, n)]
    if random.random() < 0.1:
        topics, members = _more_topics(topics, members, random.randint(2, 7))
    held = settle(topics, members).valid
    names = {member.id: str(UUID(int=random.getrandbits(128))) for member in members}
    if random.random() < 0.3:
        names = {member.id: member.id for member in members}
    for partitions in held.values():
        if random.random() < 0.2:
            random.shuffle(partitions)
    return Case(
        {name: Topic(topic.partitions, id=UUID(int=random.getrandbits(128))) for name, topic in topics.items()},
        [member._replace(id=names[member.id], owned=tuple(held[member.id]), generation=-1) for member in members],
    )


def _more_topics(topics: dict[str, Topic], members: list[Member], times: int) -> tuple[dict[str, Topic], list[Member]]:
    """Return each topic several times, with its subscriptions and owned partitions."""
    return (
        {f"{name}.{n}": topic for name, topic in topics.items() for n in range(times)},
        [
            member._replace(
                topics=frozenset(f"{name}.{n}" for name in member.topics for n in range(times)),
                owned=tuple(TopicPartition(f"{name}.{n}", p) for name, p in member.owned for n in range(times)),
            )
            for member in members
        ],
    )


def _copies(members: list[Member], number: int) -> list[Member]:
    if number == 0:
        return members
    return [
        member._replace(id=f"{member.id}-{number}", owned=(), instance_id=None, generation=-1) for member in members
    ]
