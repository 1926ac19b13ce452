"""`ConsumerCoordinator`: membership in a classic group, whose leader assigns partitions (`group.protocol=classic`).

`ClassicMember` sends the requests; this class decides, in the application's thread, when to join, and applies the
assignment to the partitions that are read.

An eager member gives up all partitions before it joins. A cooperative member (KIP-429) keeps reading while the group
rebalances; it gives up the partitions that the new assignment takes from it after that, and the group rebalances again
so that other members get them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.consumer.group.classic_member import ClassicMember
from kcli.consumer.group.classic_protocol import JoinFields
from kcli.consumer.group.classic_state import HEARTBEATING
from kcli.consumer.group.group_membership import (
    INTERVALS_WITHOUT_PARTITIONS,
    CallbackErrors,
    Generation,
    RebalanceHooks,
)
from kcli.consumer.group.group_topics import GroupTopics
from kcli.consumer.group.heartbeat import HeartbeatThread
from kcli.errors import ConfigError
from kcli.protocol.consumer_protocol import decode_assignment, flat
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.request_future import RequestFuture
    from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
    from kcli.consumer.subscription import SubscriptionState
    from kcli.error_codes import ErrorCode


class ConsumerCoordinator:
    """See the module; implements `Membership`.

    The protocol is cooperative if all assignors of `partition.assignment.strategy` are, as in Java. A thread sends
    heartbeats while the application does not poll, unless `in_background` is False.
    """

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
        from kcli.assignors.lookup import find_strategy

        assert config.group_id is not None, "a member needs a group"
        if not config.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy is empty; name at least one assignor")
        option = "partition.assignment.strategy"
        strategies = [find_strategy(name, option=option) for name in config.partition_assignment_strategy]
        self._client = client
        self._lookup = lookup
        self._subscription = subscription
        self._config = config
        self._hooks = hooks
        self._in_background = in_background
        self._cooperative = all(each.cooperative for each in strategies)
        self._topics = GroupTopics(client, subscription, config)
        self._member = ClassicMember(client, lookup, config, strategies)
        self._thread = HeartbeatThread(client, self._member.beat, config.group_id)
        self._joined_topics: frozenset[str] | None = None  # of the last JoinGroup; None before the first
        self._last: tuple[TopicPartition, ...] = ()
        self._last_generation = -1
        self._assigned_ms = float("-inf")
        self._abandons_join = False  # to leave; commits for the previous generation are still accepted
        self.instance_id = config.group_instance_id

    def __repr__(self) -> str:
        kind = "cooperative" if self._cooperative else "eager"
        return f"<ConsumerCoordinator {self._config.group_id} {kind} {self._member!r} {self._lookup!r}>"

    @property
    def generation(self) -> Generation:
        """The current generation; without one, `NO_GENERATION` or only the member id."""
        return self._member.generation

    @property
    def state(self) -> str:
        """One of `classic_state.STATES`."""
        return self._member.state

    def is_stable(self) -> bool:
        """True if the member is in a generation and has taken its assignment.

        True also while its partitions are being revoked.
        """
        member = self._member
        return (member.state == "stable" and member.assignment is None) or (
            self._abandons_join and member.has_generation
        )

    def may_get_first_partitions(self, now_ms: float) -> bool:
        """See `Membership`; an eager member gets its partitions with its first assignment."""
        if not self._cooperative or self._subscription.partitions():
            return False
        wait_ms = INTERVALS_WITHOUT_PARTITIONS * self._config.heartbeat_interval_ms
        return self._member.rejoin_reason is not None or now_ms < self._assigned_ms + wait_ms

    def poll(self, now_ms: float) -> None:
        """Handle responses, complete a rebalance, begin a rebalance. Callbacks run here; see `Membership.poll`."""
        if self._subscription.mode not in ("topics", "pattern"):
            return
        member = self._member
        member.polled(now_ms)
        if self._thread.failure is not None:
            raise self._thread.failure
        self._lose_without_generation()
        member.raise_error()
        self._lookup.find(now_ms)
        member.beat(now_ms)
        self._lose_without_generation()
        member.raise_error()
        outcome = member.take_assignment()
        if outcome is not None:
            self._apply_assignment(*outcome)
        self._topics.raise_refusals()
        self._check_for_changes()
        if self._lookup.node is not None and member.wants_to_join(now_ms) and self._topics.are_known():
            self._begin_rebalance(now_ms)

    def may_be_expelled(self, now_ms: float) -> bool:
        """See `Membership.may_be_expelled`; a session lasts `session.timeout.ms`."""
        return self._member.may_be_expelled(now_ms)

    def next_ms(self) -> float:
        """Return the time at which `poll` has something to do."""
        if self._subscription.mode not in ("topics", "pattern"):
            return float("inf")
        # During a long poll of the network, the poll timer must be restarted before max.poll.interval.ms.
        now_ms = self._client.clock.now_ms()
        return min(self._next_ms(now_ms), now_ms + self._config.max_poll_interval_ms / 2)

    def _next_ms(self, now_ms: float) -> float:
        member = self._member
        if member.assignment is not None or member.has_error():
            return now_ms
        if self._lookup.node is None:
            return self._lookup.next_ms()
        if member.state in ("unjoined", "stable") and member.rejoin_reason is not None:
            return max(member.may_join_ms, now_ms) if self._topics.are_known() else float("inf")
        return member.next_ms() if member.state in HEARTBEATING else float("inf")

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll; the reason is sent to the broker (KIP-800)."""
        self._member.request_rejoin(reason)

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """React to the refusal of a commit sent for `generation`. The commit itself handles a moved coordinator."""
        self._member.commit_refused(code, generation)

    # --- rebalance

    def _check_for_changes(self) -> None:
        member = self._member
        if self._joined_topics is None or member.state != "stable" or member.rejoin_reason is not None:
            return
        if self._topics.subscribed() != self._joined_topics:
            member.request_rejoin("the subscription has changed")
        elif (leadership := member.leadership) is not None and self._topics.have_changed(leadership):
            member.request_rejoin("topics of the group have changed")

    def _begin_rebalance(self, now_ms: float) -> None:
        subscribed = self._topics.subscribed()
        self._prepare(subscribed)
        now_ms = self._client.clock.now_ms()
        self._topics.request_metadata(subscribed)
        self._joined_topics = subscribed
        fields = JoinFields(subscribed, list(self._subscription.partitions()), self._last, self._last_generation)
        if self._in_background:
            self._thread.start()
        self._member.join(fields, now_ms)
        self._thread.wake()

    def _prepare(self, subscribed: Collection[str]) -> None:
        """Revoke partitions before joining; without a generation all partitions are lost."""
        errors = CallbackErrors()
        owned = sorted(self._subscription.partitions())
        given_up = revoked_before_join(owned, subscribed, cooperative=self._cooperative)
        if given_up and self._member.has_generation:
            errors.run(self._hooks.before_revocation, given_up)
        if self._member.has_generation:
            self._revoke(given_up, errors)
        else:
            self._lose(errors)
        errors.raise_first()

    def _revoke(self, partitions: Collection[TopicPartition], errors: CallbackErrors) -> None:
        if partitions:
            errors.run(self._hooks.on_revoked, sorted(partitions))
            self._keep(set(self._subscription.partitions()) - set(partitions))

    def _lose_without_generation(self) -> None:
        """Report all partitions as lost when the member has no generation."""
        if not self._member.has_generation:
            errors = CallbackErrors()
            self._lose(errors)
            errors.raise_first()

    def _lose(self, errors: CallbackErrors) -> None:
        owned = sorted(self._subscription.partitions())
        if owned:
            errors.run(self._hooks.on_lost, owned)
            self._keep(())

    def _keep(self, partitions: Collection[TopicPartition]) -> None:
        self._subscription.assign_from_group(sorted(partitions))

    def _apply_assignment(self, generation: Generation, data: bytes) -> None:
        """Apply a new assignment: revoke, add, run the callback."""
        member = self._member
        assigned = flat(decode_assignment(data).assigned_partitions)
        if not self._topics.match(assigned):
            # Usually the subscription has changed since. A faulty leader may repeat it, hence the backoff.
            member.request_rejoin("the assignment does not match the subscription", with_backoff=True)
            return
        errors = CallbackErrors()
        change = assignment_change(self._subscription.partitions(), assigned)
        if change.revoked:
            member.request_rejoin("partitions were revoked for other members")
            errors.run(self._hooks.before_revocation, change.revoked)
            if member.generation == generation:
                self._revoke(change.revoked, errors)
        if member.generation == generation:  # otherwise the next poll reports all partitions as lost
            self._topics.add_assigned({tp.topic for tp in assigned})
            self._joined_topics = (self._joined_topics or frozenset()) | {tp.topic for tp in assigned}
            self._last, self._last_generation = assigned, generation.id
            self._assigned_ms = self._client.clock.now_ms()
            leadership = member.leadership
            self._topics.request_metadata(
                self._joined_topics | (leadership.topics if leadership is not None else frozenset())
            )
            self._keep(assigned)
            errors.run(self._hooks.on_assigned, change.added)
        errors.raise_first()

    # --- leaving

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Revoke the partitions (callbacks run) and leave the group. A static member does not leave (KIP-345)."""
        errors = CallbackErrors()
        self._revoke_all(errors)
        self._thread.stop()
        response = self._member.leave(reason)
        if response is not None:
            self._await_leave(response, deadline_ms, errors)
        self._joined_topics = None
        self._topics.forget()
        errors.raise_first()

    def _revoke_all(self, errors: CallbackErrors) -> None:
        if self._subscription.mode not in ("topics", "pattern"):
            return
        owned = sorted(self._subscription.partitions())
        self._abandons_join = bool(owned) and self._member.abandon_join()
        if owned and self.is_stable():
            errors.run(self._hooks.before_revocation, owned)
        if owned and self._member.has_generation and self.is_stable():
            self._revoke(owned, errors)
        else:
            self._lose(errors)
        self._abandons_join = False

    def _await_leave(self, response: RequestFuture[Any], deadline_ms: float, errors: CallbackErrors) -> None:
        """Wait for the response; a `wakeup` meanwhile is raised afterwards."""
        while not response.done and (left_ms := deadline_ms - self._client.clock.now_ms()) > 0:
            errors.run(lambda: self._client.poll(until=response, timeout_ms=left_ms))


class AssignmentChange(NamedTuple):
    """The difference of two assignments. Partitions are revoked first, then added. Both lists are sorted."""

    revoked: list[TopicPartition]
    added: list[TopicPartition]


def revoked_before_join(
    owned: Iterable[TopicPartition], topics: Collection[str], *, cooperative: bool
) -> list[TopicPartition]:
    """Return the partitions, sorted, that a member with a subscription to `topics` gives up before it joins."""
    return sorted(tp for tp in owned if not cooperative or tp.topic not in topics)


def assignment_change(owned: Collection[TopicPartition], assigned: Collection[TopicPartition]) -> AssignmentChange:
    """Return the change from the owned to the assigned partitions."""
    before, after = set(owned), set(assigned)
    return AssignmentChange(sorted(before - after), sorted(after - before))
