"""`Committer`: what was printed becomes what the group has committed; that, and nothing else.

Everything before the consumer's position was handed out by earlier polls and written before the next one; so between
polls the positions are what was printed. While the records of a poll are being written, those of a partition that were
not written yet hold its offset back. What was left out by a filter counts as printed, and so do offsets without
records: transaction markers and the gaps of compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

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
_TRANSIENT = {ErrorCode.REBALANCE_IN_PROGRESS}


class Committer:
    """Commits for one member: now and then while it prints, before it gives partitions up, and at the end.

    `interval_ms` None: nothing is ever committed. `say` tells the person what was not.
    """

    def __init__(
        self,
        consumer: Consumer,
        clock: Clock,
        say: Callable[[str], None],
        *,
        interval_ms: float | None,
        timeout_ms: float,
    ) -> None:
        self.stored: dict[TopicPartition, int] = {}
        self._consumer = consumer
        self._clock = clock
        self._say = say
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._next_ms = 0.0
        self._held: dict[TopicPartition, int] = {}
        self._on_its_way = False
        self._fatal: KcliError | None = None
        self._told = ""

    # --- what was printed

    def begin(self, batches: Iterable[tuple[TopicPartition, RecordColumns]]) -> None:
        """These were handed out, and are about to be written."""
        self._held = {tp: int(columns.offsets[0]) for tp, columns in batches}

    def wrote(self, tp: TopicPartition) -> None:
        """All that was handed out of this partition is written."""
        self._held.pop(tp, None)

    def hold(self, tp: TopicPartition, offset: int) -> None:
        """From this record on nothing of the partition is written."""
        self._held[tp] = offset

    def end(self, left: Mapping[TopicPartition, int]) -> None:
        """All that was handed out is written, but what is `left` of some partitions, from these offsets on."""
        self._held = dict(left)

    def printed(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far each partition is printed; those are left out whose position is not known yet."""
        subscription = self._consumer.subscription
        found = {}
        for tp in subscription.partitions() if partitions is None else partitions:
            state = subscription.get(tp)
            if state is None or state.position is None:
                continue
            if tp in self._held:
                found[tp] = OffsetAndMetadata(self._held[tp])
            else:
                found[tp] = OffsetAndMetadata(state.position.offset, state.position.epoch)
        return found

    # --- what is stored

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They are not ours any more: what was stored for them may change without us."""
        for tp in partitions:
            self.stored.pop(tp, None)

    def hurry(self) -> None:
        """There are new partitions: where they begin is to be stored soon.

        Or else who begins at the log's end, and dies, begins at a later end the next time.
        """
        self._next_ms = 0.0

    def tick(self) -> None:
        """Commit what is new, if it is time to. Raises what makes all commits futile."""
        if self._fatal is not None:
            raise self._fatal
        if self._interval_ms is None or self._on_its_way or self._clock.now_ms() < self._next_ms:
            return
        printed = self.printed()
        news = self._news(printed)
        if news:
            complete = len(printed) == len(self._consumer.subscription.partitions())
            self._next_ms = self._clock.now_ms() + (self._interval_ms if complete else _SOON_MS)
            self._on_its_way = True
            self._consumer.commit_async(news, self._answered)

    def _answered(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KcliError | None) -> None:
        self._on_its_way = False
        if error is None:
            self._note(offsets)
            self._told = ""
        elif isinstance(error, BrokerError) and error.code in _FATAL:
            self._fatal = error
        elif not (error.retriable or (isinstance(error, BrokerError) and error.code in _TRANSIENT)):
            self._tell(error)

    def store(self, partitions: Collection[TopicPartition]) -> None:
        """These are about to go to somebody else: commit what was printed of them. A failure is told, not raised."""
        try:
            self._commit(self._news(self.printed(partitions)))
        except KcliError as error:
            self._tell(error)

    def finish(self) -> None:
        """Commit what was printed and is not stored yet. Raises why that failed."""
        self._commit(self._news(self.printed()))

    def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets and self._interval_ms is not None:
            undisturbed(lambda: self._consumer.commit(offsets, timeout_ms=self._timeout_ms))
            self._note(offsets)

    def _news(self, printed: dict[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {tp: it for tp, it in printed.items() if self.stored.get(tp) != it.offset}

    def _note(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        owned = self._consumer.subscription
        self.stored.update((tp, it.offset) for tp, it in offsets.items() if owned.get(tp) is not None)

    def _tell(self, error: KcliError) -> None:
        if str(error) != self._told:
            self._told = str(error)
            self._say(f"not committed: {error}; what was printed since the last commit will be printed again")


def undisturbed(call: Callable[[], Any]) -> None:
    """Do it to its end though Ctrl-C wakes it up: whoever asked for the end waits for it."""
    while True:
        try:
            call()
        except WakeupError:
            continue
        return
