"""Where share groups are in each partition: one DescribeShareGroupOffsets for each coordinator (KIP-932, KIP-1226)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.errors import BrokerError, KcliError
from kcli.structs import TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponseGroup,
    )


class ShareOffset(NamedTuple):
    """All records before `offset` are done with, and some behind it perhaps: they come to be done with in any order.

    `lag` is how many are not done with, up to the end of the log; None where the broker does not tell it (4.1).
    """

    offset: int
    leader_epoch: int = -1
    lag: int | None = None


def share_offsets(
    client: ConsumerNetworkClient,
    groups: Iterable[str],
    deadline_ms: float,
    *,
    coordinators: Coordinators | None = None,
) -> Results[str, dict[TopicPartition, ShareOffset | KcliError]]:
    """Start offset and lag of every partition that these share groups have begun to read."""
    coordinators = coordinators or Coordinators(client)
    return coordinators.ask(groups, _request, _read, deadline_ms)


def _request(groups: list[str]) -> DescribeShareGroupOffsetsRequest:
    from kcli.protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups]
    )


def _read(
    response: DescribeShareGroupOffsetsResponse,
) -> Iterator[tuple[str, dict[TopicPartition, ShareOffset | KcliError] | KcliError]]:
    for group in response.groups:
        if group.error_code:
            yield group.group_id, BrokerError(group.error_code, group.error_message, group=group.group_id)
        else:
            yield group.group_id, dict(_offsets(group))


def _offsets(
    group: DescribeShareGroupOffsetsResponseGroup,
) -> Iterator[tuple[TopicPartition, ShareOffset | KcliError]]:
    for topic in group.topics:
        for it in topic.partitions:
            tp = TopicPartition(topic.topic_name, it.partition_index)
            if it.error_code:
                yield tp, BrokerError(it.error_code, it.error_message, topic=tp.topic, partition=tp.partition)
            elif it.start_offset >= 0:
                yield tp, ShareOffset(it.start_offset, it.leader_epoch, it.lag if it.lag >= 0 else None)
