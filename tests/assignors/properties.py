"""Properties that every assignment must have; each fault is a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.assignors.claims import settle
from kcli.assignors.lookup import STRATEGIES
from kcli.assignors.model import Assignment, subscribed
from kcli.structs import TopicPartition
from tests.assignors.cases import Case

OPTIMAL_MOVES = ("sticky", "cooperative-sticky")


def faults(case: Case, name: str, assignment: Assignment) -> Iterator[str]:
    """Yield the faults of a strategy's result."""
    yield from invalid(case, assignment, complete=name != "cooperative-sticky")
    if name == "roundrobin" and _equal_subscriptions(case):
        yield from _unbalanced(assignment)
    if name in ("range", "server-range"):
        yield from _unbalanced_in_a_topic(case, assignment)
    if name == "server-range":
        yield from _not_in_runs(assignment)
    if name in ("sticky", "uniform"):
        yield from _unbalanced(assignment) if _equal_subscriptions(case) else improvable(case, assignment)
        yield from _moved_needlessly(case, assignment) if _equal_subscriptions(case) else ()
    if name == "cooperative-sticky":
        yield from _taken_from_an_owner(case, assignment)


def invalid(case: Case, assignment: Assignment, complete: bool = True) -> Iterator[str]:
    """Yield missing members, partitions assigned twice or not at all, and partitions of members without the
    subscription.
    """
    if assignment.keys() != {member.id for member in case.members}:
        yield f"members are {sorted(assignment)}"
    given = [partition for partitions in assignment.values() for partition in partitions]
    if len(given) != len(set(given)):
        yield "a partition is assigned twice"
    if unexpected := set(given) - assignable(case):
        yield f"{unexpected} do not exist or have no subscriber"
    if complete and (left := assignable(case) - set(given)):
        yield f"{left} are unassigned"
    for member in case.members:
        if not_subscribed := {each.topic for each in assignment[member.id]} - member.topics:
            yield f"{member.id} is not subscribed to {not_subscribed}"


def assignable(case: Case) -> set[TopicPartition]:
    """Return all partitions with a subscriber."""
    topics = subscribed(case.topics, case.members)
    return {TopicPartition(name, p) for name, topic in topics.items() for p in range(topic.partitions)}


def improvable(case: Case, assignment: Assignment) -> Iterator[str]:
    """Yield owners with at least two partitions more than another subscriber of one of their topics."""
    for member in case.members:
        for owner, partitions in assignment.items():
            if len(partitions) >= len(assignment[member.id]) + 2 and any(
                each.topic in member.topics for each in partitions
            ):
                yield f"{owner} has {len(partitions)}, and the subscriber {member.id} has {len(assignment[member.id])}"


def _equal_subscriptions(case: Case) -> bool:
    return all(member.topics == case.members[0].topics for member in case.members)


def _unbalanced(assignment: Assignment) -> Iterator[str]:
    sizes = [len(partitions) for partitions in assignment.values()]
    if max(sizes) - min(sizes) > 1:
        yield f"sizes are {sizes}"


def _unbalanced_in_a_topic(case: Case, assignment: Assignment) -> Iterator[str]:
    for topic in case.topics:
        sizes = [sum(each.topic == topic for each in assignment[m.id]) for m in case.members if topic in m.topics]
        if sizes and max(sizes) - min(sizes) > 1:
            yield f"sizes in {topic} are {sizes}"


def _not_in_runs(assignment: Assignment) -> Iterator[str]:
    for member, partitions in assignment.items():
        for topic in {each.topic for each in partitions}:
            numbers = [each.partition for each in partitions if each.topic == topic]
            if max(numbers) - min(numbers) >= len(numbers):
                yield f"{member} has {numbers} of {topic}"


def _moved_needlessly(case: Case, assignment: Assignment) -> Iterator[str]:
    """Without racks, no member loses a valid claim and gets a new partition."""
    if any(member.rack for member in case.members) and any(topic.racks for topic in case.topics.values()):
        return
    held = settle(subscribed(case.topics, case.members), case.members).valid
    for member, partitions in assignment.items():
        if (lost := set(held[member]) - set(partitions)) and (new := set(partitions) - set(held[member])):
            yield f"{member} lost {lost} and got {new}"


def _taken_from_an_owner(case: Case, assignment: Assignment) -> Iterator[str]:
    """A partition goes to another member only after its owner has revoked it, and only as sticky would assign it."""
    owners = settle(subscribed(case.topics, case.members), case.members).owners()
    for member, partitions in assignment.items():
        for each in partitions:
            if owners.get(each, member) != member:
                yield f"{each} is assigned to {member}, but {owners[each]} still reads it"
    final = STRATEGIES["sticky"].assign(case.topics, case.members)
    for member, partitions in assignment.items():
        if unexpected := set(partitions) - set(final[member]):
            yield f"{member} gets {unexpected} only until the next rebalance"
