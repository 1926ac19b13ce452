"""`Consumer`: reads partitions, its own choice or its group's, a poll at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.consumer.fetch_buffer import Failure
from kcli.consumer.fetch_loop import FetchLoop
from kcli.consumer.group.group_client import GroupMetadata, GroupSide
from kcli.consumer.subscription import Reset, SubscriptionState
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, LogTruncated, OffsetOutOfRange, TimeoutExpired
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.group.group_membership import Membership
    from kcli.consumer.group.offset_commits import Callback
    from kcli.protocol.records.columns import RecordColumns

_CLOSE_TIMEOUT_MS = 30_000.0


class Consumer:
    """One thread's reader. Without a `client` it connects by itself, and closes that connection with `close`.

    Records come as columns, all that one response brought for a partition; so `max.poll.records` means nothing here.
    With `in_background` False, which tests want, heartbeats leave only while the consumer is polled.
    """

    def __init__(
        self, config: ConsumerConfig, client: ConsumerNetworkClient | None = None, *, in_background: bool = True
    ) -> None:
        from kcli.client.connect import connect

        self._config = config
        self._own_client = client is None
        self._client = client or connect(config)
        self.subscription = SubscriptionState()
        self._group: GroupSide | None = None
        if config.group_id is not None:
            self._group = GroupSide(self._client, self.subscription, config, in_background=in_background)
        lookup = None if self._group is None else self._group.lookup
        self._loop = FetchLoop(self._client, self.subscription, config, lookup=lookup)
        if self._group is not None:
            self._loop.parties.append(self._group)
        self._closed = False
        self._failures: dict[TopicPartition, Failure] = {}

    def __repr__(self) -> str:
        group = f" {self._group!r}" if self._group is not None else ""
        return f"<Consumer {self.subscription!r} {self._loop.fetcher!r}{group}>"

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what is read, and from where

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these. A new one begins at its group's committed offset, else as auto.offset.reset says."""
        wanted = list(partitions)
        self.subscription.assign(wanted)
        self._client.metadata.add_topics(dict.fromkeys(tp.topic for tp in wanted))

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: Callable[[list[TopicPartition]], None] | None = None,
        on_revoked: Callable[[list[TopicPartition]], None] | None = None,
        on_lost: Callable[[list[TopicPartition]], None] | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches `pattern`, as a member of the group `group.id`.

        The group is joined by `poll`, which also runs the callbacks: with the partitions that are new at the end of
        every rebalance, with those that are given up, and with those that others may have already (without `on_lost`
        that is told to `on_revoked`, as in Java). The pattern is Python's, or with group.protocol=consumer the
        broker's (RE2). Subscribing anew changes what is wanted. KcliError without a group.id.
        """
        wanted = list(topics)
        if not wanted and pattern is None:
            self.unsubscribe()
            return
        group = self._group_for("subscribe")
        if pattern is None:
            self.subscription.subscribe(wanted)
        elif self._config.group_protocol == "consumer":
            self.subscription.subscribe_server_pattern(pattern)
        else:
            self.subscription.subscribe_pattern(pattern)
        group.subscribed(on_assigned, on_revoked, on_lost)
        self._client.metadata.add_topics(wanted)

    def unsubscribe(self) -> None:
        """Read nothing; a member gives up its partitions and leaves its group first (default.api.timeout.ms)."""
        try:
            if self._group is not None:
                self._group.leave("the consumer has unsubscribed from everything", self._deadline_ms(None))
        finally:
            self.subscription.unsubscribe()

    def _group_for(self, what: str) -> GroupSide:
        if self._group is None:
            raise KcliError(f"cannot {what} without a group.id")
        return self._group

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Read on from `offset`. With the leader epoch of the record before it, a truncated log is noticed."""
        if offset < 0:
            raise ValueError(f"an offset is never negative: {offset}")
        self.subscription.seek(tp, offset, epoch)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """Read on from the log start."""
        for tp in partitions:
            self.subscription.await_reset(tp, "earliest")

    def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """Read on from the log end; under read_committed from the last stable offset."""
        for tp in partitions:
            self.subscription.await_reset(tp, "latest")

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these until they are resumed."""
        for tp in partitions:
            self.subscription.pause(tp)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        for tp in partitions:
            self.subscription.resume(tp)

    def position(self, tp: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record to be handed out; found out first if need be (default.api.timeout.ms)."""
        deadline_ms = self._deadline_ms(timeout_ms)
        while True:
            position = self.subscription.state(tp).position
            if position is not None:
                return position.offset
            now_ms = self._client.clock.now_ms()
            if now_ms >= deadline_ms:
                raise TimeoutExpired(f"no position for {tp} in time")
            self._loop.offsets.send(now_ms)
            self._client.poll(timeout_ms=min(deadline_ms, self._loop.offsets.next_ms()) - now_ms)
            self._keep(self._loop.offsets.take_failures())
            self._raise_failures()

    # --- reading

    def poll(self, timeout_ms: float) -> dict[TopicPartition, RecordColumns]:
        """Records as soon as there are some, {} when there are none in time.

        Raises what stops a partition once everything before it has been handed out, and again at each poll until the
        caller moves on: OffsetOutOfRange and NoOffset if auto.offset.reset is none, LogTruncated, RecordTooLarge,
        CorruptRecords, BrokerError (TOPIC_AUTHORIZATION_FAILED with all its topics). With another policy, a member of a
        group goes on where a truncated log still agrees with what was read; see `take_resets`.

        A member of a group joins and rejoins in here, and its callbacks run in here, before any record is handed out;
        what they raise is raised. It must come back within max.poll.interval.ms, or it loses its partitions. Raises
        besides what a group refuses for good: BrokerError (FENCED_INSTANCE_ID, GROUP_AUTHORIZATION_FAILED, ...).
        """
        deadline_ms = self._client.clock.now_ms() + timeout_ms
        while True:
            records = self._loop.poll(max(0.0, deadline_ms - self._client.clock.now_ms()))
            failures, self._loop.failures = self._loop.failures, []
            self._keep(failures)
            self.subscription.finished.clear()  # positions tell it as well
            if records:
                return dict(records)
            self._raise_failures()
            if self._client.clock.now_ms() >= deadline_ms:
                return {}

    def _keep(self, failures: Iterable[Failure]) -> None:
        policy = self._config.auto_offset_reset
        for failure in failures:
            if isinstance(failure.error, OffsetOutOfRange) and policy != "none":
                self.subscription.await_reset(failure.tp, policy, failure.offset)
            elif isinstance(failure.error, LogTruncated) and policy != "none" and self._is_subscribed():
                self._go_back(failure.tp, failure.error, policy)
            else:
                self._failures[failure.tp] = failure

    def _is_subscribed(self) -> bool:
        return self.subscription.mode in ("topics", "pattern")

    def _go_back(self, tp: TopicPartition, error: LogTruncated, policy: str) -> None:
        """As Java: to where the log and what was read part ways, or by the policy if the log knows nothing of it."""
        left, end = error.evidence["offset"], error.evidence["end_offset"]
        if end < 0:
            self.subscription.await_reset(tp, policy, left)
        else:
            self.subscription.seek(tp, end)
            self.subscription.resets[tp] = Reset(left, "truncated", end)

    def take_resets(self) -> dict[TopicPartition, Reset]:
        """Positions that were found outside the log since this was asked last, and where reading goes on instead."""
        resets, self.subscription.resets = self.subscription.resets, {}
        return resets

    def check_range(self, partitions: Iterable[TopicPartition]) -> None:
        """Treat positions beyond the log end as a fetch there would be; for partitions of which nothing is fetched."""
        from kcli.client.offset_lookup import LATEST, list_offsets

        ends = list_offsets(self._client, dict.fromkeys(partitions, LATEST), self._deadline_ms(None))
        for tp, found in ends.values.items():
            state = self.subscription.get(tp)
            if state is not None and state.position is not None and state.position.offset > found.offset:
                offset = state.position.offset
                text = f"offset {offset} of {tp} is out of range: beyond the log's end, {found.offset}"
                self._keep([Failure(tp, offset, OffsetOutOfRange(text, offset=offset))])

    def _raise_failures(self) -> None:
        failures = [failure for failure in self._failures.values() if self._still_there(failure)]
        self._failures.clear()
        refused = sorted({it.tp.topic for it in failures if _is_refused(it.error)})
        if refused:
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, api="Fetch", topics=", ".join(refused))
        lost = {str(it.tp): it.offset for it in sorted(failures) if isinstance(it.error, OffsetOutOfRange)}
        if lost:
            raise OffsetOutOfRange("the position is out of range, and auto.offset.reset is none", **lost)
        for failure in failures:
            raise failure.error

    def _still_there(self, failure: Failure) -> bool:
        state = self.subscription.get(failure.tp)
        if state is None:
            return False
        offset = -1 if state.position is None else state.position.offset
        return offset == failure.offset

    # --- the group

    @property
    def membership(self) -> Membership | None:
        """The membership in the group; None before the first `subscribe`."""
        return None if self._group is None else self._group.membership

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group now: what a transaction that commits its offsets must name."""
        return self._group_for("tell the group").metadata()

    def commit_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Store `offsets`, or all positions, with the group; returns when that is done. See `OffsetCommits`."""
        self._group_for("commit").commits.commit_sync(offsets, self._deadline_ms(timeout_ms))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, callback: Callback | None = None
    ) -> None:
        """The same without waiting; `callback(offsets, error)` runs in a later poll. See `OffsetCommits`."""
        self._group_for("commit").commits.commit_async(offsets, callback)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has stored for each partition; None: nothing. A refusal is raised."""
        from kcli.consumer.offset_fetcher import fetch_committed

        group, name = self._group_for("ask for committed offsets"), self._config.group_id or ""
        return fetch_committed(self._client, group.lookup, name, partitions, self._deadline_ms(timeout_ms))

    # --- offsets of the log

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None: there is no such record. A partition's error is raised."""
        found = self._list_offsets(times_ms, timeout_ms)
        return {tp: it if it.offset >= 0 else None for tp, it in found.items()}

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The log start of each partition."""
        from kcli.client.offset_lookup import EARLIEST

        return {tp: it.offset for tp, it in self._list_offsets(dict.fromkeys(partitions, EARLIEST), timeout_ms).items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The log end of each partition; under read_committed its last stable offset."""
        from kcli.client.offset_lookup import LATEST

        return {tp: it.offset for tp, it in self._list_offsets(dict.fromkeys(partitions, LATEST), timeout_ms).items()}

    def _list_offsets(
        self, wanted: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        from kcli.client.offset_lookup import list_offsets

        isolation = int(self._config.reads_committed)
        gathered = list_offsets(self._client, wanted, self._deadline_ms(timeout_ms), isolation)
        for error in gathered.errors.values():
            raise error
        return gathered.values

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        wait_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._client.clock.now_ms() + wait_ms

    def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> None:
        """Commit what is due, leave the group (callbacks run), stop reading; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._group is not None:
                self._group.close(self._client.clock.now_ms() + timeout_ms)
        finally:
            self._loop.close()
            if self._own_client:
                self._client.close()


def _is_refused(error: KcliError) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
