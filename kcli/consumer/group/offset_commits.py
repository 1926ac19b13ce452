"""`OffsetCommits`: how far a consumer has come, stored with its group; now, later, now and then, and at the end.

What Kafka calls consumed is what an earlier poll has handed out: the caller's positions. Commits leave in the order in
which they were asked for, over one connection, so that a later one is never overwritten by an earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import TYPE_CHECKING

from kcli.consumer.group import commit_requests
from kcli.consumer.group.commit_requests import Reaction
from kcli.consumer.group.group_membership import NO_GENERATION
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired, WakeupError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.group.group_membership import Generation, Membership
    from kcli.consumer.subscription import SubscriptionState
    from kcli.protocol.messages.offset_commit import OffsetCommitResponse
    from kcli.structs import Node


class OffsetCommits:
    """Commits of one consumer; `membership()` is None for one whose partitions were assigned by hand.

    Such a one commits without a generation, which the coordinator allows while the group has no members.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        membership: Callable[[], Membership | None],
        subscription: SubscriptionState,
        config: ConsumerConfig,
    ) -> None:
        assert config.group_id is not None, "commits need a group"
        self._client = client
        self._lookup = lookup
        self._sender = CommitSender(client, lookup, membership, subscription, config.group_id)
        self._subscription = subscription
        self._config = config
        self._group = config.group_id
        self._queue: deque[Commit] = deque()  # asynchronous ones whose callback has not run, in order
        self._automatic: Commit | None = None
        self._interval_ms = config.auto_commit_interval_ms if config.enable_auto_commit else float("inf")
        self._next_automatic_ms = client.clock.now_ms() + self._interval_ms
        self.last_error: KcliError | None = None  # why the last automatic commit was not stored; None: it was

    def __repr__(self) -> str:
        automatic = f"every {self._interval_ms / 1000:g} s" if self._config.enable_auto_commit else "by hand"
        trouble = f", last refused: {self.last_error}" if self.last_error else ""
        return f"<OffsetCommits {self._group} {automatic}, {len(self._queue)} unfinished{trouble}>"

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The caller's position in every partition that has one: what a commit without offsets stores."""
        found = {}
        for tp in self._subscription.partitions():
            position = self._subscription.state(tp).position
            if position is not None:
                found[tp] = OffsetAndMetadata(position.offset, position.epoch)
        return found

    # --- now

    def commit_sync(self, offsets: Offsets | None, deadline_ms: float) -> None:
        """Store `offsets`, by default what is consumed; returns when they are stored.

        Callbacks of earlier asynchronous commits have run then. Raises CommitFailed when the member is no longer one,
        BrokerError (REBALANCE_IN_PROGRESS: poll first; FENCED_INSTANCE_ID, GROUP_ and TOPIC_AUTHORIZATION_FAILED,
        OFFSET_METADATA_TOO_LARGE, ...), and TimeoutExpired, when they may be stored or not.
        """
        wanted = self.consumed() if offsets is None else dict(offsets)
        self._commit_until(wanted, deadline_ms)
        self._await_queue(deadline_ms)

    def _commit_until(self, wanted: Offsets, deadline_ms: float, *, revoking: bool = False) -> None:
        last: KcliError | None = None
        for attempt in count():
            if not wanted:
                return
            if attempt:
                self._client.sleep(min(self._client.retry_backoff.after(attempt), self._left_ms(deadline_ms)))
                if self._left_ms(deadline_ms) <= 0:
                    raise self._client.timed_out(self._awaited(), last=last)
            node = self._lookup.await_node(deadline_ms)
            self._send_queue(node)
            commit = Commit(wanted, None, deadline_ms)
            self._sender.send(commit, node, revoking=revoking)
            if commit.answer is not None:
                self._client.poll(until=commit.answer, timeout_ms=self._left_ms(deadline_ms))
            self._sender.judge(commit)
            self._run_callbacks()
            if not commit.settled:
                raise self._client.timed_out(self._awaited(), node, last)
            if commit.error is None:
                return
            last = commit.error
            if not self._is_worth_retrying(commit, revoking=revoking):
                raise last

    def _is_worth_retrying(self, commit: Commit, *, revoking: bool) -> bool:
        assert commit.error is not None
        if commit.reaction is None:
            return commit.error.retriable
        if revoking and _code(commit.error) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False  # it was deleted, and a rebalance must not wait for that
        if commit.reaction is not Reaction.STALE:
            return commit.reaction in (Reaction.RETRY, Reaction.FIND)
        if not self._sender.generation().member_id:
            return False
        # A heartbeat has overtaken the commit: under the new epoch the partitions are still ours.
        moved_on = self._sender.generation() != commit.generation
        return revoking or (moved_on and all(self._subscription.get(tp) is not None for tp in commit.offsets))

    def _left_ms(self, deadline_ms: float) -> float:
        return max(0.0, deadline_ms - self._client.clock.now_ms())

    def _awaited(self) -> str:
        return f"the commit of group {self._group}"

    # --- later

    def commit_async(self, offsets: Offsets | None, callback: Callback | None = None) -> None:
        """Store `offsets`, by default what is consumed, while the caller goes on; nothing is tried twice.

        `callback(offsets, error)` runs in the caller's thread, in a later poll, commit or close, in the order of the
        commits. An error that is `retriable` is one where the next commit may be luckier.
        """
        wanted = self.consumed() if offsets is None else dict(offsets)
        give_up_ms = self._client.clock.now_ms() + self._config.request_timeout_ms
        commit = Commit(wanted, callback, give_up_ms)
        commit.settled = not wanted
        self._queue.append(commit)
        self._go_on(self._client.clock.now_ms())

    def poll(self, now_ms: float) -> None:
        """Send what waits for a coordinator, run callbacks of what is over, commit automatically if that is due.

        To be called where everything handed out counts as consumed: at the start of the caller's poll.
        """
        self._go_on(now_ms)
        self._run_callbacks()
        self._commit_automatically(now_ms)

    def next_ms(self) -> float:
        """When `poll` has something to do though nothing arrives."""
        automatic_ms = self._next_automatic_ms if self._automatic is None else float("inf")
        return min(self._queue_next_ms(), automatic_ms)

    def _queue_next_ms(self) -> float:
        waiting = [commit.give_up_ms for commit in self._queue if commit.waits]
        return min(self._lookup.next_ms(), *waiting) if waiting else float("inf")

    def _go_on(self, now_ms: float) -> None:
        if any(commit.waits for commit in self._queue):
            try:
                node = self._lookup.find(now_ms)
            except KcliError as error:
                self._give_up(error)
            else:
                if node is not None:
                    self._send_queue(node)
                self._give_up_late(now_ms)
        for commit in self._queue:
            self._sender.judge(commit)

    def _give_up(self, error: KcliError) -> None:
        for commit in self._queue:
            if commit.waits:
                commit.settle(error)

    def _give_up_late(self, now_ms: float) -> None:
        for commit in self._queue:
            if commit.waits and now_ms >= commit.give_up_ms:
                commit.settle(self._lookup.timed_out())

    def _send_queue(self, node: Node) -> None:
        for commit in self._queue:
            if commit.waits:
                self._sender.send(commit, node)

    def _run_callbacks(self) -> None:
        for commit in self._queue:
            self._sender.judge(commit)
        while self._queue and self._queue[0].settled:
            commit = self._queue.popleft()
            if commit.callback is not None:
                commit.callback(commit.offsets, commit.error)

    def _await_queue(self, deadline_ms: float) -> None:
        """Until all asynchronous commits are over and their callbacks have run, or it is too late."""
        while True:
            now_ms = self._client.clock.now_ms()
            self._go_on(now_ms)
            self._run_callbacks()
            if not self._queue or now_ms >= deadline_ms:
                return
            self._client.poll(timeout_ms=max(0.0, min(deadline_ms, self._queue_next_ms()) - now_ms))

    # --- now and then, and at the end

    def _commit_automatically(self, now_ms: float) -> None:
        if now_ms < self._next_automatic_ms or self._automatic is not None:
            return
        self._next_automatic_ms = now_ms + self._interval_ms
        offsets = self.consumed()
        if offsets and self._sender.may_commit():
            self.commit_async(offsets, self._committed_automatically)
            self._automatic = self._queue[-1] if self._queue else None

    def _committed_automatically(self, _offsets: Offsets, error: KcliError | None) -> None:
        self._automatic, self.last_error = None, error
        if error is not None and error.retriable:
            retry_ms = self._client.clock.now_ms() + self._client.retry_backoff.after(1)
            self._next_automatic_ms = min(self._next_automatic_ms, retry_ms)

    def before_revocation(self, partitions: Collection[TopicPartition], deadline_ms: float) -> None:
        """Partitions are about to go: with automatic commits, store what is consumed. A failure is `last_error`."""
        if self._config.enable_auto_commit:
            self._commit_consumed(deadline_ms)

    def close(self, deadline_ms: float) -> None:
        """With automatic commits, store what is consumed; then see the others to their end, or tell their callbacks."""
        if self._config.enable_auto_commit and self._sender.may_commit():
            self._commit_consumed(deadline_ms)
        self._await_queue(deadline_ms)
        for commit in self._queue:
            if not commit.settled:
                commit.settle(TimeoutExpired(f"{self._awaited()} was not answered before the consumer was closed"))
        self._run_callbacks()

    def _commit_consumed(self, deadline_ms: float) -> None:
        try:
            self._commit_until(self.consumed(), deadline_ms, revoking=True)
            self.last_error = None
        except WakeupError:
            raise
        except KcliError as error:
            self.last_error = error


def _code(error: KcliError) -> ErrorCode | None:
    return error.code if isinstance(error, BrokerError) else None


Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, "KcliError | None"], None]

_OF_THE_MEMBERSHIP = (Reaction.REBALANCING, Reaction.STALE, Reaction.GONE, Reaction.FENCED)


class Commit:
    """One request to be: its offsets, when to give up sending it, and, once it is sent, where, for whom, its answer."""

    __slots__ = ("answer", "callback", "error", "generation", "give_up_ms", "node", "offsets", "reaction", "settled")

    def __init__(self, offsets: Offsets, callback: Callback | None, give_up_ms: float) -> None:
        self.offsets = offsets
        self.callback = callback
        self.give_up_ms = give_up_ms
        self.answer: RequestFuture[OffsetCommitResponse] | None = None
        self.generation: Generation | None = None
        self.node: Node | None = None
        self.settled = False
        self.error: KcliError | None = None
        self.reaction: Reaction | None = None  # None: nobody has answered

    @property
    def waits(self) -> bool:
        """Not sent yet."""
        return self.answer is None and not self.settled

    def settle(self, error: KcliError | None = None) -> None:
        """It is over."""
        self.settled, self.error = True, error


class CommitSender:
    """Signs and sends commits of one consumer, and judges what is answered."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        membership: Callable[[], Membership | None],
        subscription: SubscriptionState,
        group: str,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._membership = membership
        self._subscription = subscription
        self._group = group

    def _member(self) -> Membership | None:
        return None if self._subscription.mode == "assigned" else self._membership()

    def generation(self) -> Generation:
        """What a commit sent now is signed with."""
        member = self._member()
        return NO_GENERATION if member is None else member.generation

    def may_commit(self) -> bool:
        """A commit would not be refused before it is sent."""
        member = self._member()
        return member is None or (member.generation.member_id != "" and member.is_stable())

    def send(self, commit: Commit, node: Node, *, revoking: bool = False) -> None:
        """Send it, or settle it at once when there is nobody to send it for."""
        member, generation = self._member(), self.generation()
        if member is not None and not generation.member_id:
            commit.settle(commit_requests.not_a_member(self._group))
        elif member is not None and not revoking and not member.is_stable():
            # An answer to JoinGroup may bring the next generation at any moment: under that one, what is committed now
            # could be of partitions that belong to others.
            commit.settle(commit_requests.rebalancing(self._group))
        else:
            instance_id = None if member is None else member.instance_id
            request = commit_requests.commit_request(self._group, commit.offsets, generation, instance_id)
            commit.generation, commit.node = generation, node
            commit.answer = self._client.send(node, request, max_version=commit_requests.NEWEST_VERSION)

    def judge(self, commit: Commit) -> None:
        """Judge an answer, if there is one that was not judged yet."""
        if commit.settled or commit.answer is None or not commit.answer.done:
            return
        error = commit.answer.error
        if error is not None:
            commit.settle(error)
            if error.retriable:
                self._lookup.lost(str(error), commit.node)
            return
        refusal = commit_requests.read_refusal(commit.offsets, commit.answer.value())
        commit.settle(None if refusal is None else self._refused(commit, refusal))

    def _refused(self, commit: Commit, refusal: commit_requests.Refusal) -> KcliError:
        assert commit.generation is not None
        commit.reaction = refusal.reaction
        if refusal.reaction is Reaction.FIND:
            self._lookup.lost(f"OffsetCommit was answered with {refusal.code.name}", commit.node)
        member = self._member()
        is_member = member is not None and commit.generation.member_id != ""
        has_moved_on = member is not None and member.generation != commit.generation and not member.is_stable()
        error = commit_requests.error_of(refusal, self._group, is_member=is_member, has_moved_on=has_moved_on)
        if member is not None and refusal.reaction in _OF_THE_MEMBERSHIP:
            member.commit_refused(refusal.code, commit.generation)
        return error
