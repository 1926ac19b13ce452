"""`GroupSide`: what a consumer with a group has beside its fetching: coordinator, membership, commits, callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kcli.consumer.group.coordinator_lookup import CoordinatorLookup
from kcli.consumer.group.group_membership import NO_GENERATION, Membership, RebalanceHooks
from kcli.consumer.group.offset_commits import OffsetCommits
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.consumer.subscription import SubscriptionState

Callback = Callable[[list[TopicPartition]], None]


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group. `generation` -1: nobody now."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


class GroupSide:
    """A `Party` of the fetch loop. The membership is made when it is first needed: commits alone need none."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        subscription: SubscriptionState,
        config: ConsumerConfig,
        *,
        in_background: bool,
    ) -> None:
        assert config.group_id is not None, "no group"
        self._client = client
        self._subscription = subscription
        self._config = config
        self._in_background = in_background
        self._group = config.group_id
        self._on_assigned: Callback | None = None
        self._on_revoked: Callback | None = None
        self._on_lost: Callback | None = None
        self._leave_by_ms = float("inf")
        self.membership: Membership | None = None
        self.lookup = CoordinatorLookup(client, config.group_id)
        self.commits = OffsetCommits(client, self.lookup, lambda: self.membership, subscription, config)

    def __repr__(self) -> str:
        return f"<GroupSide {self._group} {self.membership or 'not a member'} {self.commits!r}>"

    def subscribed(self, on_assigned: Callback | None, on_revoked: Callback | None, on_lost: Callback | None) -> None:
        """There is a subscription for a member to have; the callbacks replace those before."""
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost or on_revoked
        if self.membership is None:
            self.membership = self._new_membership()

    def _new_membership(self) -> Membership:
        hooks = RebalanceHooks(
            on_assigned=lambda partitions: _call(self._on_assigned, partitions),
            on_revoked=lambda partitions: _call(self._on_revoked, partitions),
            on_lost=lambda partitions: _call(self._on_lost, partitions),
            before_revocation=self._before_revocation,
        )
        arguments = self._client, self.lookup, self._subscription, self._config, hooks
        if self._config.group_protocol == "consumer":
            from kcli.consumer.group.consumer_membership import ConsumerMembership

            return ConsumerMembership(*arguments, in_background=self._in_background)
        from kcli.consumer.group.consumer_coordinator import ConsumerCoordinator

        return ConsumerCoordinator(*arguments, in_background=self._in_background)

    def _before_revocation(self, partitions: list[TopicPartition]) -> None:
        # All others wait for us meanwhile, and without us after max.poll.interval.ms.
        patience_ms = min(self._config.default_api_timeout_ms, self._config.max_poll_interval_ms)
        until_ms = min(self._client.clock.now_ms() + patience_ms, self._leave_by_ms)
        self.commits.before_revocation(partitions, until_ms)

    def poll(self, now_ms: float) -> None:
        """One turn of the membership, then of the commits."""
        if self.membership is not None:
            self.membership.poll(now_ms)
            now_ms = self._client.clock.now_ms()
        self.commits.poll(now_ms)

    def next_ms(self) -> float:
        """When there is something to do though nothing arrives."""
        membership_ms = float("inf") if self.membership is None else self.membership.next_ms()
        return min(membership_ms, self.commits.next_ms())

    def holds_back(self, now_ms: float) -> bool:
        """Records would be of partitions that others may have: whoever was stopped for long learns first what is."""
        membership = self.membership
        is_member = membership is not None and self._subscription.mode != "assigned"
        return is_member and membership is not None and membership.is_doubtful(now_ms)

    def metadata(self) -> GroupMetadata:
        """See `GroupMetadata`."""
        generation = NO_GENERATION if self.membership is None else self.membership.generation
        return GroupMetadata(self._group, generation.id, generation.member_id, self._config.group_instance_id)

    def leave(self, reason: str, deadline_ms: float) -> None:
        """Give up what is read, and leave."""
        if self.membership is not None:
            self._leave_by_ms = deadline_ms
            try:
                self.membership.leave(reason, deadline_ms)
            finally:
                self._leave_by_ms = float("inf")

    def close(self, deadline_ms: float) -> None:
        """Leave, with the last commits on their way before that, and see the others to their end."""
        self._leave_by_ms = deadline_ms
        try:
            if self.membership is not None:
                self.membership.close(deadline_ms)
        finally:
            self.commits.close(deadline_ms)


def _call(callback: Callback | None, partitions: list[TopicPartition]) -> None:
    if callback is not None:
        callback(partitions)
