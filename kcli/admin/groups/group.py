"""A group and its members: one shape for classic, consumer, share and streams groups. Pure data."""

from __future__ import annotations

from typing import NamedTuple

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.structs import Node, TopicPartition

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class GroupMember(NamedTuple):
    """A member as its coordinator describes it.

    `owned` are the assigned partitions; where the broker assigns (KIP-848, KIP-932, KIP-1071), those that the member
    has taken over, and `target` those that it is to have (None in classic groups). For a streams member they are the
    partitions that its active tasks read. `claimed` are the partitions that a classic member reported as owned when it
    last joined, in generation `claimed_generation` (KIP-429, KIP-792; -1: unknown). While a classic group rebalances,
    `topics`, `claimed` and `rack` are empty, and `owned` is the previous assignment; empty for a new member.
    `epoch` is the member epoch, None in classic groups. `member_type` is "classic" or "consumer", None if unknown.
    `error`: the part of the subscription or assignment that cannot be decoded; the rest is filled in.
    """

    id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    claimed: tuple[TopicPartition, ...] = ()
    claimed_generation: int = -1
    epoch: int | None = None
    member_type: str | None = None
    error: KcliError | None = None


class Group(NamedTuple):
    """A group as its coordinator describes it.

    `assignor` is the assignor that the members of a classic group agreed on ("range"), or that of the broker; "" if
    there is none. `epoch` (of the group) and `target_epoch` (of the target assignment) are None in classic groups,
    because no API returns their generation. `state` is Kafka's name: Stable, Empty, PreparingRebalance, Assigning, ...
    """

    group: str
    type: str
    state: str
    coordinator: Node
    protocol_type: str = ""
    assignor: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    members: tuple[GroupMember, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that a member subscribes to or owns partitions of, sorted."""
        names = {topic for member in self.members for topic in member.topics}
        names.update(tp.topic for member in self.members for tp in member.owned)
        return tuple(sorted(names))


def is_absent(error: KcliError) -> bool:
    """True for the error of a group that does not exist."""
    return isinstance(error, BrokerError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND
