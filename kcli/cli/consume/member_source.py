"""`MemberSource`: a group's member as something to be read from, told of what comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.cli.consume.member_words import partition_words, reset_words

if TYPE_CHECKING:
    from kcli.cli.consume.committer import Committer
    from kcli.clock import Clock
    from kcli.consumer.consumer import Consumer
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

# A member that joins while others still own everything first gets nothing, and a moment later its share.
_NOTHING_YET_MS = 10_000.0
_STILL_WAITING_MS = 5_000.0
_WAITS_FOR = {
    "preparing": "the group waits for its other members to join again",
    "completing": "the member that leads the group has not shared out its partitions yet",
    "unjoined": "the group cannot be joined yet",
    "joining": "the broker has not let this member in yet",
}


class MemberSource:
    """Reads what the group assigns; `done` when `exit_at_end` and all that is owned is read.

    The end of a partition is where its log ended when it was first assigned. What was printed of a partition is
    committed before it goes.
    """

    def __init__(
        self,
        consumer: Consumer,
        committer: Committer,
        clock: Clock,
        say: Callable[[str], None],
        *,
        warn: Callable[[str], None] | None = None,
        exit_at_end: bool = False,
    ) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.closing = False
        self._in_range: set[TopicPartition] = set()
        self._consumer = consumer
        self._committer = committer
        self._clock = clock
        self._say = say
        self._warn = warn or say
        self._exit_at_end = exit_at_end
        self._rebalances = 0
        self._since_ms = clock.now_ms()
        self._told_waiting = False

    def subscribe(self, topics: list[str]) -> None:
        """Join for these topics, with the next polls."""
        self._consumer.subscribe(
            topics, on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_lost=self._on_lost
        )

    # --- being read from

    @property
    def done(self) -> bool:
        """Whether all that is owned is read up to the end it had (never without `exit_at_end`)."""
        if not self._exit_at_end or not self._rebalances:
            return False
        subscription = self._consumer.subscription
        owned = subscription.partitions()
        if not owned:
            return self._clock.now_ms() - self._since_ms >= _NOTHING_YET_MS
        for tp in owned:
            position = subscription.state(tp).position
            end = self.ends.get(tp)
            if position is None or end is None or position.offset < end:
                return False
            if position.offset > end and tp not in self._in_range:
                return False
        return True

    def passed(self) -> int:
        """Grows whenever there is progress: offsets passed, a rebalance, and any time before the first one is over."""
        if not self._rebalances:
            return int(self._clock.now_ms())
        self.note_positions()
        return sum(self.positions.values()) + self._rebalances

    def poll(self, timeout_ms: float) -> list[tuple[TopicPartition, RecordColumns]]:
        """Records of partitions that are ours, as soon as there are some."""
        self._tell_waiting()
        self._check_range()
        batches = list(self._consumer.poll(timeout_ms).items())
        self._committer.begin(batches)
        for tp, reset in self._consumer.take_resets().items():
            self._warn(reset_words(tp, reset))
        return batches

    def _check_range(self) -> None:
        """Of what begins behind the end where we are to stop, nothing is fetched; so nobody would notice."""
        subscription = self._consumer.subscription
        news = [tp for tp in subscription.partitions() if tp in self.ends and tp not in self._in_range]
        positions = {tp: state.position for tp in news if (state := subscription.get(tp)) is not None}
        known = {tp: position.offset for tp, position in positions.items() if position is not None}
        beyond = [tp for tp, offset in known.items() if offset > self.ends[tp]]
        if beyond:
            self._consumer.check_range(beyond)
        self._in_range.update(known)

    def note_positions(self) -> None:
        """Remember how far each partition is, beyond the time that it is ours."""
        self.positions.update((tp, it.offset) for tp, it in self._committer.printed().items())

    def _tell_waiting(self) -> None:
        waited_ms = self._clock.now_ms() - self._since_ms
        if not self._rebalances and not self._told_waiting and waited_ms >= _STILL_WAITING_MS:
            self._told_waiting = True
            membership = self._consumer.membership
            state = "unjoined" if membership is None else membership.state
            self._say(f"still waiting for an assignment: {_WAITS_FOR.get(state, state)}")

    # --- rebalances

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._since_ms = self._clock.now_ms()
        self._committer.hurry()
        if partitions:
            self._say(f"assigned {partition_words(partitions)}")
        elif not self._consumer.subscription.partitions():
            self._say("no partition is assigned to this member")
        if self._exit_at_end:
            self._find_ends(partitions)

    def _find_ends(self, partitions: list[TopicPartition]) -> None:
        subscription = self._consumer.subscription
        self._in_range.difference_update(partitions)
        unknown = [tp for tp in partitions if tp not in self.ends]
        if unknown:
            self.ends.update(self._consumer.end_offsets(unknown))
        for tp in partitions:
            if subscription.get(tp) is not None:
                subscription.stop_at(tp, self.ends[tp])

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.closing:
            return
        self.note_positions()
        self._committer.store(partitions)
        self._committer.forget(partitions)
        self._say(f"revoked {partition_words(partitions)}")

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self.note_positions()
        self._committer.forget(partitions)
        if not self.closing:
            self._say(
                f"lost {partition_words(partitions)}: the group has put this member out; "
                "what was printed and not committed will be printed again"
            )
