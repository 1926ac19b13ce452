"""When racks count in an assignment, and which member is near which partition (KIP-881). Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.assignors.model import Member, Topic, Topics
from kcli.structs import TopicPartition

NOWHERE: frozenset[str] = frozenset()
Replicas = tuple[frozenset[str], ...]


class Nearness(NamedTuple):
    """Racks of members by id, and of replicas by topic; both empty where an assignment need not heed racks."""

    members: Mapping[str, str]
    replicas: Mapping[str, Replicas]

    def allows(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a replica in its own rack; one that names no rack is at home in all of them."""
        rack = self.members.get(member)
        return rack is None or rack in self.replicas[partition.topic][partition.partition]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """The racks of a partition's replicas."""
        return self.replicas[partition.topic][partition.partition]


FAR_AND_WIDE = Nearness({}, {})


def nearness(topics: Topics, members: Sequence[Member]) -> Nearness:
    """What there is to heed among these members and topics; FAR_AND_WIDE if heeding racks could change nothing."""
    racks = racks_of_members(members)
    replicas = {name: racks_of_replicas(topic) for name, topic in topics.items()}
    if not matter(racks.values(), (each for partitions in replicas.values() for each in partitions)):
        return FAR_AND_WIDE
    return Nearness(racks, replicas)


def matter(of_members: Collection[str], of_replicas: Iterable[frozenset[str]]) -> bool:
    """Whether racks count: some are shared, and not every partition lives in all of them."""
    if not of_members:
        return False
    distinct = set(of_replicas)
    everywhere = frozenset().union(*distinct)
    return not everywhere.isdisjoint(of_members) and distinct != {everywhere}


def racks_of_members(members: Iterable[Member]) -> dict[str, str]:
    """Rack by member id, of those members that name one."""
    return {member.id: member.rack for member in members if member.rack}


def racks_of_replicas(topic: Topic) -> Replicas:
    """One set of racks for each partition, empty where they are not known."""
    return (*topic.racks[: topic.partitions], *[NOWHERE] * (topic.partitions - len(topic.racks)))
