"""`Leadership`: what the leader of a generation does: learn about all topics, share them out, watch them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.consumer.group.leader_assignment import Snapshot, read_members, share_out, snapshot_of, topic_facts, topics_of
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError

if TYPE_CHECKING:
    from kcli.assignors.strategies import Strategy
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.join_group import JoinGroupResponse


class Leadership:
    """One generation's. Metadata is asked anew: what is shared out are the topics as they are now.

    A static member that comes back as leader of a group at rest is not to share out anything (KIP-814), but to watch.
    ProtocolError if a member's subscription makes no sense.
    """

    def __init__(
        self, client: ConsumerNetworkClient, strategy: Strategy, answer: JoinGroupResponse, *, with_racks: bool
    ) -> None:
        self._client = client
        self._strategy = strategy
        self._with_racks = with_racks
        self._members = read_members(answer.members)
        self._shares_out = not answer.skip_assignment
        self.topics = topics_of(self._members)
        self.snapshot: Snapshot | None = None  # of the topics as they were shared out; None: not yet
        client.metadata.add_topics(sorted(self.topics))
        self._ticket = client.metadata.request_update(at_once=True)

    def can_share_out(self) -> bool:
        """Whether the topics are known by now."""
        return self._client.metadata.is_answered(self._ticket)

    def share_out(self) -> dict[str, bytes]:
        """Everybody's share by member id, as SyncGroup carries it."""
        cluster = self._client.metadata.cluster
        self.snapshot = snapshot_of(cluster, self.topics, {}, with_racks=self._with_racks)
        if not self._shares_out:
            return {}
        return share_out(self._strategy, self._members, topic_facts(cluster, self.topics))


def take_the_lead(
    client: ConsumerNetworkClient, config: ConsumerConfig, strategies: Sequence[Strategy], answer: JoinGroupResponse
) -> Leadership:
    """We are the leader, by the `answer` to JoinGroup. BrokerError if the group has chosen a strategy that we lack."""
    strategy = next((strategy for strategy in strategies if strategy.name == answer.protocol_name), None)
    if strategy is None:
        text = f"the group chose the assignor {answer.protocol_name!r}, which this member does not know"
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text, group=config.group_id)
    return Leadership(client, strategy, answer, with_racks=bool(config.client_rack))
