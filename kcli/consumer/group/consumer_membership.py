"""`ConsumerMembership`: membership in a group whose broker assigns partitions (`group.protocol=consumer`, KIP-848).

The only request is ConsumerGroupHeartbeat. Its response contains the target assignment; `poll` applies it in the
caller's thread: it commits and revokes partitions, adds new ones, and acknowledges. A thread sends heartbeats while the
application is busy.
"""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.client.backoff import Backoff
from kcli.consumer.group.group_membership import (
    INTERVALS_WITHOUT_PARTITIONS,
    NO_GENERATION,
    CallbackErrors,
    Generation,
    RebalanceHooks,
)
from kcli.consumer.group.heartbeat import HeartbeatThread
from kcli.consumer.group.kip848_member import Kip848Member
from kcli.consumer.group.kip848_protocol import ConsumerIdentity
from kcli.consumer.group.kip848_state import ACTIVE
from kcli.consumer.group.reconciliation import (
    Owned,
    ReconciliationStep,
    by_id,
    next_step,
    partitions_of,
    without_partitions,
)
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
    """See the module; implements `Membership`. The member id is generated here and kept for life (KIP-1082)."""

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
        """With `in_background` False, the caller calls `member.beat`."""
        assert config.group_id is not None, "a member needs a group"
        self._client = client
        self._lookup = lookup
        self._subscription = subscription
        self._config = config
        self._hooks = hooks
        self._names = TopicNames(client)
        self._owned: Owned = {}
        self._is_leaving = False
        self._assigned_ms = float("-inf")
        self.instance_id = config.group_instance_id
        self.member = Kip848Member(
            client, lookup, config, ConsumerIdentity(config.group_id, _new_member_id(), self.instance_id)
        )
        self._thread = HeartbeatThread(client, self.member.beat, config.group_id) if in_background else None

    def __repr__(self) -> str:
        owned = len(partitions_of(self._owned))
        waits = f" waits: {self._names.problem}" if self.state == "reconciling" and self._names.problem else ""
        return f"<ConsumerMembership {self._config.group_id} {owned} partitions owned{waits} {self.member!r}>"

    @property
    def generation(self) -> Generation:
        """The member's epoch and id; `NO_GENERATION` while the broker does not have the member."""
        member, epoch = self.member, self.member.epoch
        is_member = epoch > 0 and member.state in (*ACTIVE, "releasing")
        return Generation(epoch, member.identity.member_id) if is_member else NO_GENERATION

    @property
    def state(self) -> str:
        """One of `kip848_state.STATES`."""
        return self.member.state

    def is_stable(self) -> bool:
        """True if the member has an epoch: commits are accepted, also during a rebalance."""
        return self.generation != NO_GENERATION

    def may_get_first_partitions(self, now_ms: float) -> bool:
        """See `Membership`; the broker sets the heartbeat interval."""
        wait_ms = INTERVALS_WITHOUT_PARTITIONS * self.member.heartbeat_interval_ms
        return not self._owned and now_ms < self._assigned_ms + wait_ms

    def poll(self, now_ms: float) -> None:
        """Join if there is a subscription, send what is due, apply the target assignment.

        Raise BrokerError and UnsupportedVersion, at every call, after a fatal error; TOPIC_AUTHORIZATION_FAILED once
        for each response with it, because the permission may be granted later; and exceptions of callbacks, after the
        rebalance.
        """
        self.member.polled(now_ms)
        if self.member.state in ("fenced", "stale"):
            self._lose()
            if self.state != "out":  # a callback may have unsubscribed
                self.member.transition("lose")
        self._subscribe()
        self._beat(now_ms)
        if self.member.state == "reconciling":
            self._reconcile(now_ms)
            self._beat(self._client.clock.now_ms())
        if self.member.state == "failed":
            self._lose()
        self._raise_error()

    def _beat(self, now_ms: float) -> None:
        """Let the thread wait for the response while the application is busy."""
        beat = self.member.beat(now_ms)
        if self._thread is not None and beat.awaited is not None:
            self._thread.start()
            self._thread.wake()

    def _raise_error(self) -> None:
        thread_error = None if self._thread is None else self._thread.failure
        error = thread_error or self.member.failure or self.member.take_report()
        if error is not None:
            raise error

    def may_be_expelled(self, now_ms: float) -> bool:
        """See `Membership.may_be_expelled`."""
        return self.member.may_be_expelled(now_ms)

    def next_ms(self) -> float:
        """Return the time at which `poll` has something to do."""
        state = self.member.state
        if state in ("fenced", "stale", "failed"):
            return self._client.clock.now_ms()
        waits_ms = self._names.next_ms() if state == "reconciling" else float("inf")
        return min(self.member.next_ms(), waits_ms)

    def request_rejoin(self, reason: str) -> None:
        """Send all fields to the broker again; there is no join, because the broker assigns."""
        self.member.resend_all()

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """Send a heartbeat soon; its response shows whether the broker still has the member."""
        if code in _GONE and generation == self.generation:
            self.member.heartbeat_soon()

    # --- joining and leaving

    def _subscribe(self) -> None:
        subscription, config = self._subscription, self._config
        if self.member.state in ("failed", "releasing", "leaving") or subscription.mode not in ("topics", "pattern"):
            return
        regex = subscription.server_pattern or ""
        self.member.subscribe(subscription.topics, regex, config.group_remote_assignor, config.client_rack or None)

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Commit, revoke the partitions, send the last heartbeat and wait for its response until the deadline.

        The partitions of a static member are kept for it (epoch -2). The protocol has no field for the `reason`.
        """
        if self.member.state == "out" or self._is_leaving:
            return
        self._is_leaving = True
        errors = CallbackErrors()
        try:
            self._leave(deadline_ms, errors)
        finally:
            self._is_leaving = False
        errors.raise_first()

    def _leave(self, deadline_ms: float, errors: CallbackErrors) -> None:
        """Leave; after an interruption it can be called again."""
        member = self.member
        member.transition("unsubscribe")  # from now on, other events do not change the state
        if member.state == "releasing":
            self._revoke(partitions_of(self._owned), errors)
        errors.run(self._lose)  # if the member was fenced meanwhile
        member.transition("release")
        if member.state == "leaving":
            self._send_leave(deadline_ms)
            member.transition("left")
        if self._thread is not None:
            self._thread.stop()

    def _send_leave(self, deadline_ms: float) -> None:
        """Send the last heartbeat, as soon as there is a coordinator, and wait for the response.

        A wakeup does not end the wait.
        """
        sent = None
        while sent is None or not sent.done:
            now_ms = self._client.clock.now_ms()
            if sent is None and (self._lookup.node is not None or not self.member.is_known):
                sent = self.member.send_leave()
                if sent is None:
                    return
            if sent is None:
                self._lookup.request(now_ms)
            until_ms = deadline_ms if sent is not None else min(deadline_ms, self._lookup.next_ms())
            with contextlib.suppress(WakeupError):
                self._client.poll(until=sent, timeout_ms=max(0.0, until_ms - now_ms))
            if now_ms >= deadline_ms:
                return

    # --- reconciliation

    def _reconcile(self, now_ms: float) -> None:
        target = self.member.target
        if target is None:
            return
        step = next_step(self._owned, target, self._names.of(target))
        if step.unnamed:
            self._names.request(step.unnamed, now_ms)
            if not step.revoked and not step.added:
                return
        errors = CallbackErrors()
        self._revoke(step.revoked, errors)
        self._add(step, errors)
        errors.raise_first()

    def _add(self, step: ReconciliationStep, errors: CallbackErrors) -> None:
        """Add partitions. The callback runs also for a rebalance without new partitions."""
        if self.member.state != "reconciling":
            return  # fenced meanwhile: the remaining partitions are lost
        self._set_owned(step.owned)
        self._assigned_ms = self._client.clock.now_ms()
        errors.run(self._hooks.on_assigned, step.added)
        self.member.set_owned(by_id(step.owned))

    def _revoke(self, partitions: list[TopicPartition], errors: CallbackErrors) -> None:
        """Commit, run the callback, stop reading.

        A member that is fenced meanwhile keeps the partitions, to lose them.
        """
        if not partitions:
            return
        errors.run(self._hooks.before_revocation, partitions)
        if self.member.state not in ("reconciling", "releasing"):
            return
        errors.run(self._hooks.on_revoked, partitions)
        self._set_owned(without_partitions(self._owned, partitions))

    def _lose(self) -> None:
        """Report the owned partitions as lost."""
        lost = partitions_of(self._owned)
        if lost:
            try:
                self._hooks.on_lost(lost)
            finally:
                self._set_owned({})

    def _set_owned(self, owned: Owned) -> None:
        """Read exactly these partitions, and adapt the metadata."""
        removed = {topic.name for topic in self._owned.values()} - self._subscription.topics
        names = {topic.name for topic in owned.values()}
        self._owned = owned
        self._subscription.assign_from_group(partitions_of(owned))
        self._client.metadata.drop_topics(removed - names)
        self._client.metadata.add_topics(names)


def _new_member_id() -> str:
    """Return a UUID in the form of Kafka's clients: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


