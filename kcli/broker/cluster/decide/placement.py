"""The placement of new replicas: spread over racks, then over brokers, as by Kafka's StripedReplicaPlacer.

Each partition takes its first replica from the next rack, and each further replica from the rack after that, so that
leaders and replicas are spread evenly. The first replica is on an unfenced broker; in each rack unfenced brokers come
before fenced ones. Each list begins at a random place, and moves on by one for each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from random import Random

from kcli.broker.cluster.image import Registration
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError


class _Rack:
    """The brokers of a rack in two lists, each with the place at which the next partition begins."""

    def __init__(self, brokers: Iterable[Registration], random: Random) -> None:
        ordered = sorted(brokers, key=lambda broker: broker.node_id)
        self.unfenced = [broker.node_id for broker in ordered if not broker.is_fenced]
        self.fenced = [broker.node_id for broker in ordered if broker.is_fenced]
        self._random = random
        self._offsets = [random.randrange(len(brokers)) if brokers else 0 for brokers in (self.unfenced, self.fenced)]

    def order(self, turn: int) -> Iterator[int]:
        """Iterate over the brokers in the order of this partition."""
        for brokers, offset in zip((self.unfenced, self.fenced), self._offsets, strict=True):
            if brokers:
                start = (offset + turn) % len(brokers)
                yield from islice(cycle(brokers), start, start + len(brokers))

    def shuffle(self) -> None:
        self._random.shuffle(self.unfenced)
        self._random.shuffle(self.fenced)


def place(brokers: Iterable[Registration], partitions: int, replicas: int, random: Random) -> list[tuple[int, ...]]:
    """Return the replicas of new partitions. BrokerError INVALID_REPLICATION_FACTOR if there are too few brokers."""
    usable = [broker for broker in brokers if not broker.in_controlled_shutdown and has_free_directory(broker)]
    unfenced = sum(not broker.is_fenced for broker in usable)
    if replicas > len(usable):
        count = len(usable)
        raise _unplaceable(replicas, f"there {'is' if count == 1 else 'are'} only {count} broker{'s'[count == 1 :]}")
    if not unfenced:
        raise _unplaceable(replicas, "all brokers are fenced")
    names = sorted({broker.rack for broker in usable}, key=lambda rack: (rack is not None, rack or ""))
    racks = [_Rack((broker for broker in usable if broker.rack == name), random) for name in names]
    first = random.randrange(len(racks))
    placed: list[tuple[int, ...]] = []
    turn = 0
    for _ in range(partitions):
        if turn == unfenced > 1:  # all combinations are used up: others for the next ones
            random.shuffle(racks)
            for rack in racks:
                rack.shuffle()
            turn = 0
        placed.append(_one(racks, first, turn, replicas))
        first = (first + 1) % len(racks)
        turn += 1
    return placed


def _one(racks: list[_Rack], first: int, turn: int, replicas: int) -> tuple[int, ...]:
    """Return the replicas of one partition."""
    orders = [rack.order(turn) for rack in racks]
    ring = [*range(first, len(racks)), *range(first)]
    leading = next(index for index in ring if racks[index].unfenced)
    chosen = [next(orders[leading])]
    is_first_round = True
    while len(chosen) < replicas:
        for index in ring:
            if index == leading and is_first_round:
                is_first_round = False  # this rack has the first replica already
                continue
            broker = next(orders[index], None)
            if broker is not None and len(chosen) < replicas:
                chosen.append(broker)
    return tuple(chosen)


def has_free_directory(broker: Registration) -> bool:
    """Return whether the broker has a log directory that takes new partitions (KIP-1066)."""
    return not broker.cordoned_log_dirs or not set(broker.log_dirs) <= set(broker.cordoned_log_dirs)


def _unplaceable(replicas: int, reason: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is {replicas}, but {reason}")
