"""What groups have committed: one OffsetFetch for each coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.client.routing import Gathered
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def committed_offsets(
    client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float
) -> Gathered[str, dict[TopicPartition, OffsetAndMetadata | KcliError]]:
    """All committed offsets of these groups (classic, consumer, streams); {} for a group that has none, or is none.

    An error of one partition is data beside the others. Offsets of transactions that are still open are not told.
    """
    raise NotImplementedError
