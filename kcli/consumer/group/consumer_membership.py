"""`ConsumerMembership`: a member of a group whose broker assigns the partitions (`group.protocol=consumer`, KIP-848).

One request does everything: ConsumerGroupHeartbeat. Its answers say what to own; `poll` brings that about, in the
caller's thread: commit and give back what is to go, take on what is new, and tell the broker. Heartbeats leave from a
thread of their own as well, so that they go on while the application works.
"""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff
from kcli.consumer.group.group_membership import NO_GENERATION, Failures, Generation, RebalanceHooks
from kcli.consumer.group.heartbeat import HeartbeatThread
from kcli.consumer.group.kip848_member import EpochMember
from kcli.consumer.group.kip848_protocol import Who
from kcli.consumer.group.kip848_state import ACTIVE
from kcli.consumer.group.reconciliation import Owned, Step, by_id, next_step, partitions_of, without
from kcli.error_codes import ErrorCode
from kcli.errors import KcliError, WakeupError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.subscription import SubscriptionState
    from kcli.protocol.messages.metadata import MetadataResponse

_GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)


class ConsumerMembership:
    """See the module; fulfils `Membership`. The member id is made here and kept for life (KIP-1082)."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        lookup: CoordinatorLookup,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        hooks: RebalanceHooks,
        *,
        in_background: bool = True,
    ) -> None:
        """Not `in_background`: somebody else has to call `member.beat`."""
        assert config.group_id is not None, "a member without a group"
        self._client = client
        self._lookup = lookup
        self._subscription = subscription
        self._config = config
        self._hooks = hooks
        self._names = TopicNames(client)
        self._owned: Owned = {}
        self._is_leaving = False
        self.instance_id = config.group_instance_id
        self.member = EpochMember(client, lookup, config, Who(config.group_id, _new_member_id(), self.instance_id))
        self._thread = HeartbeatThread(client, self.member.beat, config.group_id) if in_background else None

    def __repr__(self) -> str:
        owned = len(partitions_of(self._owned))
        waits = f" waits: {self._names.trouble}" if self.state == "reconciling" and self._names.trouble else ""
        return f"<ConsumerMembership {self._config.group_id} {owned} partitions owned{waits} {self.member!r}>"

    @property
    def generation(self) -> Generation:
        """The member's epoch and id; `NO_GENERATION` while no broker has us as a member."""
        member, epoch = self.member, self.member.epoch
        is_member = epoch > 0 and member.state in (*ACTIVE, "releasing")
        return Generation(epoch, member.who.member_id) if is_member else NO_GENERATION

    @property
    def state(self) -> str:
        """One of `epoch_state.STATES`."""
        return self.member.state

    def is_stable(self) -> bool:
        """A member under an epoch: commits are welcome, during a rebalance too."""
        return self.generation != NO_GENERATION

    def poll(self, now_ms: float) -> None:
        """Join if there is a subscription, send what is due, bring about what the broker wants.

        Raises BrokerError and UnsupportedVersion, at every call, when the broker refuses us for good; TOPIC_
        AUTHORIZATION_FAILED once each time it is told, since rights may come; and what a callback raised, after the
        rebalance was carried on.
        """
        self.member.polled(now_ms)
        if self.member.state in ("fenced", "stale"):
            self._lose()
            if self.state != "out":  # where a callback may have brought us
                self.member.happened("lose")
        self._subscribe()
        self._beat(now_ms)
        if self.member.state == "reconciling":
            self._reconcile(now_ms)
            self._beat(self._client.clock.now_ms())
        if self.member.state == "failed":
            self._lose()
        self._raise_what_is_wrong()

    def _beat(self, now_ms: float) -> None:
        """The thread looks after the answer if the application does not."""
        beat = self.member.beat(now_ms)
        if self._thread is not None and beat.awaited is not None:
            self._thread.start()
            self._thread.wake()

    def _raise_what_is_wrong(self) -> None:
        bug = None if self._thread is None else self._thread.failure
        error = bug or self.member.failure or self.member.take_report()
        if error is not None:
            raise error

    def is_doubtful(self, now_ms: float) -> bool:
        """See `Membership.is_doubtful`."""
        return self.member.is_doubtful(now_ms)

    def next_ms(self) -> float:
        """When `poll` has something to do though nothing arrives."""
        state = self.member.state
        if state in ("fenced", "stale", "failed"):
            return self._client.clock.now_ms()
        waits_ms = self._names.next_ms() if state == "reconciling" else float("inf")
        return min(self.member.next_ms(), waits_ms)

    def request_rejoin(self, reason: str) -> None:
        """Nothing to join again for, since the broker assigns; it is told everything once more."""
        self.member.tell_all()

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """The next heartbeat will hear, soon, what the broker thinks of us."""
        if code in _GONE and generation == self.generation:
            self.member.hurry()

    # --- joining and leaving

    def _subscribe(self) -> None:
        subscription, config = self._subscription, self._config
        if self.member.state in ("failed", "releasing", "leaving") or subscription.mode not in ("topics", "pattern"):
            return
        regex = subscription.server_pattern or ""
        self.member.subscribe(subscription.topics, regex, config.group_remote_assignor, config.client_rack or None)

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Commit, give back the partitions, say farewell and wait for the answer until the deadline. A static member's
        partitions are kept for it (epoch -2). Brokers are not told the `reason`: the protocol has no room for it."""
        if self.member.state == "out" or self._is_leaving:
            return
        self._is_leaving = True
        failures = Failures()
        try:
            self._leave(deadline_ms, failures)
        finally:
            self._is_leaving = False
        failures.raise_first()

    def _leave(self, deadline_ms: float, failures: Failures) -> None:
        """Who was interrupted in it may begin again."""
        member = self.member
        member.happened("unsubscribe")  # from now on nothing but what is below happens to us
        if member.state == "releasing":
            self._give_back(partitions_of(self._owned), failures)
        failures.of(self._lose)  # if we were put out meanwhile
        member.happened("release")
        if member.state == "leaving":
            self._say_farewell(deadline_ms)
            member.happened("farewell")
        if self._thread is not None:
            self._thread.stop()

    def close(self, deadline_ms: float) -> None:
        """`leave` for good; safe to call twice."""
        self.leave("the consumer is being closed", deadline_ms)

    def _say_farewell(self, deadline_ms: float) -> None:
        """Sent once, be it late, and waited for until the deadline. A wakeup is for polls: it keeps nobody here."""
        sent = None
        while sent is None or not sent.done:
            now_ms = self._client.clock.now_ms()
            if sent is None and (self._lookup.node is not None or not self.member.is_known):
                sent = self.member.say_farewell()
                if sent is None:
                    return
            if sent is None:
                self._lookup.ask(now_ms)
            until_ms = deadline_ms if sent is not None else min(deadline_ms, self._lookup.next_ms())
            with contextlib.suppress(WakeupError):
                self._client.poll(until=sent, timeout_ms=max(0.0, until_ms - now_ms))
            if now_ms >= deadline_ms:
                return

    # --- partitions come and go

    def _reconcile(self, now_ms: float) -> None:
        target = self.member.target
        if target is None:
            return
        step = next_step(self._owned, target, self._names.of(target))
        if step.unnamed:
            self._names.ask(step.unnamed, now_ms)
            if not step.revoked and not step.added:
                return
        failures = Failures()
        self._give_back(step.revoked, failures)
        self._take_on(step, failures)
        failures.raise_first()

    def _take_on(self, step: Step, failures: Failures) -> None:
        """The application is told of a rebalance that brought nothing, too."""
        if self.member.state != "reconciling":
            return  # fenced meanwhile: what is left will be lost
        self._read(step.owned)
        failures.of(self._hooks.on_assigned, step.added)
        self.member.own(by_id(step.owned))

    def _give_back(self, partitions: list[TopicPartition], failures: Failures) -> None:
        """Commit, tell the application, read them no longer. Whoever is put out of the group meanwhile keeps them, to
        lose them."""
        if not partitions:
            return
        failures.of(self._hooks.before_revocation, partitions)
        if self.member.state not in ("reconciling", "releasing"):
            return
        failures.of(self._hooks.on_revoked, partitions)
        self._read(without(self._owned, partitions))

    def _lose(self) -> None:
        """Tell the application that what it has belongs to others by now."""
        lost = partitions_of(self._owned)
        if lost:
            try:
                self._hooks.on_lost(lost)
            finally:
                self._read({})

    def _read(self, owned: Owned) -> None:
        """These, and nothing else; metadata follows."""
        gone = {topic.name for topic in self._owned.values()} - self._subscription.topics
        names = {topic.name for topic in owned.values()}
        self._owned = owned
        self._subscription.assign_from_group(partitions_of(owned))
        self._client.metadata.drop_topics(gone - names)
        self._client.metadata.add_topics(names)


def _new_member_id() -> str:
    """A UUID in the form in which Kafka's clients show theirs: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


