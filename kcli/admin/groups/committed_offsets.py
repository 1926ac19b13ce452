"""Offsets of groups: committed offsets, and the start offsets of share groups.

One OffsetFetch for each coordinator (KIP-709), or for each group before Kafka 3.0; one DescribeShareGroupOffsets for
each coordinator (KIP-932, KIP-1226).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kcli.admin.groups.group import SHARE
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.errors import KcliError, UnsupportedVersion
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.offset_fetch import OffsetFetchResponse

    Committed = dict[TopicPartition, OffsetAndMetadata | KcliError]
    from kcli.admin.groups.group import Group
    from kcli.protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponseGroup,
    )

# Up to v7 a request is for one group; from v10 the response has topic ids without names.
_FIRST_WITH_GROUPS, _LAST_WITH_NAMES = 8, 9
_FIRST_WITH_ALL_TOPICS, _LAST_WITH_ONE_GROUP = 2, 7

# The partitions of a response so far, by topic and number: thousands of groups may share them.
_Known = dict[str, dict[int, TopicPartition]]

_offset = partial(tuple.__new__, OffsetAndMetadata)  # as `OffsetAndMetadata._make`, which takes three times as long


def committed_offsets(
    client: ConsumerNetworkClient,
    groups: Iterable[str],
    deadline_ms: float,
    *,
    coordinators: Coordinators | None = None,
    require_stable: bool = False,
) -> Results[str, Committed]:
    """Return all committed offsets of these groups (classic, consumer, streams); {} for a group without any.

    The error of one partition is a value beside the others. Offsets of open transactions are not included; with
    `require_stable`, an offset that such a transaction may replace is UNSTABLE_OFFSET_COMMIT (KIP-447; brokers before
    3.0 return the offset).
    """
    coordinators = coordinators or Coordinators(client)
    request = partial(_offset_fetch, require_stable)
    results: Results[str, Committed] = coordinators.ask(
        groups, request, _read_offsets, deadline_ms, min_version=_FIRST_WITH_GROUPS, max_version=_LAST_WITH_NAMES
    )
    for group in [name for name, error in results.errors.items() if isinstance(error, UnsupportedVersion)]:
        one: Results[str, Committed] = coordinators.ask(
            [group],
            _offset_fetch_of_one,
            partial(_read_offsets_of_one, group),
            deadline_ms,
            min_version=_FIRST_WITH_ALL_TOPICS,
            max_version=_LAST_WITH_ONE_GROUP,
        )
        del results.errors[group]
        results.values.update(one.values)
        results.errors.update(one.errors)
    return results


def _offset_fetch(require_stable: bool, groups: list[str]) -> OffsetFetchRequest:
    wanted = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    return OffsetFetchRequest(groups=wanted, require_stable=require_stable)


def _offset_fetch_of_one(groups: list[str]) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=groups[0], topics=None)


def _read_offsets(response: OffsetFetchResponse) -> Iterator[tuple[str, Committed | KcliError]]:
    known: _Known = {}
    for group in response.groups:
        if group.error_code:
            yield group.group_id, response.broker_error(group.error_code, api="OffsetFetch", group=group.group_id)
        else:
            yield group.group_id, _offsets(response, group.topics, known)


def _read_offsets_of_one(group: str, response: OffsetFetchResponse) -> Iterator[tuple[str, Committed | KcliError]]:
    codes = {p.error_code for topic in response.topics for p in topic.partitions}
    failed = response.error_code or (
        codes.pop() if len(codes) == 1 else 0
    )  # up to v2: the same error in each partition
    if failed:
        yield group, response.broker_error(failed, api="OffsetFetch", group=group)
    else:
        yield group, _offsets(response, response.topics, {})


def _offsets(response: OffsetFetchResponse, topics: Iterable[Any], known: _Known) -> Committed:
    committed: Committed = {}
    for topic in topics:
        name = topic.name
        tps = known.setdefault(name, {})
        for row in topic.partitions:
            number = row.partition_index
            tp = tps.get(number)
            if tp is None:
                tp = tps[number] = TopicPartition(name, number)
            if row.error_code:
                code = row.error_code
                committed[tp] = response.broker_error(code, api="OffsetFetch", topic=name, partition=number)
            elif row.committed_offset >= 0:
                committed[tp] = _offset((row.committed_offset, row.committed_leader_epoch, row.metadata or ""))
    return committed


class ShareOffset(NamedTuple):
    """Start offset of a share group in a partition.

    All records before `offset` are acknowledged, and perhaps some after it, because records are acknowledged in any
    order. `lag` is the number of unacknowledged records up to the end of the log; None from brokers of version 4.1.
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
    """Return start offset and lag of each partition that these share groups have begun to read."""
    coordinators = coordinators or Coordinators(client)
    return coordinators.ask(groups, _share_request, _read_share_offsets, deadline_ms)


def _share_request(groups: list[str]) -> DescribeShareGroupOffsetsRequest:
    from kcli.protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups]
    )


def _read_share_offsets(
    response: DescribeShareGroupOffsetsResponse,
) -> Iterator[tuple[str, dict[TopicPartition, ShareOffset | KcliError] | KcliError]]:
    for group in response.groups:
        if group.error_code:
            name = group.group_id
            yield name, response.broker_error(group.error_code, group.error_message, group=name)
        else:
            yield group.group_id, dict(_share_offsets_in(response, group))


def _share_offsets_in(
    response: DescribeShareGroupOffsetsResponse,
    group: DescribeShareGroupOffsetsResponseGroup,
) -> Iterator[tuple[TopicPartition, ShareOffset | KcliError]]:
    for topic in group.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.topic_name, partition.partition_index)
            if partition.error_code:
                code, message = partition.error_code, partition.error_message
                yield tp, response.broker_error(code, message, topic=tp.topic, partition=tp.partition)
            elif partition.start_offset >= 0:
                yield (
                    tp,
                    ShareOffset(
                        partition.start_offset, partition.leader_epoch, partition.lag if partition.lag >= 0 else None
                    ),
                )


GroupOffset: TypeAlias = OffsetAndMetadata | ShareOffset | KcliError


def group_offsets(
    client: ConsumerNetworkClient, groups: Iterable[Group], deadline_ms: float, coordinators: Coordinators
) -> Results[str, Mapping[TopicPartition, GroupOffset]]:
    """Return the committed or start offsets of these groups by partition; {} for a group without any."""
    kinds = {group.group: group.type for group in groups}
    share_groups = [name for name, kind in kinds.items() if kind == SHARE]
    others = [name for name, kind in kinds.items() if kind != SHARE]
    committed = committed_offsets(client, others, deadline_ms, coordinators=coordinators)
    starts = share_offsets(client, share_groups, deadline_ms, coordinators=coordinators)
    return Results({**committed.values, **starts.values}, {**committed.errors, **starts.errors})
