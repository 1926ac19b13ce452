"""`GroupClient`: the group side of a consumer: coordinator lookup, membership, commits, callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli import logs
from kcli.client.metrics import REBALANCES
from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
from kcli.consumer.group.group_membership import NO_GENERATION, Generation, Membership, RebalanceHooks
from kcli.consumer.group.offset_commits import OffsetCommits
from kcli.errors import KcliError
from kcli.structs import GroupMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.subscription import SubscriptionState

# States of a member, of both protocols, in which it waits for its assignment or applies it.
_REBALANCING = ("preparing", "completing", "joining", "reconciling")

Callback = Callable[[list[TopicPartition]], None]


class GroupClient:
    """A `PollTask` of the fetch loop. The membership is created when it is first needed: commits need none."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        *,
        in_background: bool,
    ) -> None:
        assert config.group_id is not None, "group.id is required"
        self._client = client
        self._subscription = subscription
        self._config = config
        self._in_background = in_background
        self._group = config.group_id
        self._on_assigned: Callback | None = None
        self._on_revoked: Callback | None = None
        self._on_lost: Callback | None = None
        self._leave_deadline_ms: float | None = None  # None: the member is not leaving
        self._in_callback = False
        self._rebalance_ms: float | None = None  # the time at which the rebalance in progress has begun
        self.membership: Membership | None = None
        self.lookup = CoordinatorLookup(client, config.group_id)
        self.commits = OffsetCommits(client, self.lookup, lambda: self.membership, subscription, config)

    def __repr__(self) -> str:
        return f"<GroupClient {self._group} {self.membership or 'not a member'} {self.commits!r}>"

    def subscribed(self, on_assigned: Callback | None, on_revoked: Callback | None, on_lost: Callback | None) -> None:
        """Set the callbacks of a new subscription, and create the membership if there is none."""
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost or on_revoked
        if self.membership is None:
            self.membership = self._new_membership()

    def _new_membership(self) -> Membership:
        hooks = RebalanceHooks(
            on_assigned=self._rebalanced,
            on_revoked=self._revoked,
            on_lost=self._lost,
            before_revocation=self._before_revocation,
        )
        arguments = self._client, self.lookup, self._subscription, self._config, hooks
        if self._config.group_protocol == "consumer":
            from kcli.consumer.group.consumer_membership import ConsumerMembership

            return ConsumerMembership(*arguments, in_background=self._in_background)
        from kcli.consumer.group.consumer_coordinator import ConsumerCoordinator

        return ConsumerCoordinator(*arguments, in_background=self._in_background)

    def _rebalanced(self, added: list[TopicPartition]) -> None:
        now_ms = self._client.clock.now_ms()
        latency_ms = now_ms - (now_ms if self._rebalance_ms is None else self._rebalance_ms)
        self._client.metrics.sensor(REBALANCES).record(latency_ms, now_ms)
        self._rebalance_ms = None
        generation = self._generation()
        text = "joined group %s as %s in generation %d; new partitions: %s"
        self._log(text, generation.member_id, generation.id, _listed(added))
        self._call(self._on_assigned, added)

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        self._log("group %s: %s gives up partitions: %s", self._generation().member_id, _listed(partitions))
        self._call(self._on_revoked, partitions)

    def _lost(self, partitions: list[TopicPartition]) -> None:
        text = "group %s: this member was removed, and its partitions may belong to others: %s"
        logs.warning("kcli.consumer.group", text, self._group, _listed(partitions))
        self._call(self._on_lost, partitions)

    def _call(self, callback: Callback | None, partitions: list[TopicPartition]) -> None:
        if callback is not None:
            self._in_callback = True
            try:
                callback(partitions)
            finally:
                self._in_callback = False

    def _log(self, text: str, *arguments: object) -> None:
        logs.info("kcli.consumer.group", text, self._group, *arguments)

    def _generation(self) -> Generation:
        return NO_GENERATION if self.membership is None else self.membership.generation

    def _before_revocation(self, partitions: list[TopicPartition]) -> None:
        # The other members wait for this one, until max.poll.interval.ms.
        timeout_ms = min(self._config.default_api_timeout_ms, self._config.max_poll_interval_ms)
        until_ms = self._client.clock.now_ms() + timeout_ms
        if self._leave_deadline_ms is not None:
            until_ms = min(until_ms, self._leave_deadline_ms)
        with self._client.without_wakeups():  # the partitions are revoked also after an error
            self.commits.before_revocation(partitions, until_ms)

    def poll(self, now_ms: float) -> None:
        """Run the membership, then the commits."""
        if self._in_callback:
            raise KcliError("a rebalance callback must not poll its own consumer")
        if self.membership is not None:
            self._note_rebalance(self.membership, now_ms)
            self.membership.poll(now_ms)
            now_ms = self._client.clock.now_ms()
            self._note_rebalance(self.membership, now_ms)
        self.commits.poll(now_ms)

    def _note_rebalance(self, membership: Membership, now_ms: float) -> None:
        if self._rebalance_ms is None and membership.state in _REBALANCING:
            self._rebalance_ms = now_ms

    def next_ms(self) -> float:
        """Return the time at which `poll` has something to do."""
        membership_ms = float("inf") if self.membership is None else self.membership.next_ms()
        return min(membership_ms, self.commits.next_ms())

    def suspends_delivery(self, now_ms: float) -> bool:
        """True if records may belong to partitions of other members: then a heartbeat must succeed first."""
        membership = self.membership
        is_member = membership is not None and self._subscription.mode != "assigned"
        return is_member and membership is not None and membership.may_be_expelled(now_ms)

    def metadata(self) -> GroupMetadata:
        """Return the identity of the consumer in its group."""
        generation = self._generation()
        return GroupMetadata(self._group, generation.id, generation.member_id, self._config.group_instance_id)

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Revoke the partitions and leave the group. Without effect in a callback of the same."""
        if self.membership is not None and self._leave_deadline_ms is None:
            self._log("leaving group %s: %s", reason)
            self._leave_deadline_ms = deadline_ms
            try:
                self.membership.leave(reason, deadline_ms)
            finally:
                self._leave_deadline_ms = None

    def close(self, deadline_ms: float) -> None:
        """Commit, leave the group, and finish the remaining commits."""
        try:
            self.leave("the consumer is being closed", deadline_ms)
        finally:  # after the exception of a callback the commits are owed all the same
            self.commits.close(deadline_ms)


def _listed(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "none"
