"""Values of a cluster's state: a broker's registration, a partition, a topic. Immutable, and replaced as a whole."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kcli.structs import INTERNAL_TOPICS

NO_LEADER = -1
#: The size of the blocks in which producer ids are reserved (KIP-730).
PRODUCER_IDS_PER_BLOCK = 1000


class Listener(NamedTuple):
    """The address of a broker. `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class Registration(NamedTuple):
    """A registered broker. `features` are the supported ranges; `epoch` is the one that its requests must carry."""

    node_id: int
    epoch: int
    incarnation_id: UUID
    listeners: tuple[Listener, ...] = ()
    features: dict[str, tuple[int, int]] = {}
    rack: str | None = None
    is_fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None

    @property
    def is_active(self) -> bool:
        """True if the broker can lead partitions and be in an ISR that grows."""
        return not self.is_fenced and not self.in_controlled_shutdown

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)


class PartitionState(NamedTuple):
    """A partition as the controller decided it. Replicas are in the order of preference; leader -1: none.

    `elr` are the eligible leader replicas (KIP-966). `is_recovering`: elected uncleanly; the leader must confirm.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False
    directories: tuple[UUID, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


class TopicState(NamedTuple):
    """A topic and its partitions by number, from 0 on without a gap."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionState]

    @property
    def is_internal(self) -> bool:
        """True if brokers keep their own state in it."""
        return self.name in INTERNAL_TOPICS
