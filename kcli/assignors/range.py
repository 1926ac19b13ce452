"""Range assignors: cut each topic into runs of consecutive partitions, one run per subscriber.

`assign` is the classic assignor of clients (Kafka's RangeAssignor). The first `partitions mod subscribers` members,
static ones first, get one partition more than the others. Topics with the same subscribers and the same number of
partitions are co-partitioned: partition p of all of them goes to the same member, so that a consumer can join them.
Therefore such topics are assigned together here. Where racks matter (KIP-881), members first get partitions that have a
replica in their rack, within their share, then the remaining ones.

`assign_on_server` is the assignor of the group coordinator (KIP-848). It uses neither racks nor the previous
assignment. Partitions tend to stay with their member because static members come first, in the order of their instance
ids. Topics with the same number of partitions and the same subscribers come out co-partitioned. Source:
org.apache.kafka.coordinator.group.assignor.RangeAssignor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcli.assignors.model import Assignment, Member, Topics, static_first, subscribed, subscribers
from kcli.assignors.racks import Replicas, racks_matter, racks_of_replicas
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the assignment of Kafka's classic RangeAssignor; each member's partitions are sorted."""
    members = static_first(members)
    assignment: list[list[TopicPartition]] = [[] for _ in members]
    divisions = _divisions(subscribed(topics, members), members)
    if any(division.considers_racks() for division in divisions):
        for division in divisions:
            division.assign_within_racks()
    for division in divisions:
        division.assign_remaining()
        for index, partitions in division.assigned.items():
            assignment[index] += [TopicPartition(topic, p) for topic in division.topics for p in partitions]
    return {member.id: sorted(found) for member, found in zip(members, assignment, strict=True)}


def _divisions(topics: Topics, members: Sequence[Member]) -> list[_Division]:
    racks = [member.rack or None for member in members]
    by_shape: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for topic, indexes in subscribers(topics, members).items():
        by_shape.setdefault((topics[topic].partitions, tuple(indexes)), []).append(topic)
    return [_Division(topics, names, indexes, racks) for (_, indexes), names in by_shape.items()]


class _Division:
    """The division of co-partitioned topics (or of a single topic) among their subscribers.

    Members are numbers: indexes into the sorted list of members.
    """

    def __init__(self, topics: Topics, names: list[str], members: tuple[int, ...], racks: list[str | None]) -> None:
        self.topics = names
        self.partitions = topics[names[0]].partitions
        self.replicas: list[Replicas] = [racks_of_replicas(topics[name]) for name in names]
        self.members = members
        self.racks = racks
        self.quota, self.extras = divmod(self.partitions, len(members))
        self.free = dict.fromkeys(range(self.partitions))
        self.assigned: dict[int, list[int]] = {}

    def __repr__(self) -> str:
        return (
            f"<_Division {','.join(self.topics)} free={len(self.free)}/{self.partitions} members={len(self.members)}>"
        )

    def considers_racks(self) -> bool:
        """Return whether racks matter for at least one of these topics."""
        racks = {rack for rack in map(self.racks.__getitem__, self.members) if rack}
        return any(racks_matter(racks, replicas) for replicas in self.replicas)

    def free_slots(self, member: int) -> int:
        """Return the number of further partitions that the member may get."""
        return max(0, self.quota + (self.extras > 0) - len(self.assigned.get(member, ())))

    def take(self, member: int, partitions: Sequence[int]) -> None:
        """Assign partitions to a member, at most as many as it has room for."""
        for partition in partitions:
            del self.free[partition]
        assigned = self.assigned.setdefault(member, [])
        assigned += partitions
        if len(assigned) > self.quota:
            self.extras -= 1

    def assign_within_racks(self) -> None:
        """Assign partitions with a replica in the member's rack.

        A single topic is assigned member by member, co-partitioned topics partition by partition.
        """
        if len(self.topics) > 1:
            self._assign_co_partitioned()
        elif self.considers_racks():
            self._assign_runs(lambda member, partition: self._is_near(member, self.replicas[0][partition]))

    def assign_remaining(self) -> None:
        """Assign the remaining partitions, in runs."""
        self._assign_runs(None)

    def _assign_runs(self, is_allowed: Callable[[int, int], bool] | None) -> None:
        for member in self.members:
            if not self.free:
                return
            free_slots = self.free_slots(member)
            chosen: list[int] = []
            for partition in self.free:
                if len(chosen) == free_slots:
                    break
                if is_allowed is None or is_allowed(member, partition):
                    chosen.append(partition)
            if chosen:
                self.take(member, chosen)

    def _assign_co_partitioned(self) -> None:
        """Assign partition p of all topics to the first member that has room and shares a rack with each of them."""
        if not any(map(self.racks.__getitem__, self.members)):
            return
        waiting = [member for member in self.members if self.free_slots(member)]
        for partition in range(self.partitions):
            shared = frozenset.intersection(*(replicas[partition] for replicas in self.replicas))
            member = next((each for each in waiting if self.free_slots(each) and self._is_near(each, shared)), None)
            if member is not None:
                self.take(member, [partition])
                if not self.free_slots(member):
                    waiting.remove(member)

    def _is_near(self, member: int, replicas: frozenset[str]) -> bool:
        rack = self.racks[member]
        return rack is None or rack in replicas


def assign_on_server(topics: Topics, members: Sequence[Member]) -> Assignment:
    """Return the assignment of the coordinator's RangeAssignor; each member's partitions are sorted."""
    members = static_first(members)
    assignment: Assignment = {member.id: [] for member in members}
    topics = subscribed(topics, members)
    for topic, indexes in subscribers(topics, members).items():
        count = topics[topic].partitions
        quota, extras = divmod(count, len(indexes))
        end = 0
        for number, index in enumerate(indexes[:count]):
            start, end = end, end + quota + (number < extras)
            assignment[members[index].id] += [TopicPartition(topic, p) for p in range(start, end)]
    return {member: sorted(partitions) for member, partitions in assignment.items()}
