"""Changes to a partition: the leader, the ISR, the eligible leader replicas (KIP-966) and the end of a reassignment.

`Election.change` computes the record of one change. The rules are those of Kafka's PartitionChangeBuilder:

- The leader is the first active replica, in the order of the replicas, that is in the ISR, or in the ELR if the ISR is
  empty. A leader that is still valid stays, unless the preferred replica is asked for.
- A replica that leaves an ISR below min.insync.replicas goes into the ELR, unless it was shut down uncleanly. The ISR
  may become empty.
- Without any of these the last leader is elected if it is active: `last_known_elr` has it alone. With an unclean
  election, any active replica. Both are unclean: the ISR becomes that one replica, which must confirm its recovery.
- A reassignment ends when all added replicas are in the ISR (KIP-455). A partition that loses a replica gets a new
  leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from kcli.broker.cluster.image import NO_LEADER, PartitionState
from kcli.protocol.metadata_records import PartitionChangeRecord

T = TypeVar("T")

ONLINE, PREFERRED, UNCLEAN = "online", "preferred", "unclean"


class Target(NamedTuple):
    """The wanted state of a partition; None means as it is."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    is_recovering: bool | None = None
    directories: dict[int, UUID] = {}


AS_IT_IS = Target()


class Election(NamedTuple):
    """The circumstances of changes to the partitions of a topic.

    `min_isr` is min.insync.replicas, at most the number of replicas. `default_directory` is that of a replica without
    one. `lost` are replicas that were shut down uncleanly.
    """

    is_acceptable: Callable[[int, PartitionState], bool]
    min_isr: int
    has_elr: bool
    default_directory: Callable[[int], UUID]
    kind: str = ONLINE
    lost: Sequence[int] = ()

    def change(
        self, topic_id: UUID, number: int, state: PartitionState, target: Target = AS_IT_IS
    ) -> PartitionChangeRecord | None:
        """Return the record that leads to the wanted state with a valid leader; None if nothing changes."""
        replicas = tuple(state.replicas if target.replicas is None else target.replicas)
        isr = tuple(state.isr if target.isr is None else target.isr)
        adding = tuple(state.adding if target.adding is None else target.adding)
        removing = tuple(state.removing if target.removing is None else target.removing)
        completed = completed_reassignment(replicas, isr, adding, removing)
        if completed is not None:
            replicas, isr = completed
            adding = removing = ()
        elr = self._eligible(state, replicas, isr)
        leader, is_unclean = self._elect(state, replicas, isr, elr)
        has_new_leader = leader != state.leader
        is_recovering = state.is_recovering if target.is_recovering is None else target.is_recovering
        if has_new_leader and is_unclean:
            isr, elr, is_recovering = (leader,), (), True
        elif has_new_leader and leader in elr:
            isr, elr = (leader,), tuple(replica for replica in elr if replica != leader)
        if not isr and not self.has_elr:
            isr = state.isr  # without ELR the last replica of an ISR stays in it
        bumps_epoch = has_new_leader or not set(state.replicas) <= set(replicas)
        record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
        if bumps_epoch:
            record.leader = leader
        record.isr = _if_changed(state.isr, isr)
        record.replicas = _if_changed(state.replicas, replicas)
        record.adding_replicas = _if_changed(state.adding, adding)
        record.removing_replicas = _if_changed(state.removing, removing)
        record.eligible_leader_replicas = _if_changed(state.elr, elr)
        record.last_known_elr = self._last_known(state, record.leader)
        record.directories = _if_changed(state.directories, self._directories(state, replicas, target.directories))
        if is_recovering != state.is_recovering:
            record.leader_recovery_state = int(is_recovering)
        return None if record == PartitionChangeRecord(partition_id=number, topic_id=topic_id) else record

    def _elect(
        self, state: PartitionState, replicas: Sequence[int], isr: Sequence[int], elr: Sequence[int]
    ) -> tuple[int, bool]:
        """Return the leader, and whether the election is unclean; NO_LEADER if there is no candidate."""
        eligible = isr or elr

        def is_valid(replica: int) -> bool:
            return replica in eligible and self.is_acceptable(replica, state)

        if self.kind == PREFERRED and is_valid(replicas[0]):
            return replicas[0], False
        if is_valid(state.leader):
            return state.leader, False
        for replica in replicas:
            if is_valid(replica):
                return replica, False
        if self.has_elr and not eligible and len(state.last_known_elr) == 1:
            last_leader = state.last_known_elr[0]
            if self.is_acceptable(last_leader, state):
                return last_leader, True
        if self.kind == UNCLEAN:
            for replica in replicas:
                if self.is_acceptable(replica, state):
                    return replica, True
        return NO_LEADER, False

    def _eligible(self, state: PartitionState, replicas: Sequence[int], isr: Sequence[int]) -> tuple[int, ...]:
        """Return the ELR beside this ISR. A removed replica is not in it: its log is deleted, even if it returns."""
        if not self.has_elr or len(isr) >= self.min_isr:
            return ()
        candidates = dict.fromkeys((*state.elr, *state.isr))
        return tuple(
            replica for replica in candidates if replica in replicas and replica not in isr and replica not in self.lost
        )

    def _last_known(self, state: PartitionState, new_leader: int) -> list[int] | None:
        """Return the change of `last_known_elr`: the last leader, from its loss to the next election."""
        if not self.has_elr:
            return None
        if new_leader == NO_LEADER != state.leader and not state.last_known_elr:
            return [state.leader]
        if new_leader >= 0 and state.last_known_elr:
            return []
        return None

    def _directories(
        self, state: PartitionState, replicas: Iterable[int], assigned: dict[int, UUID]
    ) -> tuple[UUID, ...]:
        known = {**dict(zip(state.replicas, state.directories, strict=False)), **assigned}
        return tuple(known[replica] if replica in known else self.default_directory(replica) for replica in replicas)


def completed_reassignment(
    replicas: tuple[int, ...], isr: tuple[int, ...], adding: Sequence[int], removing: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return replicas and ISR after the reassignment if it can end now; None if it cannot, or there is none."""
    if not adding and not removing:
        return None
    left_isr = tuple(replica for replica in isr if replica not in removing)
    left_replicas = tuple(replica for replica in replicas if replica not in removing)
    if removing and (not left_isr or not left_replicas):
        return None
    if not set(adding) <= set(left_isr):
        return None
    # A partition that gets fewer replicas must have all of them in sync, otherwise its ISR would shrink needlessly.
    if len(adding) < len(removing) and not set(left_replicas) <= set(left_isr):
        return None
    return left_replicas, left_isr


def _if_changed(before: tuple[T, ...], after: Sequence[T]) -> list[T] | None:
    return None if tuple(after) == before else list(after)
