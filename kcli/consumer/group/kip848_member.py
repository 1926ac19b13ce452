"""`Kip848Member`: the heartbeats of a KIP-848 member, and the changes of its state. No callbacks, no waiting.

The application's thread and the heartbeat thread both use it: one lock protects all fields, and no thread waits for the
network while it holds the lock.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kcli import logs
from kcli.client.backoff import Backoff
from kcli.consumer.group.heartbeat import NextBeat
from kcli.consumer.group.kip848_protocol import (
    ConsumerIdentity,
    HeartbeatFields,
    HeartbeatTiming,
    PartitionsById,
    explain,
    heartbeat,
    leave_heartbeat,
    reaction_to,
)
from kcli.consumer.group.kip848_state import ACTIVE, Event, State, next_state
from kcli.consumer.retry_backoff import LASTING
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError
from kcli.logs import RepeatedWarnings

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
    from kcli.structs import Node

_NEVER = float("inf")
_HEARTBEATING: tuple[State, ...] = (*ACTIVE, "releasing")
_FIRST_VERSION_WITH_REGEX = 1


class Kip848Member:
    """`target` is the assignment of the broker, None before the first; `problem` is the last failure, for display."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        config: ConsumerConfig,
        identity: ConsumerIdentity,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.lock = threading.RLock()
        self.identity = identity
        self.state: State = "out"
        self.epoch = 0
        self.target: PartitionsById | None = None
        self.failure: KcliError | None = None
        self.problem = ""
        self._reported: KcliError | None = None
        self._fields = HeartbeatFields(config.max_poll_interval_ms)
        self._sent_fields: HeartbeatFields | None = None
        self._timing = HeartbeatTiming()
        self._warnings = RepeatedWarnings("kcli.consumer.group")
        self._awaited: RequestFuture[ConsumerGroupHeartbeatResponse] | None = None
        self._has_doubtful_join = False
        self._polled_ms = client.clock.now_ms()

    def __repr__(self) -> str:
        problem = f" {self.problem!r}" if self.problem else ""
        return f"<Kip848Member {self.identity.member_id} {self.state} epoch={self.epoch}{problem} {self._timing!r}>"

    # --- called by the application's thread

    def polled(self, now_ms: float) -> None:
        """Record that the application has polled."""
        self._polled_ms = now_ms

    def subscribe(self, topics: frozenset[str], regex: str, assignor: str | None, rack: str | None) -> None:
        """Set the subscription, sent with the next heartbeat if it has changed. Join if the member is out."""
        with self.lock:
            self._fields = self._fields._replace(topics=topics, regex=regex, assignor=assignor, rack=rack)
            if self.state == "out":
                self.failure, self.problem = None, ""
                self.transition("subscribe")

    def transition(self, event: Event) -> None:
        """Change the state after an event. Raise WrongTransition for an event that is not possible now."""
        with self.lock:
            before, self.state = self.state, next_state(self.state, event)
            if self.state == "joining" and before != "joining":
                self._restart()

    def set_owned(self, owned: PartitionsById) -> bool:
        """Record that the target is owned, except topics without a known name.

        Return False if the member was fenced meanwhile.
        """
        with self.lock:
            if self.state != "reconciling":
                return False
            listed = tuple(sorted(owned.items()))
            self._fields = self._fields._replace(owned=listed, owned_version=self._fields.owned_version + 1)
            self.transition("reconcile")
            return True

    def take_report(self) -> KcliError | None:
        """Return an error to raise once, though the membership continues."""
        with self.lock:
            reported, self._reported = self._reported, None
            return reported

    def may_be_expelled(self, now_ms: float) -> bool:
        """True if the owned partitions may belong to other members by now."""
        with self.lock:
            return self.state not in _HEARTBEATING or self.state == "joining" or self._timing.may_be_expelled(now_ms)

    def heartbeat_soon(self) -> None:
        """Send a heartbeat soon, because another response shows that the broker may not know the member."""
        with self.lock:
            self._timing.expedite()

    def resend_all(self) -> None:
        """Send all fields with the next heartbeat, soon."""
        with self.lock:
            self._sent_fields = None
            self._timing.expedite()

    # --- heartbeats, from any thread

    def beat(self, now_ms: float) -> NextBeat:
        """Send what is due, and return the time of the next call. Never raises, never waits."""
        with self.lock:
            if self.state not in _HEARTBEATING:
                return NextBeat(_NEVER, self._awaited)
            if self.state != "releasing" and now_ms >= self._overdue_ms:
                self._leave_after_poll_timeout()
                return NextBeat(_NEVER, self._awaited)
            node = self._coordinator(now_ms)
            if node is None:
                return NextBeat(self.next_ms(), self._lookup.request(now_ms))
            if self._timing.is_due(now_ms, urgent=self._is_urgent):
                self._send(node, now_ms)
            return NextBeat(self.next_ms(), self._awaited)

    def next_ms(self) -> float:
        """Return the time at which `beat` has something to do."""
        if self.state not in _HEARTBEATING:
            return _NEVER
        due_ms = self._lookup.next_ms() if self._lookup.node is None else self._timing.due_ms(urgent=self._is_urgent)
        return min(due_ms, _NEVER if self.state == "releasing" else self._overdue_ms)

    def send_leave(self) -> RequestFuture[ConsumerGroupHeartbeatResponse] | None:
        """Send the last heartbeat; None if no broker knows the member or the coordinator is unknown."""
        with self.lock:
            node, is_known = self._lookup.node, self.is_known
            self._restart()
            self._awaited = None
            if node is not None and is_known:
                self._awaited = self._client.send(node, leave_heartbeat(self.identity))
            return self._awaited

    @property
    def heartbeat_interval_ms(self) -> float:
        """The interval that the broker has set; 0 before its first response."""
        return self._timing.interval_ms

    @property
    def is_known(self) -> bool:
        """True if a broker may know the member."""
        return self._sent_fields is not None or self.epoch > 0

    @property
    def _overdue_ms(self) -> float:
        return self._polled_ms + self._max_poll_interval_ms

    @property
    def _is_urgent(self) -> bool:
        return self.state in ("joining", "acknowledging")

    def _restart(self) -> None:
        """Forget the epoch and all fields sent and received. A response in flight is ignored."""
        self.epoch, self.target, self._sent_fields = 0, None, None
        self._fields = self._fields._replace(owned=(), owned_version=0)
        self._timing = HeartbeatTiming()

    def _leave_after_poll_timeout(self) -> None:
        self.problem = f"the application did not poll for {self._max_poll_interval_ms} ms (max.poll.interval.ms)"
        self._warn("leaves")
        self.transition("overdue")
        self.send_leave()

    def _coordinator(self, now_ms: float) -> Node | None:
        try:
            return self._lookup.find(now_ms)
        except KcliError as error:
            self._fail(error)
            return None

    def _send(self, node: Node, now_ms: float) -> None:
        fields, epoch, timing = self._fields, self.epoch, self._timing
        request = heartbeat(self.identity, epoch, fields, self._sent_fields)
        min_version = _FIRST_VERSION_WITH_REGEX if fields.regex else None
        self._sent_fields = fields
        timing.sent(now_ms)
        if self.state == "acknowledging":
            self.transition("acknowledge")
            self._judge_target()
        timeout_ms = timing.response_timeout_ms(self._client.config.request_timeout_ms)
        self._awaited = self._client.send(node, request, timeout_ms=timeout_ms, min_version=min_version)
        self._awaited.add_done_callback(lambda done: self._answered(timing, node, epoch, done))

    # --- responses

    def _answered(
        self, timing: HeartbeatTiming, node: Node, epoch: int, done: RequestFuture[ConsumerGroupHeartbeatResponse]
    ) -> None:
        with self.lock:
            if timing is not self._timing:
                return  # the member has left or joined again since
            error = done.error
            if error is None and (code := done.value().error_code):
                error = BrokerError(code, done.value().error_message, principal=self._client.principal)
            if error is None:
                self._accepted(done.value())
            else:
                self._refused(error, node, epoch)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._timing.succeeded(response.heartbeat_interval_ms)
        text = f"group {self.identity.group}: a heartbeat of the member is answered"
        self._warnings.ended(self._client.clock.now_ms(), text, "heartbeat")
        self.problem = ""
        self.epoch = response.member_epoch
        if response.assignment is not None:
            assigned = response.assignment.topic_partitions
            self.target = {topic.topic_id: frozenset(topic.partitions) for topic in assigned if topic.partitions}
        elif self.target is None:
            self.target = {}
        self._judge_target()

    def _judge_target(self) -> None:
        if self._fields.owned_version and dict(self._fields.owned) == self.target:
            self.transition("settle")
        else:
            self.transition("target")

    def _refused(self, error: KcliError, node: Node, epoch: int) -> None:
        now_ms = self._client.clock.now_ms()
        reaction = reaction_to(error, epoch)
        is_unreleased = isinstance(error, BrokerError) and error.code == ErrorCode.UNRELEASED_INSTANCE_ID
        if is_unreleased and self._has_doubtful_join:
            # The broker has carried out an earlier join, and refuses the repeated one: the holder is this member.
            self._client.send(node, leave_heartbeat(self.identity))
            reaction = "retry"
        # An answer that asks for another attempt does not prove that this one was not carried out.
        self._has_doubtful_join = not is_unreleased and epoch == 0 and reaction in ("retry", "find")
        explained = explain(error, self.identity.group, self.identity.instance_id)
        self._sent_fields = None  # the broker may or may not have the fields
        self.problem = str(explained)
        if reaction == "fence":
            self._warn("must join again")
            self.transition("fence")
            self._restart()
        elif reaction == "fail":
            self._fail(explained)
        else:
            backoff_ms = self._backoff.after(self._timing.failures + (reaction != "find"))
            self._timing.failed(now_ms, backoff_ms)
            if self._timing.failures >= LASTING:
                text = f"group {self.identity.group}: the heartbeats of the member fail: {explained}"
                self._warnings.warn("heartbeat", now_ms, text)
            if reaction == "find":
                self._lookup.mark_unknown(str(error), node)
            elif reaction == "report":
                self._reported = explained

    def _warn(self, text: str) -> None:
        group, member_id = self.identity.group, self.identity.member_id
        logs.warning("kcli.consumer.group", "group %s: %s %s: %s", group, member_id, text, self.problem)

    def _fail(self, error: KcliError) -> None:
        self.failure = error
        self.problem = str(error)
        self._warn("cannot go on")
        self.transition("fail")
        self._restart()
