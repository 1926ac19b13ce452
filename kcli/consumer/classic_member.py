"""`ClassicMember`: one member's rounds in a classic group: join, sync, heartbeats, leaving. Calls nobody back.

Everything that must go on while the application is busy is in `beat`, which its thread and the heartbeat thread both
call: it takes answers and sends what follows from them. The application's thread alone begins rounds (`join`) and takes
their outcome (`take_assignment`). States: see `group_state`; errors: see `group_errors`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.consumer import join_requests as requests
from kcli.consumer import leader_assignment
from kcli.consumer.group_errors import Reaction, reaction_to
from kcli.consumer.group_state import HEARTBEATING, Event, State, next_state
from kcli.consumer.heartbeat import Heartbeat
from kcli.consumer.heartbeat_thread import Beat
from kcli.consumer.join_requests import Wish
from kcli.consumer.leader_assignment import Joined, Snapshot
from kcli.consumer.membership import NO_GENERATION, Generation
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE
from kcli.protocol.registry import ApiKey
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.assignors.strategies import Strategy
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.messages.heartbeat import HeartbeatResponse
    from kcli.protocol.messages.join_group import JoinGroupResponse
    from kcli.protocol.messages.sync_group import SyncGroupResponse

_NEVER = float("inf")
# An answer to JoinGroup may take as long as the slowest member's rebalance time-out, and a little.
_JOIN_GRACE_MS = 5_000


class Leading(NamedTuple):
    """We lead this generation, and await news of the topics (`ticket`) to share them out, if we are to (KIP-814)."""

    members: list[Joined]
    ticket: int
    shares_out: bool


class ClassicMember:
    """See the module. `rejoin_reason` is None while there is no need to join (again)."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        config: ConsumerConfig,
        strategies: Sequence[Strategy],
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._config = config
        self._strategies = strategies
        self._lock = threading.RLock()
        self.state: State = "unjoined"
        self.generation = NO_GENERATION
        self.rejoin_reason: str | None = "the member has not joined yet"
        self.heartbeat = Heartbeat(config, client.clock.now_ms())
        self.assignment: bytes | None = None  # of the current generation, until it is taken
        self.group_topics: frozenset[str] = frozenset()  # those of all members, while we lead
        self.snapshot: Snapshot | None = None  # what was shared out, while we lead
        self._leading: Leading | None = None
        self._awaited: RequestFuture[Any] | None = None  # join, sync, or farewell
        self._heartbeat_sent: RequestFuture[HeartbeatResponse] | None = None
        self._known_node: Node | None = None
        self._error: KcliError | None = None
        self._is_fenced = False
        self._failures = 0
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._not_before_ms = 0.0

    def __repr__(self) -> str:
        who, leads = self.generation, ", leads" if self.snapshot is not None else ""
        return f"<ClassicMember {who.member_id or 'without id'} generation={who.id} {self.state}{leads}>"

    def _happened(self, event: Event) -> None:
        self.state = next_state(self.state, event)

    # --- what the application's thread does

    def polled(self, now_ms: float) -> None:
        """The application is at work."""
        with self._lock:
            self.heartbeat.polled(now_ms)

    def raise_error(self) -> None:
        """Raise what nobody but the caller can help; FENCED_INSTANCE_ID again and again."""
        error = self._error
        if error is not None:
            self._error = error if self._is_fenced else None
            raise error

    def wants_to_join(self, now_ms: float) -> bool:
        """A round is to begin, and may: none is under way, and the backoff after the last failure is over."""
        may = self.state in ("unjoined", "stable") and self.assignment is None and now_ms >= self._not_before_ms
        return may and self.rejoin_reason is not None

    def join(self, wish: Wish, now_ms: float) -> None:
        """Begin a round; there must be a coordinator."""
        with self._lock:
            node = self._lookup.node
            if node is None or not self.wants_to_join(now_ms):
                return
            request = requests.join_request(
                self._config, self._strategies, self.generation, wish, self.rejoin_reason or ""
            )
            self._happened("join sent")
            self.snapshot, self.group_topics = None, frozenset()
            config = self._config
            lowest = requests.JOIN_WITH_INSTANCE if config.group_instance_id else None
            timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + _JOIN_GRACE_MS)
            future = self._client.send(node, request, timeout_ms=timeout_ms, min_version=lowest)
            self._await(future, partial(self._joined, node))

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as may be. The first reason is the one that brokers are told."""
        with self._lock:
            if self.rejoin_reason is None:
                self.rejoin_reason = reason

    def take_assignment(self) -> bytes | None:
        """The assignment of a round that has just ended well, once."""
        with self._lock:
            found, self.assignment = self.assignment, None
            return found

    def forget(self, reason: str, *, keep_id: bool) -> None:
        """The generation is gone, and the member with it unless `keep_id`."""
        with self._lock:
            self._happened("reset")
            self.generation = Generation(member_id=self.generation.member_id) if keep_id else NO_GENERATION
            self._end_round(reason)
            self._not_before_ms = 0.0

    def _end_round(self, reason: str) -> None:
        self.rejoin_reason = reason
        self.assignment = self._awaited = self._leading = self.snapshot = None
        self.group_topics = frozenset()
        self._heartbeat_sent = None

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """A commit for `generation` was refused."""
        with self._lock:
            self._react(ApiKey.OFFSET_COMMIT, code, generation)

    def leave(self, reason: str) -> RequestFuture[Any] | None:
        """Forget everything, and say so to the coordinator; the farewell, if one was sent.

        A static member says nothing: it is expected back before its session ends (KIP-345).
        """
        with self._lock:
            node, member_id = self._lookup.node, self.generation.member_id
            sent = None
            if node is not None and member_id and not self._config.group_instance_id and self.state != "unjoined":
                highest = (self._client.negotiated(node.id) or {}).get(ApiKey.LEAVE_GROUP, (0, 5))[1]
                sent = self._client.send(node, requests.leave_request(self._config, member_id, reason, highest))
            self.forget("the member had left", keep_id=False)
            self._awaited = sent
            return sent

    # --- what goes on by itself

    def beat(self, now_ms: float) -> Beat:
        """Send what is due; when to call again. Any thread may."""
        with self._lock:
            if self._awaited is not None and self._awaited.done:
                self._awaited = None
            if self.state not in HEARTBEATING:
                return Beat(_NEVER, self._awaited)
            if self.heartbeat.poll_is_overdue(now_ms):
                seconds = self._config.max_poll_interval_ms / 1000
                return Beat(_NEVER, self.leave(f"the application did not poll for {seconds:g} s"))
            if not self._has_coordinator(now_ms):
                return Beat(min(self.heartbeat.poll_ends_ms, self._lookup.next_ms()), self._lookup.ask(now_ms))
            if self.heartbeat.session_is_over(now_ms):
                self._lookup.lost("no heartbeat was answered while a session lasts", self._known_node)
                return Beat(now_ms)
            if self._leading is not None:
                self._lead(self._leading, now_ms)
            self._send_heartbeat(now_ms)
            if self._leading is not None:
                return Beat(self.heartbeat.next_ms(), RequestFuture("metadata"))
            return Beat(self._next_ms(), self._awaited or self._heartbeat_sent)

    def _next_ms(self) -> float:
        heartbeat = self.heartbeat
        if self._heartbeat_sent is not None:
            return min(heartbeat.session_ends_ms, heartbeat.poll_ends_ms)
        return heartbeat.next_ms()

    def next_ms(self, now_ms: float) -> float:
        """When the application's thread has something to do though nothing arrives."""
        # A poll that lasts long is work, too: it has to come by here in time.
        at_work_ms = now_ms + self._config.max_poll_interval_ms / 2
        if self.assignment is not None or self._error is not None:
            return now_ms
        if self._lookup.node is None:
            return min(self._lookup.next_ms(), at_work_ms)
        if self.state in HEARTBEATING and self.rejoin_reason is None:
            return min(self._next_ms(), at_work_ms)
        if self.state in ("unjoined", "stable"):
            return min(max(self._not_before_ms, now_ms), at_work_ms)
        return at_work_ms

    def _has_coordinator(self, now_ms: float) -> bool:
        node = self._lookup.node
        if node is not None and node != self._known_node:
            self.heartbeat.found(now_ms)
        self._known_node = node
        return node is not None

    def _send_heartbeat(self, now_ms: float) -> None:
        node = self._lookup.node
        if node is None or self._heartbeat_sent is not None or not self.heartbeat.is_due(now_ms):
            return
        self.heartbeat.sent(now_ms)
        lowest = requests.HEARTBEAT_WITH_INSTANCE if self._config.group_instance_id else None
        request = requests.heartbeat_request(self._config, self.generation)
        self._heartbeat_sent = self._client.send(node, request, min_version=lowest)
        self._heartbeat_sent.on_done(partial(self._heartbeat_answered, node, self.generation))

    def _heartbeat_answered(self, node: Node, generation: Generation, done: RequestFuture[HeartbeatResponse]) -> None:
        with self._lock:
            if self._heartbeat_sent is done:
                self._heartbeat_sent = None
            now_ms = self._client.clock.now_ms()
            if done.error is not None:
                self.heartbeat.failed(now_ms)
                self._unanswered(node, done.error)
                return
            code = ErrorCode.of(done.value().error_code)
            reaction = self._react(ApiKey.HEARTBEAT, code, generation)
            if reaction in (Reaction.GO_ON, Reaction.REJOIN):
                self.heartbeat.answered(now_ms)
            else:
                self.heartbeat.failed(now_ms)

    def _unanswered(self, node: Node, error: KcliError) -> None:
        """A request came to nothing on the way."""
        if error.retriable:
            self._lookup.lost(str(error), node)
        else:
            self._error = error

    # --- the round

    def _await(self, future: RequestFuture[Any], handle: Callable[[Any], None]) -> None:
        """`handle` the answer, unless the round is over by then."""
        self._awaited = future

        def answered(done: RequestFuture[Any]) -> None:
            with self._lock:
                if self._awaited is done:
                    self._awaited = None
                    handle(done)

        future.on_done(answered)

    def _joined(self, node: Node, done: RequestFuture[JoinGroupResponse]) -> None:
        if done.error is not None:
            self._unanswered(node, done.error)
            self._fail_round(f"JoinGroup failed: {done.error.message}", backs_off=True)
            return
        answer = done.value()
        code = ErrorCode.of(answer.error_code)
        if not code and answer.protocol_type not in (None, "", PROTOCOL_TYPE):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code:
            if reaction_to(ApiKey.JOIN_GROUP, code) is Reaction.TAKE_ID:
                self.generation = Generation(member_id=answer.member_id)
            self._refused(ApiKey.JOIN_GROUP, code)
            return
        self._happened("joined")
        self.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
        self.heartbeat.begin(self._client.clock.now_ms())
        self._known_node = node
        if answer.leader == answer.member_id:
            self._begin_to_lead(answer)
        else:
            self._sync({})

    def _begin_to_lead(self, answer: JoinGroupResponse) -> None:
        """The topics of all members are to be known, and known as they are now."""
        try:
            members = leader_assignment.read_members(answer.members)
        except KcliError as error:
            self._error = error
            self._fail_round("the leader could not read the subscriptions", backs_off=True)
            return
        self.group_topics = leader_assignment.topics_of(members)
        self._client.metadata.add_topics(sorted(self.group_topics))
        ticket = self._client.metadata.request_update(at_once=True)
        self._leading = Leading(members, ticket, not answer.skip_assignment)

    def _lead(self, leading: Leading, now_ms: float) -> None:
        metadata = self._client.metadata
        if not metadata.is_answered(leading.ticket):
            return
        self._leading = None
        cluster, with_racks = metadata.cluster, bool(self._config.client_rack)
        self.snapshot = leader_assignment.snapshot_of(cluster, self.group_topics, {}, with_racks=with_racks)
        shares: dict[str, bytes] = {}
        if leading.shares_out:
            try:
                facts = leader_assignment.topic_facts(cluster, self.group_topics)
                shares = leader_assignment.share_out(self._strategy(), leading.members, facts)
            except KcliError as error:
                self._error = error
                self._fail_round("the leader could not share out the partitions", backs_off=True)
                return
        self._sync(shares)

    def _strategy(self) -> Strategy:
        for strategy in self._strategies:
            if strategy.name == self.generation.protocol:
                return strategy
        text = f"the group chose the assignor {self.generation.protocol!r}, which this member does not know"
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text, group=self._config.group_id)

    def _sync(self, shares: Mapping[str, bytes]) -> None:
        node = self._lookup.node
        if node is None:
            self._fail_round("the coordinator was lost before SyncGroup", backs_off=True)
            return
        lowest = requests.SYNC_WITH_INSTANCE if self._config.group_instance_id else None
        request = requests.sync_request(self._config, self.generation, shares)
        self._await(self._client.send(node, request, min_version=lowest), partial(self._synced, node))

    def _synced(self, node: Node, done: RequestFuture[SyncGroupResponse]) -> None:
        if done.error is not None:
            self._unanswered(node, done.error)
            self._fail_round(f"SyncGroup failed: {done.error.message}", backs_off=True)
            return
        answer = done.value()
        code = ErrorCode.of(answer.error_code)
        strange = answer.protocol_type not in (None, "", PROTOCOL_TYPE) or (
            answer.protocol_name not in (None, "", self.generation.protocol)
        )
        if not code and strange:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code:
            self._refused(ApiKey.SYNC_GROUP, code)
            return
        self._happened("synced")
        self.rejoin_reason, self.assignment = None, bytes(answer.assignment)
        self._failures, self._not_before_ms = 0, 0.0

    # --- refusals

    def _refused(self, api: ApiKey, code: ErrorCode) -> None:
        """The round is over."""
        reaction = self._react(api, code, self.generation)
        if self.state != "unjoined":
            backs_off = reaction in (Reaction.RETRY, Reaction.FIND, Reaction.RAISE)
            self._fail_round(f"{_NAMES[api]} was answered with {code.name}", backs_off=backs_off)

    def _fail_round(self, reason: str, *, backs_off: bool) -> None:
        if self.state in ("preparing", "completing"):
            self._happened("failed")
        self._end_round(reason)
        if backs_off:
            self._failures += 1
            self._not_before_ms = self._client.clock.now_ms() + self._backoff.after(self._failures)

    def _react(self, api: ApiKey, code: ErrorCode, generation: Generation) -> Reaction:
        """Do what an answer for `generation` means for the membership; the round is the caller's."""
        reaction = reaction_to(api, code)
        reason = f"{_NAMES[api]} was answered with {code.name}"
        is_current = generation == self.generation
        if reaction is Reaction.FIND:
            self._lookup.lost(reason, self._lookup.node)
        elif reaction is Reaction.REJOIN and self.state == "stable":
            self.request_rejoin("the group rebalances" if api == ApiKey.HEARTBEAT else reason)
        elif reaction in (Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER) and is_current:
            self.forget(reason, keep_id=reaction is Reaction.FORGET_GENERATION)
        elif reaction in (Reaction.RAISE, Reaction.FENCED) and (is_current or api == ApiKey.JOIN_GROUP):
            self._error = BrokerError(code, api=_NAMES[api], group=self._config.group_id, member=self._shown_id())
            if reaction is Reaction.FENCED:
                self._is_fenced = True
                self.forget(reason, keep_id=False)
        return reaction

    def _shown_id(self) -> str | None:
        return self._config.group_instance_id or self.generation.member_id or None


_NAMES = {
    ApiKey.JOIN_GROUP: "JoinGroup",
    ApiKey.SYNC_GROUP: "SyncGroup",
    ApiKey.HEARTBEAT: "Heartbeat",
    ApiKey.OFFSET_COMMIT: "OffsetCommit",
    ApiKey.LEAVE_GROUP: "LeaveGroup",
}
