"""What plans are made from: groups, what they have committed, and the logs, asked with few requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kcli.admin.groups.model import Group
from kcli.admin.offsets.plan import ABSENT, PartitionFacts, Target
from kcli.client.routing import Gathered

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

Scope: TypeAlias = Mapping[str, "Sequence[int] | None"] | None
"""Topic to partitions (None: all of them), as `topic_spec.parse_topics` gives it. None: all partitions of each topic in
which a group has commits; for `FromOffsets` those that it tells of."""


class GroupFacts(NamedTuple):
    """A group, None where it is not there, and its partitions in scope, sorted."""

    group: Group | None
    partitions: list[PartitionFacts]

    @property
    def state(self) -> str:
        """Kafka's word for the group's state; ABSENT for one that is not there."""
        return ABSENT if self.group is None else self.group.state


def gather_facts(
    client: ConsumerNetworkClient, groups: Iterable[str], scope: Scope, target: Target, deadline_ms: float
) -> Gathered[str, GroupFacts]:
    """The facts of each group. A group that cannot be described, or whose commits cannot be read, is an error.

    A topic or partition in scope that is not there is a fact with an error, of a topic under the number WHOLE_TOPIC. It
    takes a few requests for each broker, however many groups and partitions there are.
    """
    raise NotImplementedError
