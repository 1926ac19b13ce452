"""`ClassicMember`: one member's rounds in a classic group: join, sync, heartbeats, leaving. Calls nobody back.

Everything that must go on while the application is busy is in `beat`, which its thread and the heartbeat thread both
call: it takes answers and sends what follows from them. The application's thread alone begins rounds (`join`) and takes
their outcome (`take_assignment`). States: see `classic_state`; errors: see `classic_errors`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.consumer.group import classic_protocol as requests
from kcli.consumer.group.classic_protocol import Reaction, Wish, reaction_to, refusal
from kcli.consumer.group.classic_state import HEARTBEATING, Event, State, next_state
from kcli.consumer.group.group_membership import NO_GENERATION, Generation
from kcli.consumer.group.heartbeat import Beat, HeartbeatSender
from kcli.consumer.group.leadership import Leadership, take_the_lead
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.protocol.registry import ApiKey, api_name
from kcli.structs import Node

if TYPE_CHECKING:
    from kcli.assignors.lookup import Strategy
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.messages.heartbeat import HeartbeatResponse
    from kcli.protocol.messages.join_group import JoinGroupResponse
    from kcli.protocol.messages.sync_group import SyncGroupResponse
    from kcli.protocol.wire import Request

R = TypeVar("R")

_NEVER = float("inf")


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
        self._heartbeats = HeartbeatSender(client, lookup, config, self._lock, self._judge_heartbeat)
        self.heartbeat = self._heartbeats.times
        self.assignment: bytes | None = None  # of the current generation, until it is taken
        self.leadership: Leadership | None = None  # of the current generation
        self._awaited: RequestFuture[Any] | None = None  # join, sync, or farewell
        self._error: KcliError | None = None
        self._is_fenced = False
        self._failures = 0
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.may_join_ms = 0.0  # the backoff after a failed round ends

    def __repr__(self) -> str:
        who, leads = self.generation, ", leads" if self.leadership is not None else ""
        return f"<ClassicMember {who.member_id or 'without id'} generation={who.id} {self.state}{leads}>"

    def _happened(self, event: Event) -> None:
        self.state = next_state(self.state, event)

    # --- what the application's thread does

    def polled(self, now_ms: float) -> None:
        """The application is at work."""
        with self._lock:
            self.heartbeat.polled(now_ms)

    def has_error(self) -> bool:
        return self._error is not None

    def raise_error(self) -> None:
        """Raise what nobody but the caller can help; FENCED_INSTANCE_ID again and again."""
        error = self._error
        if error is not None:
            self._error = error if self._is_fenced else None
            raise error

    def wants_to_join(self, now_ms: float) -> bool:
        """A round is to begin, and may: none is under way, and the backoff after the last failure is over."""
        may = self.state in ("unjoined", "stable") and self.assignment is None and now_ms >= self.may_join_ms
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
            self.leadership = None
            self._await(self._send(node, request, requests.join_timeout_ms(self._config)), partial(self._joined, node))

    def _send(self, node: Node, request: Request[R], timeout_ms: float | None = None) -> RequestFuture[R]:
        lowest = requests.lowest_version(request, self._config)
        return self._client.send(node, request, timeout_ms=timeout_ms, min_version=lowest)

    @property
    def has_generation(self) -> bool:
        """What was assigned in it is ours, unless we were expelled and nobody has told us yet (`is_doubtful`)."""
        return self.generation.id >= 0 and bool(self.generation.member_id)

    def is_doubtful(self, now_ms: float) -> bool:
        """What was assigned may belong to others by now."""
        with self._lock:
            return not self.has_generation or self.heartbeat.is_doubtful(now_ms)

    def request_rejoin(self, reason: str, *, backs_off: bool = False) -> None:
        """Join again as soon as may be. The first reason is the one that brokers are told."""
        with self._lock:
            if self.rejoin_reason is None:
                self.rejoin_reason = reason
            if backs_off:
                self._back_off()

    def take_assignment(self) -> tuple[Generation, bytes] | None:
        """The assignment of a round that has just ended well, once."""
        with self._lock:
            found, self.assignment = self.assignment, None
            return None if found is None else (self.generation, found)

    def forget(self, reason: str, *, keep_id: bool) -> None:
        """The generation is gone, and the member with it unless `keep_id`."""
        with self._lock:
            self._happened("reset")
            self.generation = Generation(member_id=self.generation.member_id) if keep_id else NO_GENERATION
            self._end_round(reason)
            self.may_join_ms = 0.0

    def _end_round(self, reason: str) -> None:
        self.rejoin_reason = reason
        self.assignment = self._awaited = self.leadership = self._heartbeats.in_flight = None

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """A commit for `generation` was refused."""
        with self._lock:
            self._react(ApiKey.OFFSET_COMMIT, code, generation)

    def abandon_join(self) -> bool:
        """Wait no longer for the others; False unless we did. Until they have all joined, or we are given up, brokers
        take commits for the generation that we are still in. They would have to wait behind JoinGroup."""
        with self._lock:
            node = self._lookup.node
            if self.state != "preparing" or node is None or not self.has_generation:
                return False
            self._fail_round("the member is leaving", backs_off=False)
            self._client.disconnect(node)
            return True

    def leave(self, reason: str) -> RequestFuture[Any] | None:
        """Forget everything, and say so to the coordinator; the farewell, if one was sent.

        A static member says nothing: it is expected back before its session ends (KIP-345).
        """
        with self._lock:
            node, member_id = self._lookup.node, self.generation.member_id
            sent = None
            if node is not None and member_id and not self._config.group_instance_id:
                if self._awaited is not None:
                    # Brokers answer one request of a connection at a time, and JoinGroup waits for all other members.
                    self._client.disconnect(node)
                highest = (self._client.negotiated(node.id) or {}).get(ApiKey.LEAVE_GROUP, (0, 5))[1]
                sent = self._client.send(node, requests.leave_request(self._config, member_id, reason, highest))
            self.forget("the member had left", keep_id=False)
            self._awaited = sent
            return sent

    # --- what goes on by itself

    def beat(self, now_ms: float) -> Beat:
        """Send what is due; when to call again. Any thread may."""
        with self._lock:
            if self.state == "unjoined" and self._awaited is not None and self._awaited.done:
                self._awaited = None  # a farewell; answers to a round are dropped by `_await` only, when it has them
            if self.state == "preparing":
                self.heartbeat.still_waits(now_ms)
            if self.state not in HEARTBEATING:
                return Beat(_NEVER, self._awaited)
            if self.heartbeat.poll_is_overdue(now_ms):
                seconds = self._config.max_poll_interval_ms / 1000
                return Beat(_NEVER, self.leave(f"the application did not poll for {seconds:g} s"))
            if not self._heartbeats.has_coordinator(now_ms):
                return Beat(min(self.heartbeat.poll_ends_ms, self._lookup.next_ms()), self._lookup.ask(now_ms))
            if self.heartbeat.session_is_over(now_ms):
                self._lookup.lost("no heartbeat was answered while a session lasts", self._heartbeats.node)
                return Beat(now_ms)
            self._lead()
            self._heartbeats.send(self.generation, now_ms)
            if self.leadership is not None and self.leadership.snapshot is None:
                return Beat(self.heartbeat.next_ms(), RequestFuture("metadata"))
            return Beat(self.next_ms(), self._awaited or self._heartbeats.in_flight)

    def next_ms(self) -> float:
        """When `beat` has something to do in a generation though nothing arrives."""
        return self._heartbeats.next_ms()

    def _judge_heartbeat(self, node: Node, generation: Generation, done: RequestFuture[HeartbeatResponse]) -> bool:
        if done.error is not None:
            self._unanswered(node, done.error)
            return False
        reaction = self._react(ApiKey.HEARTBEAT, ErrorCode.of(done.value().error_code), generation)
        return reaction in (Reaction.GO_ON, Reaction.REJOIN)

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
        code = requests.code_of(answer)
        if code:
            if reaction_to(ApiKey.JOIN_GROUP, code) is Reaction.TAKE_ID:
                self.generation = Generation(member_id=answer.member_id)
            self._refused(ApiKey.JOIN_GROUP, code)
            return
        self._happened("joined")
        self.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
        self.heartbeat.begin(self._client.clock.now_ms())
        self._heartbeats.node = node
        if answer.leader == answer.member_id:
            self._begin_to_lead(answer)
        else:
            self._sync({})

    def _begin_to_lead(self, answer: JoinGroupResponse) -> None:
        try:
            self.leadership = take_the_lead(self._client, self._config, self._strategies, answer)
        except KcliError as error:
            self._cannot_lead(error)

    def _lead(self) -> None:
        """Share out as soon as all topics are known."""
        leadership = self.leadership
        if leadership is None or leadership.snapshot is not None or not leadership.can_share_out():
            return
        try:
            shares = leadership.share_out()
        except KcliError as error:
            self._cannot_lead(error)
        else:
            self._sync(shares)

    def _cannot_lead(self, error: KcliError) -> None:
        self._error = error
        self._fail_round("this member could not lead", backs_off=True)

    def _sync(self, shares: Mapping[str, bytes]) -> None:
        node = self._lookup.node
        if node is None:
            self._fail_round("the coordinator was lost before SyncGroup", backs_off=True)
            return
        request = requests.sync_request(self._config, self.generation, shares)
        self._await(self._send(node, request), partial(self._synced, node, self._client.clock.now_ms()))

    def _synced(self, node: Node, sent_ms: float, done: RequestFuture[SyncGroupResponse]) -> None:
        if done.error is not None:
            self._unanswered(node, done.error)
            self._fail_round(f"SyncGroup failed: {done.error.message}", backs_off=True)
            return
        answer = done.value()
        code = requests.code_of(answer)
        if not code and answer.protocol_name not in (None, "", self.generation.protocol):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code:
            self._refused(ApiKey.SYNC_GROUP, code)
            return
        self._happened("synced")
        self.heartbeat.vouched_for(sent_ms)
        self.rejoin_reason, self.assignment = None, bytes(answer.assignment)
        self._failures, self.may_join_ms = 0, 0.0

    # --- refusals

    def _refused(self, api: ApiKey, code: ErrorCode) -> None:
        """The round is over."""
        reaction = self._react(api, code, self.generation)
        if self.state != "unjoined":
            backs_off = reaction in (Reaction.RETRY, Reaction.FIND, Reaction.RAISE)
            self._fail_round(refusal(api, code), backs_off=backs_off)

    def _fail_round(self, reason: str, *, backs_off: bool) -> None:
        if self.state in ("preparing", "completing"):
            self._happened("failed")
        self._end_round(reason)
        if backs_off:
            self._back_off()

    def _back_off(self) -> None:
        self._failures += 1
        self.may_join_ms = self._client.clock.now_ms() + self._backoff.after(self._failures)

    def _react(self, api: ApiKey, code: ErrorCode, generation: Generation) -> Reaction:
        """Do what an answer for `generation` means for the membership; the round is the caller's."""
        reaction = reaction_to(api, code)
        reason = refusal(api, code)
        is_current = generation == self.generation
        if reaction is Reaction.FIND:
            self._lookup.lost(reason, self._lookup.node)
        elif reaction is Reaction.REJOIN and self.state == "stable":
            self.request_rejoin("the group rebalances" if api == ApiKey.HEARTBEAT else reason)
        elif reaction in (Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER) and is_current:
            self.forget(reason, keep_id=reaction is Reaction.FORGET_GENERATION)
        elif reaction in (Reaction.RAISE, Reaction.FENCED) and (is_current or api == ApiKey.JOIN_GROUP):
            who = self._config.group_instance_id or self.generation.member_id or None
            self._error = BrokerError(code, api=api_name(api), group=self._config.group_id, member=who)
            if reaction is Reaction.FENCED:
                self._is_fenced = True
                self.forget(reason, keep_id=False)
        return reaction
