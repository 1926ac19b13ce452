"""What is known of a group and its members: one shape for classic, consumer, share and streams groups. Pure data."""

from __future__ import annotations

from typing import NamedTuple

from kcli.errors import KcliError
from kcli.structs import Node, TopicPartition

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class GroupMember(NamedTuple):
    """A member as its coordinator describes it.

    `owned`: what it has been assigned and, where the broker assigns (KIP-848, KIP-932, KIP-1071), has taken; `target`
    what it is meant to get there, None in classic groups. Of streams members: the partitions that their active tasks
    read. `claimed`: what a classic member said it owned when it last joined, under `claimed_generation` (KIP-429,
    KIP-792; -1: not told). While a classic group rebalances it tells no `topics`, `claimed` and `rack`, and `owned` is
    what a member had before: nothing of one that is new.
    `epoch` is the member's, None in classic groups. `member_type`: "classic" or "consumer", None where not told.
    `error`: what could not be read in the member's subscription or assignment, of which the rest is shown.
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

    `assignor` is what the members of a classic group agreed on ("range"), or the broker's assignor; "" while there is
    none. `epoch` and `target_epoch` (of the group, and of the assignment it aims at) are None in classic groups, whose
    generation no API tells. `state` is Kafka's word: Stable, Empty, PreparingRebalance, Assigning, Reconciling, ...
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
        """Every topic that a member subscribes to or owns partitions of, sorted."""
        found = {topic for member in self.members for topic in member.topics}
        found.update(tp.topic for member in self.members for tp in member.owned)
        return tuple(sorted(found))
