"""Rules of the in-sync replicas (ISR) of a partition, as its leader applies them (KIP-497, KIP-841, KIP-903).

Pure: no I/O, no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.cluster.cluster_values import Registration

UNKNOWN = -1


class Follower:
    """A follower as the leader knows it from its fetches.

    Offsets are -1 until the first fetch in this leader epoch, and so is `broker_epoch` if the follower sends none.
    `caught_up_ms` is the latest time at which it had all records that the leader had at the time of its fetch before.
    """

    __slots__ = ("broker_epoch", "caught_up_ms", "fetched_ms", "leader_end_at_fetch", "log_end", "log_start", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log_end = self.log_start = self.broker_epoch = self.leader_end_at_fetch = UNKNOWN
        self.caught_up_ms = self.fetched_ms = -math.inf

    def __repr__(self) -> str:
        return f"<Follower {self.node_id} {self.log_start}..{self.log_end} broker epoch {self.broker_epoch}>"

    def fetched(self, offset: int, log_start: int, broker_epoch: int, *, leader_end: int, now_ms: float) -> None:
        """Record a fetch from `offset`: the follower has all records below it."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end, self.log_start, self.broker_epoch = offset, log_start, broker_epoch
        self.leader_end_at_fetch, self.fetched_ms = leader_end, now_ms

    def reset(self, *, is_in_sync: bool, keep_position: bool, leader_end: int, now_ms: float) -> None:
        """Start a leader epoch. `keep_position`: the same leader goes on, so the follower's position is still valid."""
        self.caught_up_ms = now_ms if is_in_sync else -math.inf
        if keep_position:
            self.leader_end_at_fetch, self.fetched_ms = leader_end, self.caught_up_ms
        else:
            self.log_end = self.log_start = self.broker_epoch = self.leader_end_at_fetch = UNKNOWN
            self.fetched_ms = -math.inf

    def is_caught_up(self, leader_end: int, now_ms: float, max_lag_ms: float) -> bool:
        """Return True if the follower has everything, or had it within the last `max_lag_ms`."""
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


def is_eligible(follower: Follower, broker: Registration | None) -> bool:
    """Return True if the controller would accept this follower in the ISR.

    Its broker must be registered, unfenced and not shutting down. The epoch in its fetches must be the registered one,
    because an older one means that it may have lost records by a restart since; -1 is accepted (KIP-903).
    """
    if broker is None or not broker.is_active:
        return False
    return follower.broker_epoch in (UNKNOWN, broker.epoch)


def high_watermark(
    leader_end: int,
    followers: Iterable[Follower],
    maximal_isr: Collection[int],
    *,
    is_eligible: Callable[[Follower], bool],
    now_ms: float,
    max_lag_ms: float,
) -> int:
    """Return the offset below which all replicas that count have all records; -1 while one of them is unknown.

    These are the maximal ISR (the known one and a proposed one that the controller may have accepted already), and the
    eligible followers that are caught up, because they join soon and must not be outrun for ever.
    """
    smallest = leader_end
    for follower in followers:
        if follower.log_end < smallest and (
            follower.node_id in maximal_isr
            or (follower.is_caught_up(leader_end, now_ms, max_lag_ms) and is_eligible(follower))
        ):
            smallest = follower.log_end
    return smallest


def effective_min_isr(min_insync_replicas: int, replicas: int) -> int:
    """Return the ISR size that acks=all requires: a partition with fewer replicas requires all of them."""
    return min(min_insync_replicas, replicas)


def replicas_to_remove(
    isr: Iterable[int],
    leader: int,
    followers: dict[int, Follower],
    *,
    leader_end: int,
    now_ms: float,
    max_lag_ms: float,
) -> tuple[int, ...]:
    """Return the members of the ISR that have not been caught up for longer than `max_lag_ms`."""
    lagging = []
    for node_id in isr:
        follower = followers.get(node_id)
        if node_id != leader and (follower is None or not follower.is_caught_up(leader_end, now_ms, max_lag_ms)):
            lagging.append(node_id)
    return tuple(lagging)


def may_join(follower: Follower, isr: Collection[int], *, high_watermark: int, epoch_start: int) -> bool:
    """Return True if a follower has all committed records, and all that precede the records of this leader epoch."""
    return follower.node_id not in isr and follower.log_end >= max(high_watermark, epoch_start)


def low_watermark(leader_start: int, followers: Iterable[Follower], is_alive: Callable[[int], bool]) -> int:
    """Return the smallest log start offset of the leader and its live followers, for DeleteRecords (KIP-107)."""
    return min([leader_start, *(follower.log_start for follower in followers if is_alive(follower.node_id))])


def preferred_replica(
    offset: int,
    rack: str,
    own_rack: str | None,
    followers: Iterable[Follower],
    isr: Collection[int],
    rack_of: Callable[[int], str | None],
) -> int | None:
    """Return the follower that a consumer in `rack` should read from, None if that is the leader (KIP-392).

    Followers qualify if they are in the ISR, in the consumer's rack, and have the offset; of several the one with most
    records. The leader is preferred if it is in that rack itself, as by Kafka's RackAwareReplicaSelector.
    """
    if own_rack == rack:
        return None
    near = [
        follower
        for follower in followers
        if follower.node_id in isr
        and follower.log_start <= offset <= follower.log_end
        and rack_of(follower.node_id) == rack
    ]
    best = max(near, key=lambda follower: (follower.log_end, follower.caught_up_ms, follower.node_id), default=None)
    return None if best is None else best.node_id
