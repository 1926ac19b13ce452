"""Properties that every assignment must have; each fault is a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.assignors.claims import settle
from kcli.assignors.lookup import STRATEGIES
from kcli.assignors.model import Assignment, subscribed
from kcli.structs import TopicPartition
from tests.assignors.cases import Case

OPTIMAL_MOVES = ("sticky", "cooperative-sticky")


def faults(case: Case, name: str, found: Assignment) -> Iterator[str]:
    """What is wrong with the outcome of a strategy."""
    yield from invalid(case, found, everything=name != "cooperative-sticky")
    if name == "roundrobin" and _alike(case):
        yield from _uneven(found)
    if name in ("range", "server-range"):
        yield from _uneven_in_a_topic(case, found)
    if name == "server-range":
        yield from _scattered(found)
    if name in ("sticky", "uniform"):
        yield from _uneven(found) if _alike(case) else improvable(case, found)
        yield from _needlessly_moved(case, found) if _alike(case) else ()
    if name == "cooperative-sticky":
        yield from _taken_from_living_hands(case, found)


def invalid(case: Case, found: Assignment, everything: bool = True) -> Iterator[str]:
    """Members left out, partitions twice or nowhere, or with members that did not ask for them."""
    if found.keys() != {member.id for member in case.members}:
        yield f"members are {sorted(found)}"
    given = [partition for partitions in found.values() for partition in partitions]
    if len(given) != len(set(given)):
        yield "a partition is given twice"
    if strange := set(given) - there(case):
        yield f"{strange} do not exist or are wanted by nobody"
    if everything and (left := there(case) - set(given)):
        yield f"{left} are given to nobody"
    for member in case.members:
        if unwanted := {each.topic for each in found[member.id]} - member.topics:
            yield f"{member.id} did not ask for {unwanted}"


def there(case: Case) -> set[TopicPartition]:
    """All partitions that somebody wants."""
    topics = subscribed(case.topics, case.members)
    return {TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions)}


def improvable(case: Case, found: Assignment) -> Iterator[str]:
    """A partition whose owner has at least two more than somebody else who wants it."""
    for member in case.members:
        for owner, partitions in found.items():
            if len(partitions) >= len(found[member.id]) + 2 and any(each.topic in member.topics for each in partitions):
                yield f"{owner} has {len(partitions)}, and {member.id} has {len(found[member.id])} and wants some"


def _alike(case: Case) -> bool:
    return all(member.topics == case.members[0].topics for member in case.members)


def _uneven(found: Assignment) -> Iterator[str]:
    sizes = [len(partitions) for partitions in found.values()]
    if max(sizes) - min(sizes) > 1:
        yield f"sizes are {sizes}"


def _uneven_in_a_topic(case: Case, found: Assignment) -> Iterator[str]:
    for topic in case.topics:
        sizes = [sum(each.topic == topic for each in found[m.id]) for m in case.members if topic in m.topics]
        if sizes and max(sizes) - min(sizes) > 1:
            yield f"sizes in {topic} are {sizes}"


def _scattered(found: Assignment) -> Iterator[str]:
    for member, partitions in found.items():
        for topic in {each.topic for each in partitions}:
            numbers = [each.partition for each in partitions if each.topic == topic]
            if max(numbers) - min(numbers) >= len(numbers):
                yield f"{member} has {numbers} of {topic}"


def _needlessly_moved(case: Case, found: Assignment) -> Iterator[str]:
    """Without racks nobody gains while losing: who gets something new has lost nothing that was his by right."""
    if any(member.rack for member in case.members) and any(topic.racks for topic in case.topics.values()):
        return
    held = settle(subscribed(case.topics, case.members), case.members).held
    for member, partitions in found.items():
        if (lost := set(held[member]) - set(partitions)) and (new := set(partitions) - set(held[member])):
            yield f"{member} lost {lost} and got {new}"


def _taken_from_living_hands(case: Case, found: Assignment) -> Iterator[str]:
    """What a member holds is given to another only once it has let go; what is given is what sticky would give."""
    owners = settle(subscribed(case.topics, case.members), case.members).owners()
    for member, partitions in found.items():
        for each in partitions:
            if owners.get(each, member) != member:
                yield f"{each} is given to {member}, and {owners[each]} is reading it"
    final = STRATEGIES["sticky"].assign(case.topics, case.members)
    for member, partitions in found.items():
        if strange := set(partitions) - set(final[member]):
            yield f"{member} gets {strange} for a while only"
