"""`ClassicMember`: a member's part in the generations of a classic group: join, sync, heartbeat, leave. No callbacks.

Everything that must continue while the application is busy is in `beat`, which the application's thread and the
heartbeat thread both call: it handles responses and sends the requests that follow from them. Only the application's
thread joins (`join`) and takes the assignment (`take_assignment`). States: see `classic_state`; error codes: see
`classic_protocol`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kcli import logs
from kcli.client.backoff import Backoff
from kcli.client.request_future import RequestFuture
from kcli.consumer.group import classic_protocol as requests
from kcli.consumer.group.classic_protocol import JoinFields, Reaction, reaction_to, refusal
from kcli.consumer.group.classic_state import HEARTBEATING, Event, State, next_state
from kcli.consumer.group.group_membership import NO_GENERATION, Generation
from kcli.consumer.group.heartbeat import HeartbeatSender, NextBeat
from kcli.consumer.group.leadership import Leadership, become_leader
from kcli.consumer.retry_backoff import LASTING
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.logs import RepeatedWarnings
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
    """See the module. `rejoin_reason` is None while no JoinGroup is necessary."""

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
        self.heartbeat = self._heartbeats.timers
        self.assignment: bytes | None = None  # of the current generation, until `take_assignment`
        self.leadership: Leadership | None = None  # of the current generation
        self._awaited: RequestFuture[Any] | None = None  # of JoinGroup, SyncGroup or LeaveGroup
        self._error: KcliError | None = None
        self._is_fenced = False
        self._failures = 0
        self._warnings = RepeatedWarnings("kcli.consumer.group")
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.may_join_ms = 0.0  # the end of the backoff after a failed join or sync

    def __repr__(self) -> str:
        generation, leads = self.generation, ", leads" if self.leadership is not None else ""
        return f"<ClassicMember {generation.member_id or 'without id'} generation={generation.id} {self.state}{leads}>"

    def _transition(self, event: Event) -> None:
        self.state = next_state(self.state, event)

    # --- called by the application's thread

    def polled(self, now_ms: float) -> None:
        """Record that the application has polled."""
        with self._lock:
            self.heartbeat.polled(now_ms)

    def has_error(self) -> bool:
        return self._error is not None

    def raise_error(self) -> None:
        """Raise the error that the caller must handle; FENCED_INSTANCE_ID at every call."""
        error = self._error
        if error is not None:
            self._error = error if self._is_fenced else None
            raise error

    def wants_to_join(self, now_ms: float) -> bool:
        """True if JoinGroup must be sent now: none is in flight, nor a SyncGroup, and the backoff has ended."""
        may = self.state in ("unjoined", "stable") and self.assignment is None and now_ms >= self.may_join_ms
        return may and self.rejoin_reason is not None

    def join(self, fields: JoinFields, now_ms: float) -> None:
        """Send JoinGroup. Without effect if there is no coordinator."""
        with self._lock:
            node = self._lookup.node
            if node is None or not self.wants_to_join(now_ms):
                return
            request = requests.join_request(
                self._config, self._strategies, self.generation, fields, self.rejoin_reason or ""
            )
            self._transition("join sent")
            self.leadership = None
            self._await(self._send(node, request, requests.join_timeout_ms(self._config)), partial(self._joined, node))

    def _send(self, node: Node, request: Request[R], timeout_ms: float | None = None) -> RequestFuture[R]:
        lowest = requests.lowest_version(request, self._config)
        return self._client.send(node, request, timeout_ms=timeout_ms, min_version=lowest)

    @property
    def has_generation(self) -> bool:
        """True if the member has a generation, and so owns its assignment, unless `may_be_expelled`."""
        return self.generation.id >= 0 and bool(self.generation.member_id)

    def may_be_expelled(self, now_ms: float) -> bool:
        """True if the assigned partitions may belong to another member by now."""
        with self._lock:
            return not self.has_generation or self.heartbeat.may_be_expelled(now_ms)

    def request_rejoin(self, reason: str, *, with_backoff: bool = False) -> None:
        """Join again with the next poll. The first reason since the last join is sent to the broker."""
        with self._lock:
            if self.rejoin_reason is None:
                self.rejoin_reason = reason
                logs.info("kcli.consumer.group", "group %s: joining again: %s", self._config.group_id, reason)
            if with_backoff:
                self._back_off()

    def take_assignment(self) -> tuple[Generation, bytes] | None:
        """Return the assignment of a generation that has just begun, once."""
        with self._lock:
            assignment, self.assignment = self.assignment, None
            return None if assignment is None else (self.generation, assignment)

    def forget(self, reason: str, *, keep_id: bool) -> None:
        """End the generation; with `keep_id` False the member id too."""
        with self._lock:
            self._transition("reset")
            self.generation = Generation(member_id=self.generation.member_id) if keep_id else NO_GENERATION
            self._end_join(reason)
            self.may_join_ms = 0.0

    def _end_join(self, reason: str) -> None:
        self.rejoin_reason = reason
        self.assignment = self._awaited = self.leadership = self._heartbeats.in_flight = None

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """React to the refusal of a commit that was sent for `generation`."""
        with self._lock:
            self._react(ApiKey.OFFSET_COMMIT, code, generation)

    def abandon_join(self) -> bool:
        """Cancel a JoinGroup in flight; return whether there was one.

        Until all members have joined, brokers accept commits for the previous generation. Such commits would have to
        wait for the response to JoinGroup on the same connection.
        """
        with self._lock:
            node = self._lookup.node
            if self.state != "preparing" or node is None or not self.has_generation:
                return False
            self._fail_join("the member is leaving", with_backoff=False)
            self._client.disconnect(node)
            return True

    def leave(self, reason: str) -> RequestFuture[Any] | None:
        """Leave the group and forget everything; return the LeaveGroup request, if one was sent.

        A static member sends nothing: it may return before its session ends (KIP-345).
        """
        with self._lock:
            node, member_id = self._lookup.node, self.generation.member_id
            sent = None
            if node is not None and member_id and not self._config.group_instance_id:
                if self._awaited is not None:
                    # Brokers answer the requests of a connection in order, and JoinGroup waits for all other members.
                    self._client.disconnect(node)
                highest = (self._client.negotiated(node.id) or {}).get(ApiKey.LEAVE_GROUP, (0, 5))[1]
                sent = self._client.send(node, requests.leave_request(self._config, member_id, reason, highest))
            self.forget("the member had left", keep_id=False)
            self._awaited = sent
            return sent

    # --- heartbeats, from any thread

    def beat(self, now_ms: float) -> NextBeat:
        """Send what is due, and return the time of the next call. Callable from any thread."""
        with self._lock:
            if self.state == "unjoined" and self._awaited is not None and self._awaited.done:
                self._awaited = None  # of LeaveGroup
            if self.state == "preparing":
                self.heartbeat.join_pending(now_ms)
            if self.state not in HEARTBEATING:
                return NextBeat(_NEVER, self._awaited)
            if self.heartbeat.poll_is_overdue(now_ms):
                seconds = self._config.max_poll_interval_ms / 1000
                self._warn(f"leaves, because the application did not poll for {seconds:g} s (max.poll.interval.ms)")
                return NextBeat(_NEVER, self.leave(f"the application did not poll for {seconds:g} s"))
            if not self._heartbeats.has_coordinator(now_ms):
                return NextBeat(min(self.heartbeat.poll_ends_ms, self._lookup.next_ms()), self._lookup.request(now_ms))
            if self.heartbeat.session_is_over(now_ms):
                self._lookup.mark_unknown("no heartbeat was answered for session.timeout.ms", self._heartbeats.node)
                return NextBeat(now_ms)
            self._lead()
            self._heartbeats.send(self.generation, now_ms)
            if self.leadership is not None and self.leadership.snapshot is None:
                return NextBeat(self.heartbeat.next_ms(), RequestFuture("metadata"))
            return NextBeat(self.next_ms(), self._awaited or self._heartbeats.in_flight)

    def next_ms(self) -> float:
        """Return the time at which `beat` has something to do in a generation."""
        return self._heartbeats.next_ms()

    def _judge_heartbeat(self, node: Node, generation: Generation, done: RequestFuture[HeartbeatResponse]) -> bool:
        if done.error is not None:
            self._unanswered(node, done.error)
            return False
        reaction = self._react(ApiKey.HEARTBEAT, ErrorCode.of(done.value().error_code), generation)
        return reaction in (Reaction.CONTINUE, Reaction.REJOIN)

    def _unanswered(self, node: Node, error: KcliError) -> None:
        """Handle a request without a response."""
        if error.retriable:
            self._lookup.mark_unknown(str(error), node)
        else:
            self._error = error

    # --- join and sync

    def _await(self, future: RequestFuture[Any], handle: Callable[[Any], None]) -> None:
        """Call `handle` with the response, unless the join has ended by then."""
        self._awaited = future

        def answered(done: RequestFuture[Any]) -> None:
            with self._lock:
                if self._awaited is done:
                    self._awaited = None
                    handle(done)

        future.add_done_callback(answered)

    def _joined(self, node: Node, done: RequestFuture[JoinGroupResponse]) -> None:
        if done.error is not None:
            self._unanswered(node, done.error)
            self._fail_join(f"JoinGroup failed: {done.error.message}", with_backoff=True)
            return
        response = done.value()
        code = requests.code_of(response)
        if code:
            if reaction_to(ApiKey.JOIN_GROUP, code) is Reaction.TAKE_ID:
                self.generation = Generation(member_id=response.member_id)
            self._refused(ApiKey.JOIN_GROUP, code)
            return
        self._transition("joined")
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self.heartbeat.begin(self._client.clock.now_ms())
        self._heartbeats.node = node
        if response.leader == response.member_id:
            self._begin_to_lead(response)
        else:
            self._sync({})

    def _begin_to_lead(self, response: JoinGroupResponse) -> None:
        try:
            self.leadership = become_leader(self._client, self._config, self._strategies, response)
        except KcliError as error:
            self._cannot_lead(error)

    def _lead(self) -> None:
        """Send the assignment when the metadata of all topics is known."""
        leadership = self.leadership
        if leadership is None or leadership.snapshot is not None or not leadership.knows_topics():
            return
        try:
            assignments = leadership.assign_partitions()
        except KcliError as error:
            self._cannot_lead(error)
        else:
            self._sync(assignments)

    def _cannot_lead(self, error: KcliError) -> None:
        self._error = error
        self._fail_join("the member could not lead", with_backoff=True)

    def _sync(self, assignments: Mapping[str, bytes]) -> None:
        node = self._lookup.node
        if node is None:
            self._fail_join("the coordinator was lost before SyncGroup", with_backoff=True)
            return
        request = requests.sync_request(self._config, self.generation, assignments)
        self._await(self._send(node, request), partial(self._synced, node, self._client.clock.now_ms()))

    def _synced(self, node: Node, sent_ms: float, done: RequestFuture[SyncGroupResponse]) -> None:
        if done.error is not None:
            self._unanswered(node, done.error)
            self._fail_join(f"SyncGroup failed: {done.error.message}", with_backoff=True)
            return
        response = done.value()
        code = requests.code_of(response)
        if not code and response.protocol_name not in (None, "", self.generation.protocol):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code:
            self._refused(ApiKey.SYNC_GROUP, code)
            return
        self._transition("synced")
        self.heartbeat.confirmed(sent_ms)
        self.rejoin_reason, self.assignment = None, bytes(response.assignment)
        self._failures, self.may_join_ms = 0, 0.0
        self._warnings.ended(
            self._client.clock.now_ms(), f"group {self._config.group_id}: the member has joined", "join"
        )

    # --- refusals

    def _refused(self, api: ApiKey, code: ErrorCode) -> None:
        """End the join or sync after an error code."""
        reaction = self._react(api, code, self.generation)
        if self.state != "unjoined":
            with_backoff = reaction in (Reaction.RETRY, Reaction.FIND, Reaction.RAISE)
            self._fail_join(refusal(api, code), with_backoff=with_backoff)

    def _fail_join(self, reason: str, *, with_backoff: bool) -> None:
        if self.state in ("preparing", "completing"):
            self._transition("failed")
        self._end_join(reason)
        if with_backoff:
            self._back_off()
            if self._failures >= LASTING:
                text = f"group {self._config.group_id}: the member cannot join yet: {reason}"
                self._warnings.warn("join", self._client.clock.now_ms(), text)

    def _back_off(self) -> None:
        self._failures += 1
        self.may_join_ms = self._client.clock.now_ms() + self._backoff.after(self._failures)

    def _warn(self, text: str) -> None:
        member = self.generation.member_id or "the member"
        logs.warning("kcli.consumer.group", "group %s: %s %s", self._config.group_id, member, text)

    def _react(self, api: ApiKey, code: ErrorCode, generation: Generation) -> Reaction:
        """React to an error code for `generation` in the state of the membership; the caller ends the join or sync."""
        reaction = reaction_to(api, code)
        reason = refusal(api, code)
        is_current = generation == self.generation
        if reaction is Reaction.FIND:
            self._lookup.mark_unknown(reason, self._lookup.node)
        elif reaction is Reaction.REJOIN and self.state == "stable":
            self.request_rejoin("the group is rebalancing" if api == ApiKey.HEARTBEAT else reason)
        elif reaction in (Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER) and is_current:
            self._warn(f"must join again: {reason}")
            self.forget(reason, keep_id=reaction is Reaction.FORGET_GENERATION)
        elif reaction in (Reaction.RAISE, Reaction.FENCED) and (is_current or api == ApiKey.JOIN_GROUP):
            identity = self._config.group_instance_id or self.generation.member_id or None
            evidence = {"api": api_name(api), "group": self._config.group_id, "member": identity}
            self._error = BrokerError(code, principal=self._client.principal, **evidence)
            if reaction is Reaction.FENCED:
                self._warn(f"is fenced: {self._error}")
                self._is_fenced = True
                self.forget(reason, keep_id=False)
        return reaction