# The first version of Metadata with a lookup by topic id.
FIRST_VERSION_BY_ID = 12


class TopicNames:
    """The names of topics assigned by id (KIP-848, KIP-516): from the metadata, or requested one by one.

    `problem` is the last failure, for display.
    """

    def __init__(self, client: ConsumerNetworkClient) -> None:
        self._client = client
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._requested_names: dict[UUID, str] = {}
        self._asked: RequestFuture[MetadataResponse] | None = None
        self._failures = 0
        self._not_before_ms = float("-inf")
        self.problem = ""

    def of(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """Return the names known so far; names of other topics are forgotten."""
        known = {t.topic_id: t.name for t in self._client.metadata.cluster.topics.values() if t.topic_id is not None}
        self._requested_names = {
            topic_id: name
            for topic_id in topic_ids
            if (name := known.get(topic_id) or self._requested_names.get(topic_id)) is not None
        }
        return self._requested_names

    def request(self, topic_ids: Iterable[UUID], now_ms: float) -> None:
        """Request the names of these topics, unless a request is in flight or the backoff has not ended."""
        from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        if self._asked is not None or now_ms < self._not_before_ms:
            return
        node = self._client.least_loaded_node()
        if node is None:
            self._failed("no broker is available", now_ms)
            return
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self._asked = self._client.send(node, request, min_version=FIRST_VERSION_BY_ID)
        self._asked.add_done_callback(self._answered)

    def next_ms(self) -> float:
        """Return the time of the next `request`."""
        return float("inf") if self._asked is not None else self._not_before_ms

    def _answered(self, done: RequestFuture[MetadataResponse]) -> None:
        self._asked = None
        now_ms = self._client.clock.now_ms()
        if done.error is not None:
            self._failed(done.error, now_ms)
            return
        names = {topic.topic_id: topic.name for topic in done.value().topics if topic.name and not topic.error_code}
        self._requested_names = {**self._requested_names, **names}
        if len(names) < len(done.value().topics):
            # A broker learns of a new topic a little later than the coordinator that assigns it.
            self._failed("the brokers do not know an assigned topic yet", now_ms)
        else:
            self._failures, self._not_before_ms, self.problem = 0, float("-inf"), ""

    def _failed(self, reason: KcliError | str, now_ms: float) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.after(self._failures)
        self.problem = str(reason)
