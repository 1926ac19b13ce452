"""`EpochMember`: the heartbeats of a KIP-848 member and what their answers make of it; no callbacks, no waiting.

The application's thread and the heartbeat thread both use it: everything is behind one lock, and nobody waits for the
network while holding it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff
from kcli.consumer.group.heartbeat import Beat
from kcli.consumer.group.kip848_protocol import (
    Facts,
    HeartbeatTiming,
    PartitionsById,
    Who,
    explain,
    farewell,
    heartbeat,
    reaction_to,
)
from kcli.consumer.group.kip848_state import ACTIVE, Event, State, next_state
from kcli.errors import BrokerError, KcliError

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


class EpochMember:
    """`target` is what the broker wants us to own, None before its first word; `trouble` is for a person."""

    def __init__(
        self, client: ConsumerNetworkClient, lookup: CoordinatorLookup, config: ConsumerConfig, who: Who
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.lock = threading.RLock()
        self.who = who
        self.state: State = "out"
        self.epoch = 0
        self.target: PartitionsById | None = None
        self.failure: KcliError | None = None
        self.trouble = ""
        self._reported: KcliError | None = None
        self._facts = Facts(config.max_poll_interval_ms)
        self._told: Facts | None = None
        self._timing = HeartbeatTiming()
        self._awaited: RequestFuture[ConsumerGroupHeartbeatResponse] | None = None
        self._polled_ms = client.clock.now_ms()

    def __repr__(self) -> str:
        trouble = f" {self.trouble!r}" if self.trouble else ""
        return f"<EpochMember {self.who.member_id} {self.state} epoch={self.epoch}{trouble} {self._timing!r}>"

    # --- what the application's thread says

    def polled(self, now_ms: float) -> None:
        """The application is alive."""
        self._polled_ms = now_ms

    def subscribe(self, topics: frozenset[str], regex: str, assignor: str | None, rack: str | None) -> None:
        """What to tell the broker, with the next heartbeat that is due if it is news; joins if we are out."""
        with self.lock:
            self._facts = self._facts._replace(topics=topics, regex=regex, assignor=assignor, rack=rack)
            if self.state == "out":
                self.failure, self.trouble = None, ""
                self.happened("subscribe")

    def happened(self, event: Event) -> None:
        """The application's thread has done its part; WrongTransition if that cannot be now."""
        with self.lock:
            before, self.state = self.state, next_state(self.state, event)
            if self.state == "joining" and before != "joining":
                self._begin_anew()

    def own(self, owned: PartitionsById) -> bool:
        """All of the target that can be named is owned now. False, and nothing done, if we were fenced meanwhile."""
        with self.lock:
            if self.state != "reconciling":
                return False
            listed = tuple(sorted(owned.items()))
            self._facts = self._facts._replace(owned=listed, owned_round=self._facts.owned_round + 1)
            self.happened("reconcile")
            return True

    def take_report(self) -> KcliError | None:
        """An error that the application should know of once, though we go on."""
        with self.lock:
            reported, self._reported = self._reported, None
            return reported

    def is_doubtful(self, now_ms: float) -> bool:
        """What is owned may belong to others by now."""
        with self.lock:
            return self.state not in _HEARTBEATING or self.state == "joining" or self._timing.is_doubtful(now_ms)

    def hurry(self) -> None:
        """Ask the broker soon: somebody else has reason to think that it knows us no longer."""
        with self.lock:
            self._timing.hurry()

    def tell_all(self) -> None:
        """The next heartbeat, soon, says everything."""
        with self.lock:
            self._told = None
            self._timing.hurry()

    # --- heartbeats, from any thread

    def beat(self, now_ms: float) -> Beat:
        """Send what is due; when to call again though nothing arrives. Never raises, never waits."""
        with self.lock:
            if self.state not in _HEARTBEATING:
                return Beat(_NEVER, self._awaited)
            if self.state != "releasing" and now_ms >= self._overdue_ms:
                self._leave_overdue()
                return Beat(_NEVER, self._awaited)
            node = self._coordinator(now_ms)
            if node is None:
                return Beat(self.next_ms(), self._lookup.ask(now_ms))
            if self._timing.is_due(now_ms, urgent=self._is_urgent):
                self._send(node, now_ms)
            return Beat(self.next_ms(), self._awaited)

    def next_ms(self) -> float:
        """When `beat` has something to do."""
        if self.state not in _HEARTBEATING:
            return _NEVER
        due_ms = self._lookup.next_ms() if self._lookup.node is None else self._timing.due_ms(urgent=self._is_urgent)
        return min(due_ms, _NEVER if self.state == "releasing" else self._overdue_ms)

    def say_farewell(self) -> RequestFuture[ConsumerGroupHeartbeatResponse] | None:
        """Leave: the last heartbeat, or None if no broker has heard of us or its address is not known."""
        with self.lock:
            node, is_known = self._lookup.node, self.is_known
            self._begin_anew()
            self._awaited = self._client.send(node, farewell(self.who)) if node is not None and is_known else None
            return self._awaited

    @property
    def is_known(self) -> bool:
        """A broker may have heard of us."""
        return self._told is not None or self.epoch > 0

    @property
    def _overdue_ms(self) -> float:
        return self._polled_ms + self._max_poll_interval_ms

    @property
    def _is_urgent(self) -> bool:
        return self.state in ("joining", "acknowledging")

    def _begin_anew(self) -> None:
        """Forget the epoch, and with it all that was said and heard; an answer on its way is not for us any more."""
        self.epoch, self.target, self._told = 0, None, None
        self._facts = self._facts._replace(owned=(), owned_round=0)
        self._timing = HeartbeatTiming()

    def _leave_overdue(self) -> None:
        self.trouble = f"the application did not poll for {self._max_poll_interval_ms} ms (max.poll.interval.ms)"
        self.happened("overdue")
        self.say_farewell()

    def _coordinator(self, now_ms: float) -> Node | None:
        try:
            return self._lookup.find(now_ms)
        except KcliError as error:
            self._fail(error)
            return None

    def _send(self, node: Node, now_ms: float) -> None:
        facts, epoch, timing = self._facts, self.epoch, self._timing
        request = heartbeat(self.who, epoch, facts, self._told)
        min_version = _FIRST_VERSION_WITH_REGEX if facts.regex else None
        self._told = facts
        timing.sent(now_ms)
        if self.state == "acknowledging":
            self.happened("acknowledge")
            self._judge_target()
        self._awaited = self._client.send(node, request, min_version=min_version)
        self._awaited.on_done(lambda done: self._answered(timing, node, epoch, done))

    # --- answers

    def _answered(
        self, timing: HeartbeatTiming, node: Node, epoch: int, done: RequestFuture[ConsumerGroupHeartbeatResponse]
    ) -> None:
        with self.lock:
            if timing is not self._timing:
                return  # we have left, or joined anew, since
            error = done.error
            if error is None and (code := done.value().error_code):
                error = BrokerError(code, done.value().error_message)
            if error is None:
                self._accepted(done.value())
            else:
                self._refused(error, node, epoch)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._timing.succeeded(response.heartbeat_interval_ms)
        self.trouble = ""
        self.epoch = response.member_epoch
        if response.assignment is not None:
            assigned = response.assignment.topic_partitions
            self.target = {it.topic_id: frozenset(it.partitions) for it in assigned if it.partitions}
        elif self.target is None:
            self.target = {}
        self._judge_target()

    def _judge_target(self) -> None:
        if self._facts.owned_round and dict(self._facts.owned) == self.target:
            self.happened("settle")
        else:
            self.happened("target")

    def _refused(self, error: KcliError, node: Node, epoch: int) -> None:
        now_ms = self._client.clock.now_ms()
        reaction = reaction_to(error, epoch)
        shown = explain(error, self.who.group, self.who.instance_id)
        self._told = None  # who knows what has arrived
        self.trouble = str(shown)
        if reaction == "fence":
            self.happened("fence")
            self._begin_anew()
        elif reaction == "fail":
            self._fail(shown)
        else:
            backoff_ms = self._backoff.after(self._timing.failures + (reaction != "find"))
            self._timing.failed(now_ms, backoff_ms)
            if reaction == "find":
                self._lookup.lost(str(error), node)
            elif reaction == "report":
                self._reported = shown

    def _fail(self, error: KcliError) -> None:
        self.failure = error
        self.trouble = str(error)
        self.happened("fail")
        self._begin_anew()
