"""`OffsetCommits`: commit the positions of a consumer: synchronously, asynchronously, automatically, and at the end.

The committed positions are the consumed positions: all records before them were returned by earlier polls. Commits are
sent in the order of their requests, over one connection, so that an earlier commit never replaces a later one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import TYPE_CHECKING

from kcli import logs
from kcli.client.offset_commit import LAST_VERSION_WITH_NAMES, name_topics
from kcli.consumer.group import commit_requests
from kcli.consumer.group.commit_requests import Reaction
from kcli.consumer.group.group_membership import NO_GENERATION
from kcli.consumer.retry_backoff import LASTING
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired, WakeupError
from kcli.logs import RepeatedWarnings
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.group.group_membership import Generation, Membership
    from kcli.consumer.subscription import SubscriptionState
    from kcli.protocol.messages.offset_commit import OffsetCommitResponse
    from kcli.structs import Node


class OffsetCommits:
    """The commits of one consumer; `membership()` is None for a consumer that assigns its own partitions.

    Such a consumer commits without a generation, which the coordinator accepts while the group has no members.
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
        self._queue: deque[Commit] = deque()  # asynchronous commits whose callback has not run, in order
        self._automatic: Commit | None = None
        self._automatic_failures = 0
        self._warnings = RepeatedWarnings("kcli.consumer")
        self._interval_ms = config.auto_commit_interval_ms if config.enable_auto_commit else float("inf")
        self._next_automatic_ms = client.clock.now_ms() + self._interval_ms
        #: Called with the offsets of each commit that is stored.
        self.on_commit: Callable[[Offsets], object] | None = None
        self.last_error: KcliError | None = None  # of the last automatic commit; None: it was stored

    def __repr__(self) -> str:
        automatic = f"every {self._interval_ms / 1000:g} s" if self._config.enable_auto_commit else "by hand"
        problem = f", last refused: {self.last_error}" if self.last_error else ""
        return f"<OffsetCommits {self._group} {automatic}, {len(self._queue)} unfinished{problem}>"

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the consumed position of every partition that has one: the default offsets of a commit.

        A position in a topic that was deleted is left out, if another topic has its name now.
        """
        positions = {}
        for tp in self._subscription.partitions():
            position = self._subscription.consumed_position(tp)
            if position is not None and not self._sender.was_recreated(tp):
                positions[tp] = OffsetAndMetadata(position.offset, position.epoch)
        return positions

    # --- synchronous

    def commit_sync(self, offsets: Offsets | None, deadline_ms: float) -> None:
        """Commit `offsets`, by default the consumed positions, and wait until they are stored.

        The callbacks of earlier asynchronous commits have run then. Raise CommitFailed when the generation has ended,
        BrokerError (REBALANCE_IN_PROGRESS: poll first; FENCED_INSTANCE_ID, GROUP_ and TOPIC_AUTHORIZATION_FAILED,
        OFFSET_METADATA_TOO_LARGE, ...), and TimeoutExpired, after which the offsets may or may not be stored.
        """
        requested = self.consumed() if offsets is None else dict(offsets)
        self._commit_until(requested, deadline_ms)
        self._await_queue(deadline_ms)

    def _commit_until(self, requested: Offsets, deadline_ms: float, *, revoking: bool = False) -> None:
        last: KcliError | None = None
        for attempt in count():
            if not requested:
                return
            if attempt:
                self._client.sleep(min(self._client.retry_backoff.after(attempt), self._left_ms(deadline_ms)))
                if self._left_ms(deadline_ms) <= 0:
                    raise self._client.timed_out(self._awaited(), last=last)
            node = self._lookup.await_node(deadline_ms)
            self._send_queue(node)
            commit = Commit(requested, None, deadline_ms)
            self._sender.send(commit, node, revoking=revoking)
            if commit.answer is not None:
                self._client.poll(until=commit.answer, timeout_ms=self._left_ms(deadline_ms))
            self._sender.judge(commit)
            self._run_callbacks()
            if not commit.settled:
                raise self._client.timed_out(self._awaited(), node, last)
            if commit.error is None:
                self._call_on_commit(commit)
                return
            last = commit.error
            if not self._is_worth_retrying(commit, revoking=revoking):
                raise last

    def _is_worth_retrying(self, commit: Commit, *, revoking: bool) -> bool:
        assert commit.error is not None
        if commit.reaction is None:
            return commit.error.retriable
        if _code(commit.error) in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID) and (
            revoking or any(map(self._sender.was_recreated, commit.offsets))
        ):
            return False  # the topic was deleted, and a rebalance must not wait for it
        if commit.reaction is not Reaction.STALE:
            return commit.reaction in (Reaction.RETRY, Reaction.FIND)
        if not self._sender.generation().member_id:
            return False
        # A heartbeat response has overtaken the commit: the member still owns the partitions, under a new epoch.
        moved_on = self._sender.generation() != commit.generation
        return revoking or (moved_on and all(self._subscription.get(tp) is not None for tp in commit.offsets))

    def _left_ms(self, deadline_ms: float) -> float:
        return max(0.0, deadline_ms - self._client.clock.now_ms())

    def _awaited(self) -> str:
        return f"the commit of group {self._group}"

    # --- asynchronous

    def commit_async(self, offsets: Offsets | None, callback: Callback | None = None) -> None:
        """Commit `offsets`, by default the consumed positions, without waiting and without retries.

        `callback(offsets, error)` runs in the caller's thread, in a later poll, commit or close, in the order of the
        commits. After an error that is `retriable` a later commit may succeed.
        """
        requested = self.consumed() if offsets is None else dict(offsets)
        deadline_ms = self._client.clock.now_ms() + self._config.request_timeout_ms
        commit = Commit(requested, callback, deadline_ms)
        commit.settled = not requested
        self._queue.append(commit)
        self._advance(self._client.clock.now_ms())

    def poll(self, now_ms: float) -> None:
        """Send waiting commits, run callbacks of finished ones, and commit automatically if it is due.

        Call it where all returned records count as consumed: at the start of the caller's poll.
        """
        self._advance(now_ms)
        self._run_callbacks()
        self._commit_automatically(now_ms)

    def next_ms(self) -> float:
        """Return the time at which `poll` has something to do."""
        automatic_ms = self._next_automatic_ms if self._automatic is None else float("inf")
        return min(self._queue_next_ms(), automatic_ms)

    def _queue_next_ms(self) -> float:
        waiting = [commit.deadline_ms for commit in self._queue if commit.is_unsent]
        return min(self._lookup.next_ms(), *waiting) if waiting else float("inf")

    def _advance(self, now_ms: float) -> None:
        if any(commit.is_unsent for commit in self._queue):
            try:
                node = self._lookup.find(now_ms)
            except KcliError as error:
                self._fail_unsent(error)
            else:
                if node is not None:
                    self._send_queue(node)
                self._fail_overdue(now_ms)
        for commit in self._queue:
            self._sender.judge(commit)

    def _fail_unsent(self, error: KcliError) -> None:
        for commit in self._queue:
            if commit.is_unsent:
                commit.settle(error)

    def _fail_overdue(self, now_ms: float) -> None:
        for commit in self._queue:
            if commit.is_unsent and now_ms >= commit.deadline_ms:
                commit.settle(self._lookup.timed_out())

    def _send_queue(self, node: Node) -> None:
        for commit in self._queue:
            if commit.is_unsent:
                self._sender.send(commit, node)

    def _run_callbacks(self) -> None:
        for commit in self._queue:
            self._sender.judge(commit)
        while self._queue and self._queue[0].settled:
            commit = self._queue.popleft()
            if commit.error is None and commit.offsets:
                self._call_on_commit(commit)
            if commit.callback is not None:
                commit.callback(commit.offsets, commit.error)
            elif commit.error is not None:
                self._log_failure("asynchronous", commit.error)

    def _call_on_commit(self, commit: Commit) -> None:
        if self.on_commit is not None:
            try:
                self.on_commit(commit.offsets)
            except Exception:
                logs.warning("kcli.consumer", "on_commit has failed; its exception is ignored", with_traceback=True)

    def _log_failure(self, kind: str, error: KcliError) -> None:
        logs.warning("kcli.consumer", "%s commit of group %s failed: %s", kind, self._group, error)

    def _await_queue(self, deadline_ms: float) -> None:
        """Wait until all asynchronous commits are finished and their callbacks have run, or until the deadline."""
        while True:
            now_ms = self._client.clock.now_ms()
            self._advance(now_ms)
            self._run_callbacks()
            if not self._queue or now_ms >= deadline_ms:
                return
            self._client.poll(timeout_ms=max(0.0, min(deadline_ms, self._queue_next_ms()) - now_ms))

    # --- synchronous and then, and at the end

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
        now_ms, group = self._client.clock.now_ms(), self._group
        self._automatic_failures = 0 if error is None else self._automatic_failures + 1
        if error is None:
            self._warnings.ended(now_ms, f"automatic commits of group {group} are stored again", "automatic")
        elif not error.retriable:
            self._log_failure("automatic", error)
        else:
            self._next_automatic_ms = min(self._next_automatic_ms, now_ms + self._client.retry_backoff.after(1))
            if self._automatic_failures >= LASTING:
                self._warnings.warn("automatic", now_ms, f"automatic commits of group {group} fail: {error}")

    def before_revocation(self, partitions: Collection[TopicPartition], deadline_ms: float) -> None:
        """With automatic commits, commit the consumed positions before partitions are revoked.

        An error is in `last_error`.
        """
        if self._config.enable_auto_commit:
            self._commit_consumed(deadline_ms)

    def close(self, deadline_ms: float) -> None:
        """With automatic commits, commit the consumed positions.

        Then wait for the other commits, and run their callbacks.
        """
        if self._config.enable_auto_commit and self._sender.may_commit():
            self._commit_consumed(deadline_ms)
        self._await_queue(deadline_ms)
        for commit in self._queue:
            if not commit.settled:
                commit.settle(TimeoutExpired(f"{self._awaited()} was not answered before the consumer closed"))
        self._run_callbacks()

    def _commit_consumed(self, deadline_ms: float) -> None:
        try:
            self._commit_until(self.consumed(), deadline_ms, revoking=True)
            self.last_error = None
        except WakeupError:
            raise
        except KcliError as error:
            self.last_error = error
            self._log_failure("automatic", error)


def _code(error: KcliError) -> ErrorCode | None:
    return error.code if isinstance(error, BrokerError) else None


Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, "KcliError | None"], None]

_MEMBERSHIP_REACTIONS = (Reaction.REBALANCING, Reaction.STALE, Reaction.GONE, Reaction.FENCED)


class Commit:
    """One commit: its offsets and its deadline, and once it is sent its node, generation, topic ids and response."""

    __slots__ = (
        "answer",
        "callback",
        "deadline_ms",
        "error",
        "generation",
        "node",
        "offsets",
        "reaction",
        "settled",
        "topic_ids",
    )

    def __init__(self, offsets: Offsets, callback: Callback | None, deadline_ms: float) -> None:
        self.offsets = offsets
        self.callback = callback
        self.deadline_ms = deadline_ms
        self.answer: RequestFuture[OffsetCommitResponse] | None = None
        self.generation: Generation | None = None
        self.node: Node | None = None
        self.settled = False
        self.error: KcliError | None = None
        self.reaction: Reaction | None = None  # None: no response
        self.topic_ids: dict[str, UUID] = {}

    @property
    def is_unsent(self) -> bool:
        """True if it waits to be sent."""
        return self.answer is None and not self.settled

    def settle(self, error: KcliError | None = None) -> None:
        """Finish it."""
        self.settled, self.error = True, error


class CommitSender:
    """Adds the generation to commits, sends them, and evaluates the responses.

    Responses are evaluated in the caller's thread only, whichever thread drives the network, because they may change
    the membership.
    """

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
        """Return the generation of a commit that is sent now."""
        member = self._member()
        return NO_GENERATION if member is None else member.generation

    def may_commit(self) -> bool:
        """True if a commit can be sent now."""
        member = self._member()
        return member is None or (member.generation.member_id != "" and member.is_stable())

    def send(self, commit: Commit, node: Node, *, revoking: bool = False) -> None:
        """Send it, or finish it at once with an error if the member must not commit now."""
        member, generation = self._member(), self.generation()
        if member is not None and not generation.member_id:
            commit.settle(commit_requests.not_a_member(self._group))
        elif member is not None and not revoking and not member.is_stable():
            # The next generation may begin at any moment; in it the partitions may belong to other members.
            commit.settle(commit_requests.rebalancing(self._group))
        else:
            instance_id = None if member is None else member.instance_id
            ids = commit.topic_ids = self._topic_ids(commit.offsets)
            request = commit_requests.commit_request(self._group, commit.offsets, generation, instance_id, ids)
            commit.generation, commit.node = generation, node
            commit.answer = self._client.send(node, request, max_version=None if ids else LAST_VERSION_WITH_NAMES)

    def was_recreated(self, tp: TopicPartition) -> bool:
        """True if the position belongs to a topic that was deleted, and another topic has its name now."""
        state = self._subscription.get(tp)
        return state is not None and not state.belongs_to(self._client.metadata.topic_id(tp.topic))

    def _topic_ids(self, offsets: Offsets) -> dict[str, UUID]:
        """Return the ids of the topics that the offsets belong to; {} if one is unknown."""
        ids: dict[str, UUID] = {}
        for tp in offsets:
            state = self._subscription.get(tp)
            topic_id = (state and state.topic_id) or self._client.metadata.topic_id(tp.topic)
            if topic_id is None:
                return {}
            ids[tp.topic] = topic_id
        return ids

    def judge(self, commit: Commit) -> None:
        """Evaluate a response that was not evaluated yet."""
        if commit.settled or commit.answer is None or not commit.answer.done:
            return
        error = commit.answer.error
        if error is not None:
            commit.settle(error)
            if error.retriable:
                self._lookup.mark_unknown(str(error), commit.node)
            return
        response = commit.answer.value()
        name_topics(response, commit.topic_ids)
        refusal = commit_requests.read_refusal(commit.offsets, response)
        commit.settle(None if refusal is None else self._refused(commit, refusal))

    def _refused(self, commit: Commit, refusal: commit_requests.Refusal) -> KcliError:
        assert commit.generation is not None
        commit.reaction = refusal.reaction
        if refusal.code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._client.metadata.request_update()
        if refusal.reaction is Reaction.FIND:
            self._lookup.mark_unknown(f"OffsetCommit failed with {refusal.code.name}", commit.node)
        member = self._member()
        is_member = member is not None and commit.generation.member_id != ""
        has_moved_on = member is not None and member.generation != commit.generation and not member.is_stable()
        error = commit_requests.error_of(refusal, self._group, is_member=is_member, has_moved_on=has_moved_on)
        if member is not None and refusal.reaction in _MEMBERSHIP_REACTIONS:
            member.commit_refused(refusal.code, commit.generation)
        return error
