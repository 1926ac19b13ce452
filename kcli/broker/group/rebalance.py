"""What happens to a group between requests: rounds begin and end, sessions and phases time out, members are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kcli.broker.group.answers import append_error, join_refused, joined, sync_refused, synced
from kcli.broker.group.deadlines import Deadlines
from kcli.broker.group.group import Group
from kcli.broker.group.members import Member
from kcli.broker.group.states import GroupEvent, GroupState
from kcli.broker.group.stored import to_record
from kcli.broker.pending import Pending
from kcli.error_codes import ErrorCode
from kcli.protocol.offsets_topic import GroupMetadataValue

if TYPE_CHECKING:
    from kcli.broker.timer import Timer
    from kcli.clock import Clock

# A new member whose first join is parked cannot heartbeat. If its client went away and comes again under another id,
# the old one must go at some time; Kafka gives it five minutes.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class GroupStore(Protocol):
    """Where groups outlive the broker: the offset store, in tests a list."""

    def store_group(self, group_id: str, value: GroupMetadataValue, now_wall_ms: int) -> ErrorCode:
        """Write the group's record; anything but NONE means that nothing was written."""

    def delete_group(self, group_id: str, now_wall_ms: int) -> ErrorCode:
        """Write away the group and all its offsets."""


class Rebalancer:
    """Drives the rounds of all groups. It is told of members by `joining`, `syncing` and `leaving`."""

    def __init__(self, initial_delay_ms: int, timer: Timer, clock: Clock, store: GroupStore) -> None:
        self.clock = clock
        self.store = store
        self.deadlines = Deadlines(timer)
        self._initial_delay_ms = initial_delay_ms

    # ---- the join phase ----

    def member_changed(self, group: Group) -> None:
        """Somebody came, left or changed: begin a round, or see whether this was the last one the round waited for."""
        if group.can(GroupEvent.REBALANCE_WANTED):
            self.begin_round(group)
        else:
            self.end_join_phase_if_complete(group)

    def begin_round(self, group: Group) -> None:
        """Into the join phase. Who waits for an assignment is sent back to join."""
        if group.state is GroupState.COMPLETING:
            self._refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.deadlines.cancel(_sync_phase(group))
        group.move(GroupEvent.REBALANCE_WANTED, self.clock.wall_ms())
        if group.is_first_round:
            delay_ms = self._initial_delay_ms
            self._first_round_ends_in(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.has_all_joined:
            self.end_join_phase(group)
        else:
            self._join_phase_ends_in(group, group.rebalance_timeout_ms)

    def end_join_phase_if_complete(self, group: Group) -> None:
        """A first round takes its time even when everybody that is known has joined."""
        if group.state is GroupState.PREPARING and not group.is_first_round and group.has_all_joined:
            self.end_join_phase(group)

    def end_join_phase(self, group: Group) -> None:
        """Drop who has not joined, static members apart (their session decides), and start the generation."""
        self.deadlines.cancel(_join_phase(group))
        for member in [m for m in group.members.values() if m.join is None and not m.is_static]:
            self.drop(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            self._join_phase_ends_in(group, group.rebalance_timeout_ms)  # only absent static members: wait for them
            return
        group.start_generation(self.clock.wall_ms())
        if group.state is GroupState.EMPTY:
            self.save(group)  # should this fail, the members of the generation before time out after a restart
            return
        self.deadlines.set(
            _sync_phase(group),
            self.clock.now_ms() + group.rebalance_timeout_ms,
            lambda: self._sync_phase_expired(group),
        )
        answers = []
        for member in group.members.values():
            answers.append((_take_join(member), joined(group, member)))
            member.is_new = False
            self.start_session(group, member)
        _tell(answers)

    def _join_phase_ends_in(self, group: Group, delay_ms: int) -> None:
        self.deadlines.set(_join_phase(group), self.clock.now_ms() + delay_ms, lambda: self.end_join_phase(group))

    def _first_round_ends_in(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        def due() -> None:
            if group.somebody_came and remaining_ms:
                group.somebody_came = False
                next_delay_ms = min(self._initial_delay_ms, remaining_ms)
                self._first_round_ends_in(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            else:
                self.end_join_phase(group)

        self.deadlines.set(_join_phase(group), self.clock.now_ms() + delay_ms, due)

    # ---- the sync phase ----

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The leader has spoken: store it, then hand out the parts."""
        error = append_error(self.save(group, assignments))
        if error is not ErrorCode.NONE:
            self._refuse_syncs(group, error)
            self.member_changed(group)
            return
        group.move(GroupEvent.ASSIGNED, self.clock.wall_ms())
        answers = []
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.sync is not None:
                answers.append((_take_sync(member), synced(group, member)))
                self.start_session(group, member)
        _tell(answers)

    def synced(self, group: Group, member_id: str) -> None:
        """A member has asked for its assignment: when all have, nobody is waited for."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.deadlines.cancel(_sync_phase(group))

    def _refuse_syncs(self, group: Group, error: ErrorCode) -> None:
        answers = []
        for member in group.members.values():
            member.assignment = b""
            if member.sync is not None:
                answers.append((_take_sync(member), sync_refused(error)))
                self.start_session(group, member)
        _tell(answers)

    def _sync_phase_expired(self, group: Group) -> None:
        if not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            self.drop(group, member_id)
        self.begin_round(group)

    # ---- sessions ----

    def start_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Give the member its session time-out from now on."""
        session_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.start_session_of(group, member.member_id, session_ms)

    def start_session_of(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """The same for an id that was handed out."""
        self.deadlines.set(
            _session(group, member_id),
            self.clock.now_ms() + timeout_ms,
            lambda: self._session_expired(group, member_id),
        )

    def _session_expired(self, group: Group, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is None or not member.is_excused:
            self.fail(group, member_id)

    def fail(self, group: Group, member_id: str) -> None:
        """A member, or one to be, has gone without a word."""
        was_member = member_id in group.members
        self.drop(group, member_id)
        if group.state is GroupState.PREPARING:
            if group.has_all_joined:
                self.end_join_phase(group)
        elif was_member:
            self.member_changed(group)

    def drop(self, group: Group, member_id: str) -> None:
        """Take a member out; what it had parked is answered with 25, so that a living one joins again."""
        self.deadlines.cancel(_session(group, member_id))
        member = group.members.get(member_id)
        group.remove(member_id)
        if member is not None:
            _tell([(_take_join(member), join_refused(ErrorCode.UNKNOWN_MEMBER_ID))])
            _tell([(_take_sync(member), sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))])

    def replace(self, group: Group, old: Member, new: Member) -> None:
        """A static member's new process takes over: the session is the new one's, what the old one parked is fenced."""
        group.replace(old, new)
        self.deadlines.cancel(_session(group, old.member_id))
        self.start_session(group, new)
        _tell(
            [
                (_take_join(old), join_refused(ErrorCode.FENCED_INSTANCE_ID, old.member_id)),
                (_take_sync(old), sync_refused(ErrorCode.FENCED_INSTANCE_ID)),
            ]
        )

    # ---- beginning and end ----

    def save(self, group: Group, assignments: Mapping[str, bytes] | None = None) -> ErrorCode:
        """Write the group's record, with new assignments if given."""
        return self.store.store_group(group.group_id, to_record(group, assignments), self.clock.wall_ms())

    def forget(self, group: Group) -> None:
        """Nothing happens to this group any more."""
        self.deadlines.cancel(_join_phase(group))
        self.deadlines.cancel(_sync_phase(group))
        for member_id in [*group.members, *group.pending_ids]:
            self.deadlines.cancel(_session(group, member_id))


def _join_phase(group: Group) -> tuple[str, str]:
    return group.group_id, "join"


def _sync_phase(group: Group) -> tuple[str, str]:
    return group.group_id, "sync"


def _session(group: Group, member_id: str) -> tuple[str, str, str]:
    return group.group_id, "session", member_id


def _take_join(member: Member) -> Pending[Any] | None:
    taken, member.join = member.join, None
    return taken


def _take_sync(member: Member) -> Pending[Any] | None:
    taken, member.sync = member.sync, None
    return taken


def _tell(answers: list[tuple[Pending[Any] | None, Any]]) -> None:
    """Answer those who wait, after all has been decided: an answer may bring the next request at once."""
    for pending, answer in answers:
        if pending is not None:
            pending.complete(answer)
