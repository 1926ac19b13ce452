"""Range: each topic cut into as many runs of neighbouring partitions as it has subscribers.

The first `partitions mod subscribers` members, static ones first, get one more than the others. Topics with the same
subscribers and the same number of partitions are co-partitioned: partition p of all of them goes to the same member,
which is what makes joins possible, and the reason why they are shared out together here.

Where racks count (KIP-881), members first get what has a replica in their rack, within their share, then what is left.
Source: Kafka's RangeAssignor.
"""

from collections.abc import Callable, Sequence

from kcli.assignors.model import Assignment, Member, Topics, static_first, subscribed, subscribers
from kcli.assignors.racks import Replicas, matter, racks_of_replicas
from kcli.structs import TopicPartition


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """What Kafka's RangeAssignor answers, each member's partitions sorted."""
    members = static_first(members)
    assignment: list[list[TopicPartition]] = [[] for _ in members]
    tables = _tables(subscribed(topics, members), members)
    if any(table.heeds_racks() for table in tables):
        for table in tables:
            table.seat_neighbours()
    for table in tables:
        table.seat_all()
        for place, partitions in table.taken.items():
            assignment[place] += [TopicPartition(topic, p) for topic in table.topics for p in partitions]
    return {member.id: sorted(found) for member, found in zip(members, assignment, strict=True)}


def _tables(topics: Topics, members: Sequence[Member]) -> list["_Table"]:
    racks = [member.rack or None for member in members]
    alike: dict[tuple[int, tuple[int, ...]], list[str]] = {}
    for topic, places in subscribers(topics, members).items():
        alike.setdefault((topics[topic].partitions, tuple(places)), []).append(topic)
    return [_Table(topics, names, places, racks) for (_, places), names in alike.items()]


class _Table:
    """Co-partitioned topics (or a single one) being shared out among their subscribers, who go by their places."""

    def __init__(self, topics: Topics, names: list[str], members: tuple[int, ...], racks: list[str | None]) -> None:
        self.topics = names
        self.partitions = topics[names[0]].partitions
        self.replicas: list[Replicas] = [racks_of_replicas(topics[name]) for name in names]
        self.members = members
        self.racks = racks
        self.each, self.extras = divmod(self.partitions, len(members))
        self.free = dict.fromkeys(range(self.partitions))
        self.taken: dict[int, list[int]] = {}

    def __repr__(self) -> str:
        return f"<_Table {','.join(self.topics)} free={len(self.free)}/{self.partitions} members={len(self.members)}>"

    def heeds_racks(self) -> bool:
        """Whether one of these topics gives its subscribers a reason to look at racks."""
        racks = {rack for rack in map(self.racks.__getitem__, self.members) if rack}
        return any(matter(racks, replicas) for replicas in self.replicas)

    def room(self, member: int) -> int:
        """How many more partitions the member may get."""
        return max(0, self.each + (self.extras > 0) - len(self.taken.get(member, ())))

    def take(self, member: int, partitions: Sequence[int]) -> None:
        """Give partitions, at most as many as there is room for."""
        for partition in partitions:
            del self.free[partition]
        taken = self.taken.setdefault(member, [])
        taken += partitions
        if len(taken) > self.each:
            self.extras -= 1

    def seat_neighbours(self) -> None:
        """Give what lives in its member's rack: a single topic by member, co-partitioned ones by partition."""
        if len(self.topics) > 1:
            self._seat_together()
        elif self.heeds_racks():
            self._seat(lambda member, partition: self._near(member, self.replicas[0][partition]))

    def seat_all(self) -> None:
        """Give what is left, in runs."""
        self._seat(None)

    def _seat(self, may: Callable[[int, int], bool] | None) -> None:
        for member in self.members:
            if not self.free:
                return
            room = self.room(member)
            fitting: list[int] = []
            for partition in self.free:
                if len(fitting) == room:
                    break
                if may is None or may(member, partition):
                    fitting.append(partition)
            if fitting:
                self.take(member, fitting)

    def _seat_together(self) -> None:
        """Partition p of all the topics to the first member that has room and a replica of each in its rack."""
        if not any(map(self.racks.__getitem__, self.members)):
            return
        waiting = [member for member in self.members if self.room(member)]
        for partition in range(self.partitions):
            shared = frozenset.intersection(*(replicas[partition] for replicas in self.replicas))
            member = next((each for each in waiting if self.room(each) and self._near(each, shared)), None)
            if member is not None:
                self.take(member, [partition])
                if not self.room(member):
                    waiting.remove(member)

    def _near(self, member: int, replicas: frozenset[str]) -> bool:
        rack = self.racks[member]
        return rack is None or rack in replicas
