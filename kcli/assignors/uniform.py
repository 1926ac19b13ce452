"""Uniform (KIP-848), the server's default: as even as can be, then as few moves as possible; no racks.

Members that want the same topics differ by at most one partition.
Source: org.apache.kafka.coordinator.group.assignor.UniformAssignor.
"""

from collections.abc import Sequence

from kcli.assignors.claims import settle
from kcli.assignors.model import Assignment, Member, Topics, subscribed
from kcli.assignors.sticky import assign_settled


def assign(topics: Topics, members: Sequence[Member]) -> Assignment:
    """The target assignment that the group coordinator makes of the target before it, which is `owned`."""
    topics = {name: topic._replace(racks=()) for name, topic in subscribed(topics, members).items()}
    return assign_settled(topics, members, settle(topics, members))
