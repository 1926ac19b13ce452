"""`Committer`: commits exactly the printed records.

All records before the consumer's position were returned by earlier polls and written before the next poll, so between
polls the position is the printed offset. While the records of a poll are being written, the unwritten records of a
partition hold its offset back. Filtered records count as printed, and so do offsets without records: transaction
markers and gaps of compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, WakeupError
from kcli.structs import OffsetAndMetadata

if TYPE_CHECKING:
    from kcli.clock import Clock
    from kcli.consumer.consumer import Consumer
    from kcli.protocol.records.columns import RecordColumns
    from kcli.structs import TopicPartition

_FATAL = {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.FENCED_INSTANCE_ID}
_SOON_MS = 100.0
_LEAVE_MS = 500.0
_TRANSIENT = {ErrorCode.REBALANCE_IN_PROGRESS}


class Committer:
    """The commits of one member: at intervals while it prints, before partitions are revoked, and at the end.

    `interval_ms` None: never commit. `report` reports failed commits to the user. `timeout_ms` limits one commit, and
    after `end` all commits together with leaving the group.
    """

    def __init__(
        self,
        consumer: Consumer,
        clock: Clock,
        report: Callable[[str], None],
        *,
        interval_ms: float | None,
        timeout_ms: float,
    ) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._clock = clock
        self._report = report
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._end_ms = float("inf")
        self._next_ms = 0.0
        self._held: dict[TopicPartition, int] = {}
        self._in_flight = False
        self._fatal: KcliError | None = None
        self._last_report = ""

    # --- printed offsets

    def start_batches(self, batches: Iterable[tuple[TopicPartition, RecordColumns]]) -> None:
        """Hold the offsets of these batches, which are about to be written."""
        self._held = {tp: int(columns.offsets[0]) for tp, columns in batches}

    def written(self, tp: TopicPartition) -> None:
        """Release the offset of a partition whose records of this poll are all written."""
        self._held.pop(tp, None)

    def hold(self, tp: TopicPartition, offset: int) -> None:
        """Hold the offset of a partition: nothing is written from this offset on."""
        self._held[tp] = offset

    def finish_batches(self, first_unprinted: Mapping[TopicPartition, int]) -> None:
        """Release all offsets except those of partitions with unprinted records."""
        self._held = dict(first_unprinted)

    def printed_offsets(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the printed offset of each partition whose position is known."""
        subscription = self._consumer.subscription
        offsets = {}
        for tp in subscription.partitions() if partitions is None else partitions:
            state = subscription.get(tp)
            if state is None or state.position is None:
                continue
            if tp in self._held:
                offsets[tp] = OffsetAndMetadata(self._held[tp])
            else:
                offsets[tp] = OffsetAndMetadata(state.position.offset, state.position.epoch)
        return offsets

    # --- the end

    def end(self) -> None:
        """Begin the end of the read, if it has not begun: from now on the time limit is one for all that is left."""
        self._end_ms = min(self._end_ms, self._clock.now_ms() + self._timeout_ms)

    def left_ms(self) -> float:
        """Return the remaining time of the end."""
        return max(0.0, min(self._timeout_ms, self._end_ms - self._clock.now_ms()))

    # --- commits

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the committed offsets of partitions that are no longer assigned."""
        for tp in partitions:
            self.committed.pop(tp, None)

    def commit_soon(self) -> None:
        """Commit the start of new partitions soon.

        Otherwise a member that starts at the log end and crashes would skip records, because it would start at a later
        end.
        """
        self._next_ms = 0.0

    def tick(self) -> None:
        """Commit new offsets if it is due. Raise an error that makes all commits fail."""
        if self._fatal is not None:
            raise self._fatal
        if self._interval_ms is None or self._in_flight or self._clock.now_ms() < self._next_ms:
            return
        printed_offsets = self.printed_offsets()
        uncommitted = self._uncommitted(printed_offsets)
        if uncommitted:
            complete = len(printed_offsets) == len(self._consumer.subscription.partitions())
            self._next_ms = self._clock.now_ms() + (self._interval_ms if complete else _SOON_MS)
            self._in_flight = True
            self._consumer.commit_async(uncommitted, self._answered)

    def _answered(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KcliError | None) -> None:
        self._in_flight = False
        if error is None:
            self._record(offsets)
            self._last_report = ""
        elif isinstance(error, BrokerError) and error.code in _FATAL:
            self._fatal = error
        elif not (error.retriable or (isinstance(error, BrokerError) and error.code in _TRANSIENT)):
            self._report_failure(error)

    def commit_or_report(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit the printed records, by default those of all partitions. A failure is reported, not raised."""
        try:
            self._commit(self._uncommitted(self.printed_offsets(partitions)))
        except KcliError as error:
            self._report_failure(error)

    def finish(self) -> None:
        """Commit the printed records, and keep some time for leaving the group. Raise the error of a failed commit."""
        self._commit(self._uncommitted(self.printed_offsets()))

    def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets and self._interval_ms is not None:
            self._commit_despite_wakeups(offsets)
            self._record(offsets)

    def _commit_despite_wakeups(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit again after the wakeup of a signal: the first signal begins the end, and must not prevent a commit."""
        deadline_ms = self._clock.now_ms() + self.left_ms() - min(_LEAVE_MS, self._timeout_ms / 10)
        while True:
            try:
                self._consumer.commit(offsets, timeout_ms=max(0.0, deadline_ms - self._clock.now_ms()))
            except WakeupError:
                self.end()
                continue
            return

    def _uncommitted(
        self, printed_offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {tp: offset for tp, offset in printed_offsets.items() if self.committed.get(tp) != offset.offset}

    def _record(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        owned = self._consumer.subscription
        self.committed.update((tp, offset.offset) for tp, offset in offsets.items() if owned.get(tp) is not None)

    def _report_failure(self, error: KcliError) -> None:
        if str(error) != self._last_report:
            self._last_report = str(error)
            reason = str(error).removeprefix("the commit failed: ")
            self._report(f"commit failed: {reason}; records printed since the last commit may be printed again")
