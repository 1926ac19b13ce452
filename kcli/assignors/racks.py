"""Racks in an assignment: when they matter, and which members share a rack with which partitions (KIP-881). Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kcli.assignors.model import Member, Topic, Topics
from kcli.structs import TopicPartition

NO_RACKS: frozenset[str] = frozenset()
Replicas = tuple[frozenset[str], ...]


class RackMatch(NamedTuple):
    """Racks of members by id, and racks of replicas by topic. Both are empty where the assignment ignores racks."""

    members: Mapping[str, str]
    replicas: Mapping[str, Replicas]

    def allows(self, member: str, partition: TopicPartition) -> bool:
        """Return whether the partition has a replica in the member's rack.

        A member without a rack matches every rack.
        """
        rack = self.members.get(member)
        return rack is None or rack in self.replicas[partition.topic][partition.partition]

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """Return the racks of a partition's replicas."""
        return self.replicas[partition.topic][partition.partition]


RACKS_IGNORED = RackMatch({}, {})


def rack_match(topics: Topics, members: Sequence[Member]) -> RackMatch:
    """Return the racks of these members and topics, or `RACKS_IGNORED` if racks cannot change the assignment."""
    racks = racks_of_members(members)
    replicas = {name: racks_of_replicas(topic) for name, topic in topics.items()}
    if not racks_matter(racks.values(), (each for partitions in replicas.values() for each in partitions)):
        return RACKS_IGNORED
    return RackMatch(racks, replicas)


def racks_matter(member_racks: Collection[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Return whether racks matter: members and replicas share racks, and not every partition is in all racks."""
    if not member_racks:
        return False
    distinct = set(replica_racks)
    everywhere = frozenset().union(*distinct)
    return not everywhere.isdisjoint(member_racks) and distinct != {everywhere}


def racks_of_members(members: Iterable[Member]) -> dict[str, str]:
    """Return the rack of each member that has one, by member id."""
    return {member.id: member.rack for member in members if member.rack}


def racks_of_replicas(topic: Topic) -> Replicas:
    """Return one set of racks per partition, empty where the racks are unknown."""
    return (*topic.racks[: topic.partitions], *[NO_RACKS] * (topic.partitions - len(topic.racks)))
