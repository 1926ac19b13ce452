"""`ConsumerCoordinator`: membership in a classic group, where the members assign (`group.protocol=classic`).

The rounds of the group go on in `ClassicMember`; here is what belongs to the application's thread: when a round is to
begin, and what its outcome means for the partitions that are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.consumer.group.classic_member import ClassicMember
from kcli.consumer.group.classic_protocol import Wish
from kcli.consumer.group.classic_state import HEARTBEATING
from kcli.consumer.group.group_membership import Failures, Generation, RebalanceHooks
from kcli.consumer.group.group_topics import GroupTopics
from kcli.consumer.group.heartbeat import HeartbeatThread
from kcli.errors import ConfigError, KcliError
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
    """See the module; fulfils `Membership`.

    The protocol is cooperative if all strategies of `partition.assignment.strategy` are, as in Java. Heartbeats are
    sent by a thread while the application does not poll, unless `in_background` is False.
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

        assert config.group_id is not None, "a member without a group"
        if not config.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy is empty: a member of a group needs one")
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
        self._joined_topics: frozenset[str] | None = None  # what the last JoinGroup said; None: there was none
        self._last: tuple[TopicPartition, ...] = ()
        self._last_generation = -1
        self._busy = False
        self._withdraws = False  # from a round that has not begun, to leave: the last one's commits are still welcome
        self.instance_id = config.group_instance_id

    def __repr__(self) -> str:
        kind = "cooperative" if self._cooperative else "eager"
        return f"<ConsumerCoordinator {self._config.group_id} {kind} {self._member!r} {self._lookup!r}>"

    @property
    def generation(self) -> Generation:
        """The current one; `NO_GENERATION`, or only a member id, while not in the group."""
        return self._member.generation

    @property
    def state(self) -> str:
        """One of `classic_state.STATES`."""
        return self._member.state

    def is_stable(self) -> bool:
        """In a generation with its assignment taken; also while partitions of it are being given up."""
        member = self._member
        return (member.state == "stable" and member.assignment is None) or (self._withdraws and member.has_generation)

    def poll(self, now_ms: float) -> None:
        """One turn: take answers, end a round, begin a round. Callbacks run in here; see `Membership.poll`."""
        if self._busy:
            raise KcliError("a consumer cannot be polled inside a rebalance callback of its own")
        if self._subscription.mode not in ("topics", "pattern"):
            return
        self._busy = True
        try:
            self._turn(now_ms)
        finally:
            self._busy = False

    def _turn(self, now_ms: float) -> None:
        member = self._member
        member.polled(now_ms)
        if self._thread.failure is not None:
            raise self._thread.failure
        self._lose_what_is_gone()
        member.raise_error()
        self._lookup.find(now_ms)
        member.beat(now_ms)
        self._lose_what_is_gone()
        member.raise_error()
        outcome = member.take_assignment()
        if outcome is not None:
            self._complete(*outcome)
        self._topics.raise_refusals()
        self._look_for_changes()
        if self._lookup.node is not None and member.wants_to_join(now_ms) and self._topics.are_known():
            self._begin_round(now_ms)

    def is_doubtful(self, now_ms: float) -> bool:
        """See `Membership.is_doubtful`; here a session is `session.timeout.ms`."""
        return self._member.is_doubtful(now_ms)

    def next_ms(self) -> float:
        """When `poll` has something to do though nothing arrives."""
        if self._subscription.mode not in ("topics", "pattern"):
            return float("inf")
        # A poll that lasts long is work, too: it has to come by here before the application is thought dead.
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
        """Join again with the next poll; brokers are told the reason (KIP-800)."""
        self._member.request_rejoin(reason)

    def commit_refused(self, code: ErrorCode, generation: Generation) -> None:
        """A commit that spoke for `generation` was refused; the coordinator was looked for already if it has moved."""
        self._member.commit_refused(code, generation)

    # --- a round

    def _look_for_changes(self) -> None:
        member = self._member
        if self._joined_topics is None or member.state != "stable" or member.rejoin_reason is not None:
            return
        if self._topics.wanted() != self._joined_topics:
            member.request_rejoin("the subscription has changed")
        elif (leadership := member.leadership) is not None and self._topics.have_changed(leadership):
            member.request_rejoin("topics of the group have changed")

    def _begin_round(self, now_ms: float) -> None:
        wanted = self._topics.wanted()
        self._prepare(wanted)
        now_ms = self._client.clock.now_ms()
        self._topics.want(wanted)
        self._joined_topics = wanted
        wish = Wish(wanted, list(self._subscription.partitions()), self._last, self._last_generation)
        if self._in_background:
            self._thread.start()
        self._member.join(wish, now_ms)
        self._thread.wake()

    def _prepare(self, wanted: Collection[str]) -> None:
        """Give up what must be before joining; everything if the generation is gone, and then it is lost."""
        failures = Failures()
        owned = sorted(self._subscription.partitions())
        given_up = given_up_before_join(owned, wanted, cooperative=self._cooperative)
        if given_up and self._member.has_generation:
            failures.of(self._hooks.before_revocation, given_up)
        if self._member.has_generation:
            self._revoke(given_up, failures)
        else:
            self._lose(failures)
        failures.raise_first()

    def _revoke(self, partitions: Collection[TopicPartition], failures: Failures) -> None:
        if partitions:
            failures.of(self._hooks.on_revoked, sorted(partitions))
            self._keep(set(self._subscription.partitions()) - set(partitions))

    def _lose_what_is_gone(self) -> None:
        """Without a generation nothing is ours, however far the next round has come."""
        if not self._member.has_generation:
            failures = Failures()
            self._lose(failures)
            failures.raise_first()

    def _lose(self, failures: Failures) -> None:
        owned = sorted(self._subscription.partitions())
        if owned:
            failures.of(self._hooks.on_lost, owned)
            self._keep(())

    def _keep(self, partitions: Collection[TopicPartition]) -> None:
        self._subscription.assign_from_group(sorted(partitions))

    def _complete(self, generation: Generation, data: bytes) -> None:
        """A round has brought an assignment: give up, take on, tell."""
        member = self._member
        assigned = flat(decode_assignment(data).assigned_partitions)
        if not self._topics.match(assigned):
            # Mostly the subscription has changed since; but a leader that is wrong may be so again and again.
            member.request_rejoin("the assignment does not match the subscription", backs_off=True)
            return
        failures = Failures()
        change = change_of(self._subscription.partitions(), assigned)
        if change.revoked:
            member.request_rejoin("partitions were given up for others to take")
            failures.of(self._hooks.before_revocation, change.revoked)
            if member.generation == generation:
                self._revoke(change.revoked, failures)
        if member.generation == generation:  # else all that is owned will be lost, at the next turn
            self._topics.take_on({tp.topic for tp in assigned})
            self._joined_topics = (self._joined_topics or frozenset()) | {tp.topic for tp in assigned}
            self._last, self._last_generation = assigned, generation.id
            leads = member.leadership
            self._topics.want(self._joined_topics | (leads.topics if leads is not None else frozenset()))
            self._keep(assigned)
            failures.of(self._hooks.on_assigned, change.added)
        failures.raise_first()

    # --- the end

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Give up the partitions (callbacks run) and leave the group, which a static member does not (KIP-345)."""
        failures = Failures()
        self._give_everything_up(failures)
        self._thread.stop()
        farewell = self._member.leave(reason)
        if farewell is not None:
            self._see_off(farewell, deadline_ms, failures)
        self._joined_topics = None
        self._topics.forget()
        failures.raise_first()

    def _give_everything_up(self, failures: Failures) -> None:
        if self._subscription.mode not in ("topics", "pattern"):
            return
        owned = sorted(self._subscription.partitions())
        self._withdraws = bool(owned) and self._member.abandon_join()
        if owned and self.is_stable():
            failures.of(self._hooks.before_revocation, owned)
        if owned and self._member.has_generation and self.is_stable():
            self._revoke(owned, failures)
        else:
            self._lose(failures)
        self._withdraws = False

    def _see_off(self, farewell: RequestFuture[Any], deadline_ms: float, failures: Failures) -> None:
        """Until it is answered; a `wakeup` that comes in between is told when that is done."""
        while not farewell.done and (left_ms := deadline_ms - self._client.clock.now_ms()) > 0:
            failures.of(lambda: self._client.poll(until=farewell, timeout_ms=left_ms))

    def close(self, deadline_ms: float) -> None:
        """`leave` for good; safe to call twice."""
        self.leave("the consumer is being closed", deadline_ms)


class Change(NamedTuple):
    """What a new assignment brings: given up first, then added. Both sorted."""

    revoked: list[TopicPartition]
    added: list[TopicPartition]


def given_up_before_join(
    owned: Iterable[TopicPartition], topics: Collection[str], *, cooperative: bool
) -> list[TopicPartition]:
    """What a member that now wants `topics` gives up before it joins again, sorted."""
    return sorted(tp for tp in owned if not cooperative or tp.topic not in topics)


def change_of(owned: Collection[TopicPartition], assigned: Collection[TopicPartition]) -> Change:
    """From what is owned to what is assigned."""
    before, after = set(owned), set(assigned)
    return Change(sorted(before - after), sorted(after - before))