# From this version on Metadata looks a topic up by its id.
FIRST_VERSION_BY_ID = 12


class TopicNames:
    """The names that metadata knows, and those that brokers were asked for one by one. `trouble` is for a person."""

    def __init__(self, client: ConsumerNetworkClient) -> None:
        self._client = client
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._told: dict[UUID, str] = {}
        self._asked: RequestFuture[MetadataResponse] | None = None
        self._failures = 0
        self._not_before_ms = float("-inf")
        self.trouble = ""

    def of(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """The names known so far; those of other topics are forgotten."""
        known = {t.topic_id: t.name for t in self._client.metadata.cluster.topics.values() if t.topic_id is not None}
        self._told = {it: name for it in topic_ids if (name := known.get(it) or self._told.get(it)) is not None}
        return self._told

    def ask(self, topic_ids: Iterable[UUID], now_ms: float) -> None:
        """Ask for these, unless a question is on its way or the last one failed a moment ago."""
        from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        if self._asked is not None or now_ms < self._not_before_ms:
            return
        node = self._client.least_loaded_node()
        if node is None:
            self._failed("no broker can be reached", now_ms)
            return
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self._asked = self._client.send(node, request, min_version=FIRST_VERSION_BY_ID)
        self._asked.on_done(self._answered)

    def next_ms(self) -> float:
        """When to `ask` again though nothing arrives."""
        return float("inf") if self._asked is not None else self._not_before_ms

    def _answered(self, done: RequestFuture[MetadataResponse]) -> None:
        self._asked = None
        now_ms = self._client.clock.now_ms()
        if done.error is not None:
            self._failed(done.error, now_ms)
            return
        found = {topic.topic_id: topic.name for topic in done.value().topics if topic.name and not topic.error_code}
        self._told = {**self._told, **found}
        if len(found) < len(done.value().topics):
            # A broker hears of a new topic a little later than the coordinator that assigns it.
            self._failed("a topic that was assigned is not known to the brokers yet", now_ms)
        else:
            self._failures, self._not_before_ms, self.trouble = 0, float("-inf"), ""

    def _failed(self, reason: KcliError | str, now_ms: float) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self.trouble = str(reason)
