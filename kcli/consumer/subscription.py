"""Partitions being read, and their positions: `SubscriptionState`. Pure: no I/O, no clock.

A partition has two positions. `position` is the consumed position: the next record to return to the caller.
`fetch_position` is the next record to request from a broker; it is ahead of `position` by the records that are received
but not returned. A seek or a reset sets both, so a response to an earlier request is recognized by its offset.

    no position --request_reset--> awaiting reset --finish_reset / seek--> fetching
    fetching --request_validation--> awaiting validation --finish_validation / seek--> fetching
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from kcli.errors import KcliError
from kcli.structs import TopicPartition
from kcli.text import compile_regex

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.structs import OffsetAndMetadata

Mode = Literal["nothing", "topics", "pattern", "assigned"]


class FetchPosition(NamedTuple):
    """An offset, with the leader epoch of the record before it (-1: unknown)."""

    offset: int
    epoch: int = -1


class PositionReset(NamedTuple):
    """The replacement of a position outside the log. `policy`: one of auto.offset.reset, or `truncated`."""

    offset: int
    policy: str
    new_offset: int


class PartitionFailure(NamedTuple):
    """An error that prevents reading a partition at `offset` (-1: the partition has no position)."""

    tp: TopicPartition
    offset: int
    error: KcliError


class PartitionState:
    """State of one assigned partition. Offsets are -1 until a broker has reported them.

    `end`: fetch no offset from this one on. `held`: send no fetch; records that are received already are returned.
    `reset`: the policy of a reset that is in progress, one of auto.offset.reset but none, and `invalid_offset` the
    position outside the log that it replaces (-1: none). `leader_epoch`: the leader epoch for which `fetch_position` is
    validated. `preferred_replica` is fetched from instead of the leader until `preferred_until_ms` (KIP-392).
    `topic_id`: the topic that the position belongs to; None while it is unknown.
    """

    __slots__ = (
        "end",
        "fetch_position",
        "held",
        "high_watermark",
        "invalid_offset",
        "last_stable_offset",
        "leader_epoch",
        "log_start",
        "paused",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "topic_id",
        "validating",
    )

    def __init__(self) -> None:
        self.position: FetchPosition | None = None
        self.fetch_position: FetchPosition | None = None
        self.reset: str | None = None
        self.invalid_offset = -1
        self.validating = False
        self.paused = False
        self.held = False
        self.end: int | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.leader_epoch = -1
        self.log_start = -1
        self.preferred_replica = -1
        self.preferred_until_ms = 0.0
        self.topic_id: UUID | None = None

    def belongs_to(self, topic_id: UUID | None) -> bool:
        """False if the position belongs to a topic with another id, which was deleted."""
        return self.position is None or topic_id is None or self.topic_id in (None, topic_id)

    def next_fetch(self) -> FetchPosition | None:
        """Return the position to fetch from; None while nothing can be fetched."""
        if self.fetch_position is None or self.reset is not None or self.validating or self.paused:
            return None
        return None if self.end is not None and self.fetch_position.offset >= self.end else self.fetch_position

    def log_end(self, *, read_committed: bool) -> int:
        """Return the end for readers that the last response contained: high watermark or last stable offset, or -1."""
        return self.last_stable_offset if read_committed else self.high_watermark

    def is_at_end(self, *, read_committed: bool) -> bool:
        """True if all records before the last known end for readers were returned."""
        log_end = self.log_end(read_committed=read_committed)
        return self.position is not None and -1 < log_end <= self.position.offset


class SubscriptionState:
    """The partitions being read, with their states.

    `ended` collects the partitions whose position has reached their `end`; `updated` those whose state changed in a way
    that matters to fetching; `not_ready` those that wait for a position or for its validation; `resets` the positions
    outside the log, with their replacements. These sets exist so that no poll visits all of thousands of partitions.
    """

    def __init__(self) -> None:
        self.mode: Mode = "nothing"
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.updated: set[TopicPartition] = set()
        self.not_ready: set[TopicPartition] = set()
        self.ended: set[TopicPartition] = set()
        self.resets: dict[TopicPartition, PositionReset] = {}
        #: The reset policy of partitions that had no committed offset.
        self.policy_starts: dict[TopicPartition, str] = {}
        #: Offset of the first record that an iteration over returned records has not reached yet.
        self.unread: dict[TopicPartition, int] = {}
        #: Offset of the first record that was returned since the caller last asked for more: it may not be handled yet.
        self.in_hand: dict[TopicPartition, int] = {}
        self._states: dict[TopicPartition, PartitionState] = {}

    def __repr__(self) -> str:
        pattern = self.pattern.pattern if self.pattern else self.server_pattern
        what = pattern or ",".join(sorted(self.topics))
        return f"<SubscriptionState {self.mode} {what} partitions={len(self._states)} not_ready={len(self.not_ready)}>"

    # --- subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics as a member of a group."""
        self._set_mode("topics")
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str) -> None:
        """Read the topics whose whole name matches, as a member of a group. Raise KcliError for a malformed pattern."""
        try:
            compiled = compile_regex(pattern)
        except re.error as error:
            raise KcliError(f"topic pattern {pattern!r} is not a valid regular expression: {error}") from error
        self._set_mode("pattern")
        self.pattern = compiled

    def subscribe_server_pattern(self, pattern: str) -> None:
        """Read the topics that the broker matches with this RE2 pattern (KIP-848). The pattern is not checked here."""
        self._set_mode("pattern")
        self.server_pattern = pattern

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Partitions that are read already keep their state."""
        self._set_mode("assigned")
        self._set_partitions(partitions)

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, assigned by the group. Partitions that are read already keep their state."""
        self._set_partitions(partitions)

    def _set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        requested = list(dict.fromkeys(partitions))
        self.updated.update(self._states)
        self._states = {tp: self._states.get(tp) or PartitionState() for tp in requested}
        for tp in (self.unread.keys() | self.in_hand.keys()) - self._states.keys():
            self._forget_returned(tp)
        self.updated.update(requested)
        self.not_ready = {tp for tp, state in self._states.items() if state.position is None or state.validating}

    def unassign(self, tp: TopicPartition) -> None:
        """Stop reading this partition."""
        if self._states.pop(tp, None) is not None:
            self.updated.add(tp)
            self.not_ready.discard(tp)
            self.ended.discard(tp)
            self._forget_returned(tp)

    def unsubscribe(self) -> None:
        """Read nothing, and allow another mode of subscription."""
        self.updated.update(self._states)
        self._states, self.not_ready = {}, set()
        self.unread.clear()
        self.in_hand.clear()
        self.mode, self.topics, self.pattern, self.server_pattern = "nothing", frozenset(), None, None

    def _set_mode(self, mode: Mode) -> None:
        if self.mode not in ("nothing", mode):
            raise KcliError(f"cannot change the subscription from {self.mode} to {mode}; call unsubscribe first")
        self.mode = mode

    def partitions(self) -> Collection[TopicPartition]:
        """Return all partitions that are read."""
        return self._states.keys()

    def get(self, tp: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None if it is not read."""
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the state of a partition. Raise KcliError if it is not read."""
        state = self._states.get(tp)
        if state is None:
            raise KcliError(f"partition {tp} is not assigned to this consumer")
        return state

    # --- positions

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Set both positions; records received for another position are dropped.

        With the `epoch` of the record before it, the position is validated by the leader before it is fetched from.
        """
        self._move(tp, FetchPosition(offset, epoch), validating=epoch >= 0)

    def _move(self, tp: TopicPartition, position: FetchPosition, *, validating: bool) -> None:
        state = self.state(tp)
        self._forget_returned(tp)
        state.position = state.fetch_position = position
        state.reset = None
        state.validating = validating
        self._set_ready(tp, ready=not validating)
        self._update_ended(tp, state)

    def stop_at(self, tp: TopicPartition, end: int | None) -> None:
        """Fetch no offset from `end` on; None: no limit."""
        state = self.state(tp)
        state.end = end
        self.updated.add(tp)
        self._update_ended(tp, state)

    def pause(self, tp: TopicPartition) -> None:
        """Return no records of this partition until `resume`. Received and unread records are fetched again then."""
        state = self.state(tp)
        unread = self.unread.pop(tp, None)
        if unread is not None:
            state.position = FetchPosition(unread)
        state.paused = True
        state.fetch_position = state.position
        self.updated.add(tp)

    def resume(self, tp: TopicPartition) -> None:
        """Undo `pause`."""
        self.state(tp).paused = False
        self.updated.add(tp)

    def hold(self, tp: TopicPartition, *, held: bool) -> None:
        """Send no more fetches for this partition, or send them again. Received records are returned as usual."""
        state = self.state(tp)
        if state.held != held:
            state.held = held
            self.updated.add(tp)

    def request_reset(self, tp: TopicPartition, policy: str, invalid_offset: int = -1) -> None:
        """Request a position by a `policy` of auto.offset.reset, in place of one outside the log, `invalid_offset`."""
        state = self.state(tp)
        self._forget_returned(tp)
        state.position = state.fetch_position = None
        state.reset = policy
        state.invalid_offset = invalid_offset
        state.validating = False
        self._set_ready(tp, ready=False)

    def finish_reset(self, tp: TopicPartition, policy: str, offset: int, epoch: int = -1) -> bool:
        """Take the answer to `request_reset`. Return False, without effect, if the position was changed meanwhile."""
        state = self._states.get(tp)
        if state is None or state.reset != policy:
            return False
        if state.invalid_offset >= 0:
            self.resets[tp] = PositionReset(state.invalid_offset, policy, offset)
        self._move(tp, FetchPosition(offset, epoch), validating=False)
        return True

    def request_validation(self, tp: TopicPartition) -> bool:
        """Stop fetching until a leader confirms the epoch of `fetch_position`. Return False if its epoch is unknown."""
        state = self.state(tp)
        if state.fetch_position is None or state.fetch_position.epoch < 0 or state.validating:
            return False
        state.validating = True
        self._set_ready(tp, ready=False)
        return True

    def is_validating(self, tp: TopicPartition, position: FetchPosition) -> bool:
        """True while `position` waits for the confirmation of a leader."""
        state = self._states.get(tp)
        return state is not None and state.validating and state.fetch_position == position

    def finish_validation(self, tp: TopicPartition, validated: FetchPosition, epoch: int) -> bool:
        """Take the leader's confirmation of `validated`, under `epoch`.

        Return False, without effect, if the position has changed.
        """
        if not self.is_validating(tp, validated):
            return False
        state = self.state(tp)
        state.validating = False
        state.fetch_position = FetchPosition(validated.offset, epoch)
        if state.position is not None and state.position.offset == validated.offset:
            state.position = state.fetch_position
        self._set_ready(tp, ready=True)
        return True

    def fetched(self, tp: TopicPartition, asked_offset: int, fetch_position: FetchPosition) -> None:
        """Advance the fetch position after a response for `asked_offset`.

        Without effect if that is no longer the position.
        """
        state = self._states.get(tp)
        if state is not None and state.fetch_position is not None and state.fetch_position.offset == asked_offset:
            state.fetch_position = fetch_position
            self.updated.add(tp)

    def delivered(self, tp: TopicPartition, position: FetchPosition, *, has_records: bool = True) -> None:
        """Advance the consumed position: all records before `position` were returned to the caller."""
        state = self.state(tp)
        if has_records and state.position is not None:
            self.in_hand.setdefault(tp, state.position.offset)
        state.position = position
        if state.fetch_position is None or state.fetch_position.offset < position.offset:
            state.fetch_position = position
            self.updated.add(tp)
        self._update_ended(tp, state)

    def _update_ended(self, tp: TopicPartition, state: PartitionState) -> None:
        if state.end is not None and state.position is not None and state.position.offset >= state.end:
            self.ended.add(tp)

    def consumed_position(self, tp: TopicPartition) -> FetchPosition | None:
        """Return the position for commits: `position`, or the first unread record of an iteration."""
        position = self.state(tp).position
        offset = self.unread.get(tp)
        return position if offset is None or position is None else FetchPosition(offset)

    def rewind_unread(self) -> None:
        """Set positions back to the first unread records of an iteration that was left."""
        for tp, offset in list(self.unread.items()):
            if tp in self._states:
                self.seek(tp, offset)
        self.unread.clear()

    def handled(self, committed: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Record that the caller commits these positions (None: all): it has handled the records before them."""
        if committed is None:
            self.in_hand.clear()
            return
        for tp in self.in_hand.keys() & committed.keys():
            self.in_hand[tp] = max(self.in_hand[tp], committed[tp].offset)

    def hold_back(self) -> None:
        """Let `consumed_position` exclude the records in hand."""
        for tp, offset in self.in_hand.items():
            consumed = self.consumed_position(tp)
            if consumed is not None and offset < consumed.offset:
                self.unread[tp] = offset

    def _forget_returned(self, tp: TopicPartition) -> None:
        self.unread.pop(tp, None)
        self.in_hand.pop(tp, None)

    def rewind(self, tp: TopicPartition) -> None:
        """Set the fetch position back to the consumed position: drop records that were received but not returned."""
        state = self.state(tp)
        if state.position is not None:
            state.fetch_position = state.position
            self.updated.add(tp)

    def _set_ready(self, tp: TopicPartition, *, ready: bool) -> None:
        self.updated.add(tp)
        if ready:
            self.not_ready.discard(tp)
        else:
            self.not_ready.add(tp)

    # --- preferred replica

    def prefer_replica(self, tp: TopicPartition, node_id: int, until_ms: float) -> None:
        """Fetch from this replica instead of the leader until `until_ms`."""
        state = self.state(tp)
        state.preferred_replica, state.preferred_until_ms = node_id, until_ms
        self.updated.add(tp)

    def prefer_leader(self, tp: TopicPartition) -> bool:
        """Fetch from the leader again. Return True if another replica was preferred."""
        state = self._states.get(tp)
        if state is None or state.preferred_replica < 0:
            return False
        state.preferred_replica = -1
        self.updated.add(tp)
        return True
