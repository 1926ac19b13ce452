"""Changes of consumer groups (KIP-848): records first, then the group in memory and the timers of its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kcli.broker.cluster.group_configs import effective
from kcli.broker.coordinator_log import coordinator_error
from kcli.broker.group.classic_group import ClassicGroup
from kcli.broker.group.consumer_group import ConsumerGroup, ConsumerGroupMember, MemberState
from kcli.broker.group.consumer_records import (
    Record,
    group_epoch_record,
    group_tombstones,
    member_tombstones,
    regex_record,
)
from kcli.broker.group.group_conversion import can_downgrade, downgrade
from kcli.broker.group.group_records import group_record
from kcli.broker.group.topic_hash import group_hash
from kcli.error_codes import ErrorCode
from kcli.protocol.consumer_group_records import encode_group_record
from kcli.protocol.offsets_topic import GroupMetadataKey

if TYPE_CHECKING:
    from kcli.broker.cluster.view import ClusterView
    from kcli.broker.group.consumer_group import Groups
    from kcli.broker.group.rebalancer import Rebalancer
    from kcli.protocol.consumer_group_records import KeyAndValue

_GROUP = 32  # the kind of resource in AlterConfigs
_SESSION, _REVOCATION, _JOIN, _SYNC = "session", "revocation", "join", "sync"
_RETRY_MS = 500  # after a failed append, as in Kafka's coordinator


class ConsumerChanges:
    """Writes the records of consumer groups, and runs the timers of their members.

    `groups` are all groups of the coordinator. The sessions have the same keys as those of classic members.
    """

    def __init__(self, cluster: ClusterView, rebalancer: Rebalancer, groups: Groups) -> None:
        self._cluster = cluster
        self._rebalancer = rebalancer
        self._clock = rebalancer.clock
        self._store = rebalancer.store
        self._deadlines = rebalancer.deadlines
        self._groups = groups

    def __repr__(self) -> str:
        return f"<ConsumerChanges {self._deadlines!r}>"

    def setting(self, group: ConsumerGroup, name: str) -> int:
        """Return a setting of the group, else the broker's."""
        overrides = self._cluster.image.resource_configs(_GROUP).get(group.group_id, {})
        return effective(self._cluster.settings, overrides, name)

    def remove(self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember]) -> ErrorCode:
        """Remove members that leave or are fenced, with one change of the group epoch.

        If only members of the classic protocol remain, the group becomes a classic one, and rebalances.
        """
        gone = {member.member_id for member in members}
        remaining = [member for member in group.members.values() if member.member_id not in gone]
        if can_downgrade(group, remaining, self._cluster.settings):
            return self.downgrade(group, remaining)
        records: list[Record] = []
        for member in members:
            records += member_tombstones(group.group_id, member.member_id)
        used = {member.regex for member in remaining}
        for regex in dict.fromkeys(member.regex for member in members):
            if regex is not None and regex not in used:
                records.append(regex_record(group.group_id, regex, None))
        new_hash = group_hash(group.subscribed_topics(remaining), self._cluster)
        records.append(group_epoch_record(group.group_id, group.group_epoch + 1, new_hash))
        error = self.write(group, records)
        if not error:
            for member_id in gone:
                self._cancel(group, member_id)
        return error

    # ---- records ----

    def write(self, group: ConsumerGroup, records: Sequence[Record]) -> ErrorCode:
        """Write records as one batch, then change the group as they say; with an error nothing changes."""
        if not records:
            return ErrorCode.NONE
        encoded = [_encoded(key, value) for key, value in records]
        error = self._store.store_records(group.group_id, encoded, self._clock.wall_ms())
        if error:
            group.seen_topics = None  # a change of topics that was noticed is not stored
            return error
        previous = self._groups.get(group.group_id)
        self._groups[group.group_id] = group
        for key, value in records:
            if not isinstance(key, GroupMetadataKey):
                group.apply(key, value)
        if isinstance(previous, ClassicGroup):
            self._rebalancer.abandon(previous, ErrorCode.REBALANCE_IN_PROGRESS)
            self.restore(group)
        return ErrorCode.NONE

    def downgrade(
        self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], *, rebalance: bool = True
    ) -> ErrorCode:
        """Make a classic group with these members, who all use the classic protocol, in place of a consumer group."""
        classic = downgrade(group, members, self._cluster, self._clock.wall_ms())
        error = self.replace(group, classic)
        if not error:
            for member in classic.members.values():
                self._rebalancer.start_session(classic, member)
            if rebalance:
                self._rebalancer.prepare_rebalance(classic)
        return error

    def replace(self, group: ConsumerGroup, classic: ClassicGroup) -> ErrorCode:
        """Write the record of a classic group and the tombstones of the consumer group that it replaces."""
        records = [*self.tombstones(group), group_record(group.group_id, classic.to_record())]
        error = coordinator_error(self._store.store_records(group.group_id, records, self._clock.wall_ms()))
        if not error:
            self.forget(group)
            self._groups[group.group_id] = classic
        return error

    def tombstones(self, group: ConsumerGroup) -> list[KeyAndValue]:
        """Return the tombstones of all records of a group."""
        return [encode_group_record(key, value) for key, value in group_tombstones(group)]

    # ---- timers ----

    def restore(self, group: ConsumerGroup) -> None:
        """Start the timers of a group that was loaded."""
        for member in group.members.values():
            self.start_session(group, member.member_id)
            self.watch_revocation(group, member)

    def forget(self, group: ConsumerGroup) -> None:
        """Cancel all timers of a group."""
        for member_id in group.members:
            self._cancel(group, member_id)

    def start_session(self, group: ConsumerGroup, member_id: str) -> None:
        """Restart the session of a member. That of a classic member has the timeout of its JoinGroup request."""
        classic = group.members[member_id].classic
        if classic is not None:
            timeout_ms = classic.session_timeout_ms
        else:
            timeout_ms = self.setting(group, "consumer.session.timeout.ms")
        self._fence_at((_SESSION, timeout_ms), group, member_id)

    def watch_revocation(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Fence a member that does not give up its partitions within its rebalance timeout."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._fence_at((_REVOCATION, member.rebalance_timeout_ms), group, member.member_id, member.member_epoch)
        else:
            self._deadlines.cancel((group.group_id, _REVOCATION, member.member_id))

    def await_join(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Fence a classic member that does not join again within its rebalance timeout from the first call on."""
        if (group.group_id, _JOIN, member.member_id) not in self._deadlines:
            self._fence_at((_JOIN, member.rebalance_timeout_ms), group, member.member_id)

    def joined(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Start the session of a classic member that has joined; fence it if it does not sync in time."""
        self._deadlines.cancel((group.group_id, _JOIN, member.member_id))
        self.start_session(group, member.member_id)
        self._fence_at((_SYNC, member.rebalance_timeout_ms), group, member.member_id)

    def synced(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Restart the session of a classic member that has fetched its assignment."""
        self._deadlines.cancel((group.group_id, _SYNC, member.member_id))
        self.start_session(group, member.member_id)

    def call_soon(self, group_id: str, name: str, fn: Callable[[], None]) -> None:
        """Call a function after the present request is answered; a later call of the same name replaces it."""
        self._deadlines.set((group_id, name), self._clock.now_ms(), fn)

    def _fence_at(
        self, timer: tuple[str, int], group: ConsumerGroup, member_id: str, member_epoch: int | None = None
    ) -> None:
        """Remove a member after a time, unless it has another epoch than `member_epoch` by then."""
        kind, after_ms = timer

        def due() -> None:
            member = group.members.get(member_id)
            if member is None or (member_epoch is not None and member.member_epoch != member_epoch):
                return
            if self.remove(group, [member]):
                self._fence_at((kind, _RETRY_MS), group, member_id, member_epoch)

        self._deadlines.set((group.group_id, kind, member_id), self._clock.now_ms() + after_ms, due)

    def _cancel(self, group: ConsumerGroup, member_id: str) -> None:
        for kind in (_SESSION, _REVOCATION, _JOIN, _SYNC):
            self._deadlines.cancel((group.group_id, kind, member_id))


def _encoded(key: object, value: object) -> KeyAndValue:
    """Encode a record of a consumer group, or the tombstone of a classic group that it replaces."""
    return group_record(key.group, None) if isinstance(key, GroupMetadataKey) else encode_group_record(key, value)
