"""Where share groups are in each partition: one DescribeShareGroupOffsets for each coordinator (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.routing import Gathered
from kcli.errors import KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class ShareOffset(NamedTuple):
    """The first record that the group has not done with; `lag`: how many there are, None where not told (before 4.2)."""

    offset: int
    leader_epoch: int = -1
    lag: int | None = None


def share_offsets(
    client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float
) -> Gathered[str, dict[TopicPartition, ShareOffset | KcliError]]:
    """Start offset and lag of every partition that these share groups have begun to read."""
    raise NotImplementedError
