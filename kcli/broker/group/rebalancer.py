"""Rebalances, sessions and timeouts of classic groups: everything that happens to a group between requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator_log import coordinator_error
from kcli.broker.group.classic_group import ClassicGroup, ClassicGroupMember
from kcli.broker.group.responses import join_error, join_response, sync_error, sync_response
from kcli.broker.group.states import GroupEvent, GroupState
from kcli.broker.serving.pending import Pending
from kcli.error_codes import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.group.offset_store import OffsetStore
    from kcli.broker.serving.timer import Timer, TimerTask
    from kcli.clock import Clock

# A new member whose first join is parked cannot heartbeat. If its client disconnects and joins again under another id,
# the old member must be removed at some point; Kafka gives it five minutes.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class Deadlines:
    """Deadlines by key: at most one timer task per key; setting a key again replaces its task."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._tasks: dict[Hashable, TimerTask] = {}

    def __repr__(self) -> str:
        return f"<Deadlines {len(self._tasks)} set>"

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tasks

    def set(self, key: Hashable, deadline_ms: float, fn: Callable[[], None]) -> None:
        """Call `fn` at the deadline (steady clock), and cancel an earlier deadline of this key."""
        self.cancel(key)

        def due() -> None:
            del self._tasks[key]
            fn()

        self._tasks[key] = self._timer.call_at(deadline_ms, due)

    def cancel(self, key: Hashable) -> None:
        """Cancel this key's deadline, if it has one."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()


class Rebalancer:
    """Runs the rebalances of all groups; the coordinator and `joining` report the changes of members to it."""

    def __init__(self, initial_delay_ms: int, timer: Timer, clock: Clock, store: OffsetStore) -> None:
        self.clock = clock
        self.store = store
        self.deadlines = Deadlines(timer)
        self._initial_delay_ms = initial_delay_ms

    # ---- the join phase ----

    def rebalance_or_complete_join(self, group: ClassicGroup) -> None:
        """After a member joined, left or changed: start a rebalance, or complete a join phase that waited for it."""
        if group.can(GroupEvent.REBALANCE_WANTED):
            self.prepare_rebalance(group)
        else:
            self.maybe_complete_join_phase(group)

    def prepare_rebalance(self, group: ClassicGroup) -> None:
        """Enter the join phase. Parked SyncGroup requests are answered with REBALANCE_IN_PROGRESS."""
        if group.state is GroupState.COMPLETING:
            self._fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync_ids.clear()
        self.deadlines.cancel(_sync_phase(group))
        group.move(GroupEvent.REBALANCE_WANTED, self.clock.wall_ms())
        if group.is_initial_rebalance:
            delay_ms = self._initial_delay_ms
            self._schedule_initial_delay(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.has_all_joined:
            self.complete_join_phase(group)
        else:
            self._schedule_join_phase_end(group, group.rebalance_timeout_ms)

    def maybe_complete_join_phase(self, group: ClassicGroup) -> None:
        """Complete the join phase if all members have joined. An initial rebalance always takes its full delay."""
        if group.state is GroupState.PREPARING and not group.is_initial_rebalance and group.has_all_joined:
            self.complete_join_phase(group)

    def complete_join_phase(self, group: ClassicGroup) -> None:
        """Remove dynamic members that have not joined and start the generation. Static members keep their session."""
        self.deadlines.cancel(_join_phase(group))
        for member in [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]:
            self.remove_member(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            self._schedule_join_phase_end(group, group.rebalance_timeout_ms)  # only absent static members are left
            return
        group.start_generation(self.clock.wall_ms())
        if group.state is GroupState.EMPTY:
            self.save(group)  # if this fails, the previous generation's members time out after a restart
            return
        self.deadlines.set(
            _sync_phase(group),
            self.clock.now_ms() + group.rebalance_timeout_ms,
            lambda: self._sync_phase_expired(group),
        )
        responses = []
        for member in group.members.values():
            responses.append((_take_join(member), join_response(group, member)))
            member.is_new = False
            self.start_session(group, member)
        _complete_all(responses)

    def _schedule_join_phase_end(self, group: ClassicGroup, delay_ms: int) -> None:
        self.deadlines.set(_join_phase(group), self.clock.now_ms() + delay_ms, lambda: self.complete_join_phase(group))

    def _schedule_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def due() -> None:
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                next_delay_ms = min(self._initial_delay_ms, remaining_ms)
                self._schedule_initial_delay(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            else:
                self.complete_join_phase(group)

        self.deadlines.set(_join_phase(group), self.clock.now_ms() + delay_ms, due)

    # ---- the sync phase ----

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, then answer the parked SyncGroup requests with it."""
        error = self.save(group, assignments)
        if error is not ErrorCode.NONE:
            self._fail_syncs(group, error)
            self.rebalance_or_complete_join(group)
            return
        group.move(GroupEvent.ASSIGNED, self.clock.wall_ms())
        responses = []
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.awaiting_sync is not None:
                responses.append((_take_sync(member), sync_response(group, member)))
                self.start_session(group, member)
        _complete_all(responses)

    def sync_received(self, group: ClassicGroup, member_id: str) -> None:
        """Record a member's SyncGroup; the deadline of the sync phase is cancelled after the last one."""
        group.pending_sync_ids.discard(member_id)
        if not group.pending_sync_ids:
            self.deadlines.cancel(_sync_phase(group))

    def _fail_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        responses = []
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                responses.append((_take_sync(member), sync_error(error)))
                self.start_session(group, member)
        _complete_all(responses)

    def _sync_phase_expired(self, group: ClassicGroup) -> None:
        if not group.pending_sync_ids:
            return
        for member_id in list(group.pending_sync_ids):
            self.remove_member(group, member_id)
        self.prepare_rebalance(group)

    # ---- sessions ----

    def start_session(self, group: ClassicGroup, member: ClassicGroupMember, timeout_ms: int | None = None) -> None:
        """Restart the member's session, with its session timeout unless `timeout_ms` is given."""
        session_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.start_session_of(group, member.member_id, session_ms)

    def start_session_of(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Restart the session of a member id that may not have joined yet."""
        self.deadlines.set(
            _session(group, member_id),
            self.clock.now_ms() + timeout_ms,
            lambda: self._session_expired(group, member_id),
        )

    def _session_expired(self, group: ClassicGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None and member.has_satisfied_heartbeat:
            return
        self.remove_member(group, member_id)
        if group.state is GroupState.PREPARING:
            if group.has_all_joined:
                self.complete_join_phase(group)
        elif member is not None:
            self.rebalance_or_complete_join(group)

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member. Its parked requests get UNKNOWN_MEMBER_ID, so that a client that still runs joins again."""
        self.deadlines.cancel(_session(group, member_id))
        member = group.members.get(member_id)
        group.remove(member_id)
        if member is not None:
            _complete_all([(_take_join(member), join_error(ErrorCode.UNKNOWN_MEMBER_ID))])
            _complete_all([(_take_sync(member), sync_error(ErrorCode.UNKNOWN_MEMBER_ID))])

    def replace_member(self, group: ClassicGroup, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Give a static member a new member id with a new session. Parked requests of the old id are fenced."""
        group.replace(old, new)
        self.deadlines.cancel(_session(group, old.member_id))
        self.start_session(group, new)
        _complete_all(
            [
                (_take_join(old), join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id)),
                (_take_sync(old), sync_error(ErrorCode.FENCED_INSTANCE_ID)),
            ]
        )

    # ---- creation and removal of groups ----

    def save(self, group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> ErrorCode:
        """Write the group's record, with new assignments if given; the error is the one for the member's response."""
        return coordinator_error(
            self.store.store_group(group.group_id, group.to_record(assignments), self.clock.wall_ms())
        )

    def forget(self, group: ClassicGroup) -> None:
        """Cancel all deadlines of this group."""
        self.deadlines.cancel(_join_phase(group))
        self.deadlines.cancel(_sync_phase(group))
        for member_id in [*group.members, *group.pending_join_ids]:
            self.deadlines.cancel(_session(group, member_id))

    def abandon(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Cancel all deadlines of this group, and answer its parked requests with the error."""
        self.forget(group)
        for member in group.members.values():
            joining, syncing = _take_join(member), _take_sync(member)
            _complete_all([(joining, join_error(error, member.member_id)), (syncing, sync_error(error))])


def _join_phase(group: ClassicGroup) -> tuple[str, str]:
    return group.group_id, "join"


def _sync_phase(group: ClassicGroup) -> tuple[str, str]:
    return group.group_id, "sync"


def _session(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return group.group_id, "session", member_id


def _take_join(member: ClassicGroupMember) -> Pending[Any] | None:
    taken, member.awaiting_join = member.awaiting_join, None
    return taken


def _take_sync(member: ClassicGroupMember) -> Pending[Any] | None:
    taken, member.awaiting_sync = member.awaiting_sync, None
    return taken


def _complete_all(responses: list[tuple[Pending[Any] | None, Any]]) -> None:
    """Complete parked requests after the group has changed: a response may trigger the next request at once."""
    for pending, response in responses:
        if pending is not None:
            pending.complete(response)
