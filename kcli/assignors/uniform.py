"""Uniform (KIP-848), the server's default: as even as can be, then as few moves as possible. It knows no racks.

Source: org.apache.kafka.coordinator.group.assignor.UniformAssignor.
"""

from collections.abc import Sequence

from kcli.assignors import uniform_equal, uniform_unequal
from kcli.assignors.claims import settle
from kcli.assignors.model import Assignment, Member, Topics, subscribed


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """The target assignment that the group coordinator makes, each member's partitions sorted.

    `owned` is the target assignment of before. Kafka's answer hangs on the order of hash tables, and so does this one:
    it is the same if topics have their ids, and members and what they own are in the order in which
    ConsumerGroupDescribe tells them, those that join last. Without ids, topics go by name.

    Two differences on purpose: a partition that two members claim belongs to nobody (there is no such thing on the
    server), and what does not exist is owned by nobody.
    """
    existing = subscribed(topics, members)
    claims = settle(existing, members)
    alike = uniform_equal if all(member.topics == members[0].topics for member in members) else uniform_unequal
    found = alike.assign(existing, members, claims) if existing else {}
    return {member.id: sorted(found.get(member.id, ())) for member in members}
