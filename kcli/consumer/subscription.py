"""What a consumer reads and how far it is: `SubscriptionState`. Pure: no I/O, no clock.

A partition has two positions. `position` is where the caller is: the next record to be handed out. `ahead` is where
fetching is: the next record to ask a broker for; it runs ahead of `position` by what was received and not handed out
yet. Whatever moves the caller (seek, reset) sets both, and so a response to an older question is known by its offset.

    no position --await_reset--> awaiting reset --finish_reset / seek--> fetching
    fetching --await_validation--> awaiting validation --finish_validation / seek--> fetching
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from kcli.errors import KcliError
from kcli.structs import TopicPartition

Mode = Literal["nothing", "topics", "pattern", "assigned"]


class FetchPosition(NamedTuple):
    """The next offset, with the leader epoch of the record before it (-1 unknown)."""

    offset: int
    epoch: int = -1


class Reset(NamedTuple):
    """A position that was outside the log, and where reading went on instead: by which policy, or `truncated`."""

    offset: int
    policy: str
    found: int


class PartitionState:
    """Everything known about reading one assigned partition. Offsets are -1 until a broker has told them.

    `end`: fetch nothing from this offset on. `reset`: the policy (earliest, latest) whose answer is awaited, and
    `left` the offset outside the log that is given up for it (-1: none).
    `leader_epoch`: the leader under which `ahead` is known to be good. `preferred_replica` serves instead of the leader
    until `preferred_until_ms` (KIP-392).
    """

    __slots__ = (
        "ahead",
        "end",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "left",
        "log_start",
        "paused",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "validating",
    )

    def __init__(self) -> None:
        self.position: FetchPosition | None = None
        self.ahead: FetchPosition | None = None
        self.reset: str | None = None
        self.left = -1
        self.validating = False
        self.paused = False
        self.end: int | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.leader_epoch = -1
        self.log_start = -1
        self.preferred_replica = -1
        self.preferred_until_ms = 0.0

    def fetch_from(self) -> FetchPosition | None:
        """Where to fetch next; None while there is nothing to ask for."""
        if self.ahead is None or self.reset is not None or self.validating or self.paused:
            return None
        return None if self.end is not None and self.ahead.offset >= self.end else self.ahead


class SubscriptionState:
    """The partitions being read, with their states.

    `finished` collects the partitions whose caller has come to their `end`; `touched` those whose state changed in a
    way that matters to fetching; `unready` are those that wait for a position or for its validation; `resets` are
    positions outside the log and what became of them. With thousands of partitions nobody needs to look at all of them.
    """

    def __init__(self) -> None:
        self.mode: Mode = "nothing"
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.touched: set[TopicPartition] = set()
        self.unready: set[TopicPartition] = set()
        self.finished: set[TopicPartition] = set()
        self.resets: dict[TopicPartition, Reset] = {}
        self._states: dict[TopicPartition, PartitionState] = {}

    def __repr__(self) -> str:
        pattern = self.pattern.pattern if self.pattern else self.server_pattern
        what = pattern or ",".join(sorted(self.topics))
        return f"<SubscriptionState {self.mode} {what} partitions={len(self._states)} unready={len(self.unready)}>"

    # --- what is read

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics as a member of a group."""
        self._enter("topics")
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str) -> None:
        """Read the topics whose whole name matches, as a member of a group. A malformed pattern: KcliError."""
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise KcliError(f"the topic pattern {pattern!r} is not a regular expression: {error}") from error
        self._enter("pattern")
        self.pattern = compiled

    def subscribe_server_pattern(self, pattern: str) -> None:
        """The same with the topics chosen by the broker (KIP-848), in its dialect, RE2: nothing is checked here."""
        self._enter("pattern")
        self.server_pattern = pattern

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Those that were read before keep their state."""
        self._enter("assigned")
        self._read(partitions)

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these, which the group has given to this member. Those that were read before keep their
        state."""
        self._read(partitions)

    def _read(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(dict.fromkeys(partitions))
        self.touched.update(self._states)
        self._states = {tp: self._states.get(tp) or PartitionState() for tp in wanted}
        self.touched.update(wanted)
        self.unready = {tp for tp, state in self._states.items() if state.position is None or state.validating}

    def drop(self, tp: TopicPartition) -> None:
        """Read this assigned partition no longer."""
        if self._states.pop(tp, None) is not None:
            self.touched.add(tp)
            self.unready.discard(tp)
            self.finished.discard(tp)

    def unsubscribe(self) -> None:
        """Read nothing; another way of choosing may follow."""
        self.touched.update(self._states)
        self._states, self.unready = {}, set()
        self.mode, self.topics, self.pattern, self.server_pattern = "nothing", frozenset(), None, None

    def _enter(self, mode: Mode) -> None:
        if self.mode not in ("nothing", mode):
            raise KcliError(f"topics, a pattern and assigned partitions exclude each other: it is {self.mode} now")
        self.mode = mode

    def partitions(self) -> Collection[TopicPartition]:
        """All partitions being read."""
        return self._states.keys()

    def get(self, tp: TopicPartition) -> PartitionState | None:
        """The state of a partition, None if it is not being read."""
        return self._states.get(tp)

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of a partition; KcliError if it is not being read."""
        state = self._states.get(tp)
        if state is None:
            raise KcliError(f"partition {tp} is not assigned to this consumer")
        return state

    # --- where the reading is

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Read on from `offset`; what was received for another position is dropped.

        With the `epoch` of the record before it, a leader must confirm first that this is still the same log.
        """
        self._move(tp, FetchPosition(offset, epoch), validating=epoch >= 0)

    def _move(self, tp: TopicPartition, position: FetchPosition, *, validating: bool) -> None:
        state = self.state(tp)
        state.position = state.ahead = position
        state.reset = None
        state.validating = validating
        self._changed(tp, ready=not validating)
        self._note_end(tp, state)

    def stop_at(self, tp: TopicPartition, end: int | None) -> None:
        """Fetch nothing at or after `end`; None: no such limit."""
        state = self.state(tp)
        state.end = end
        self.touched.add(tp)
        self._note_end(tp, state)

    def pause(self, tp: TopicPartition) -> None:
        """Hand out nothing of this partition until it is resumed. What was received is fetched again then."""
        state = self.state(tp)
        state.paused = True
        state.ahead = state.position
        self.touched.add(tp)

    def resume(self, tp: TopicPartition) -> None:
        """Undo `pause`."""
        self.state(tp).paused = False
        self.touched.add(tp)

    def await_reset(self, tp: TopicPartition, policy: str, left: int = -1) -> None:
        """The position is to be found by `policy`: earliest or latest; instead of `left`, which is outside the log."""
        state = self.state(tp)
        state.position = state.ahead = None
        state.reset = policy
        state.left = left
        state.validating = False
        self._changed(tp, ready=False)

    def finish_reset(self, tp: TopicPartition, policy: str, offset: int, epoch: int = -1) -> bool:
        """A broker's answer to `await_reset`. False, and nothing done, if the caller has moved on meanwhile."""
        state = self._states.get(tp)
        if state is None or state.reset != policy:
            return False
        if state.left >= 0:
            self.resets[tp] = Reset(state.left, policy, offset)
        self._move(tp, FetchPosition(offset, epoch), validating=False)
        return True

    def await_validation(self, tp: TopicPartition) -> bool:
        """Fetch nothing until a leader confirms the epoch of `ahead`. False if there is no epoch to confirm."""
        state = self.state(tp)
        if state.ahead is None or state.ahead.epoch < 0 or state.validating:
            return False
        state.validating = True
        self._changed(tp, ready=False)
        return True

    def finish_validation(self, tp: TopicPartition, asked: FetchPosition, epoch: int) -> bool:
        """The leader knows `asked`, under `epoch`. False, and nothing done, if the position moved since."""
        state = self._states.get(tp)
        if state is None or not state.validating or state.ahead != asked:
            return False
        state.validating = False
        state.ahead = FetchPosition(asked.offset, epoch)
        if state.position is not None and state.position.offset == asked.offset:
            state.position = state.ahead
        self._changed(tp, ready=True)
        return True

    def fetched(self, tp: TopicPartition, asked_offset: int, ahead: FetchPosition) -> None:
        """Records up to `ahead` have been received in answer to `asked_offset`; ignored if that is no longer asked."""
        state = self._states.get(tp)
        if state is not None and state.ahead is not None and state.ahead.offset == asked_offset:
            state.ahead = ahead
            self.touched.add(tp)

    def handed_out(self, tp: TopicPartition, position: FetchPosition) -> None:
        """The caller has everything before `position`."""
        state = self.state(tp)
        state.position = position
        if state.ahead is None or state.ahead.offset < position.offset:
            state.ahead = position
            self.touched.add(tp)
        self._note_end(tp, state)

    def _note_end(self, tp: TopicPartition, state: PartitionState) -> None:
        if state.end is not None and state.position is not None and state.position.offset >= state.end:
            self.finished.add(tp)

    def rewind(self, tp: TopicPartition) -> None:
        """Forget what was received and not handed out: fetch from the caller's position again."""
        state = self.state(tp)
        if state.position is not None:
            state.ahead = state.position
            self.touched.add(tp)

    def _changed(self, tp: TopicPartition, *, ready: bool) -> None:
        self.touched.add(tp)
        if ready:
            self.unready.discard(tp)
        else:
            self.unready.add(tp)

    # --- which replica serves

    def prefer_replica(self, tp: TopicPartition, node_id: int, until_ms: float) -> None:
        """Fetch from this replica instead of the leader until `until_ms`."""
        state = self.state(tp)
        state.preferred_replica, state.preferred_until_ms = node_id, until_ms
        self.touched.add(tp)

    def prefer_leader(self, tp: TopicPartition) -> bool:
        """Fetch from the leader again. True if another replica was preferred before."""
        state = self._states.get(tp)
        if state is None or state.preferred_replica < 0:
            return False
        state.preferred_replica = -1
        self.touched.add(tp)
        return True
