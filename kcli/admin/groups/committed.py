"""What groups have committed: one OffsetFetch for each coordinator (KIP-709), or for each group of an old one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.errors import BrokerError, KcliError, UnsupportedVersion
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

    Committed = dict[TopicPartition, OffsetAndMetadata | KcliError]

# Up to v7 one request is for one group; from v10 topics are told by ids, whose names we would have to ask for.
_FIRST_WITH_GROUPS, _LAST_WITH_NAMES = 8, 9
_FIRST_WITH_ALL_TOPICS, _LAST_WITH_ONE_GROUP = 2, 7

# The partitions that an answer has told of so far, by topic and number: a thousand groups may have read the same.
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
    """All committed offsets of these groups (classic, consumer, streams); {} for a group that has none, or is none.

    An error of one partition is data beside the others. Offsets of transactions that are still open are not told; with
    `require_stable` what such a one may replace is UNSTABLE_OFFSET_COMMIT (KIP-447; brokers before 3.0 tell it anyway).
    """
    coordinators = coordinators or Coordinators(client)
    request = partial(_request, require_stable)
    gathered: Results[str, Committed] = coordinators.ask(
        groups, request, _read, deadline_ms, min_version=_FIRST_WITH_GROUPS, max_version=_LAST_WITH_NAMES
    )
    for group in [name for name, error in gathered.errors.items() if isinstance(error, UnsupportedVersion)]:
        one: Results[str, Committed] = coordinators.ask(
            [group],
            _request_for_one,
            partial(_read_one, group),
            deadline_ms,
            min_version=_FIRST_WITH_ALL_TOPICS,
            max_version=_LAST_WITH_ONE_GROUP,
        )
        del gathered.errors[group]
        gathered.values.update(one.values)
        gathered.errors.update(one.errors)
    return gathered


def _request(require_stable: bool, groups: list[str]) -> OffsetFetchRequest:
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    wanted = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    return OffsetFetchRequest(groups=wanted, require_stable=require_stable)


def _request_for_one(groups: list[str]) -> OffsetFetchRequest:
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest

    return OffsetFetchRequest(group_id=groups[0], topics=None)


def _read(response: OffsetFetchResponse) -> Iterator[tuple[str, Committed | KcliError]]:
    known: _Known = {}
    for group in response.groups:
        if group.error_code:
            yield group.group_id, BrokerError(group.error_code, api="OffsetFetch", group=group.group_id)
        else:
            yield group.group_id, _offsets(group.topics, known)


def _read_one(group: str, response: OffsetFetchResponse) -> Iterator[tuple[str, Committed | KcliError]]:
    codes = {p.error_code for topic in response.topics for p in topic.partitions}
    failed = response.error_code or (codes.pop() if len(codes) == 1 else 0)  # v2 and older: an error in each partition
    if failed:
        yield group, BrokerError(failed, api="OffsetFetch", group=group)
    else:
        yield group, _offsets(response.topics, {})


def _offsets(topics: Iterable[Any], known: _Known) -> Committed:
    found: Committed = {}
    for topic in topics:
        name = topic.name
        tps = known.setdefault(name, {})
        for it in topic.partitions:
            number = it.partition_index
            tp = tps.get(number)
            if tp is None:
                tp = tps[number] = TopicPartition(name, number)
            if it.error_code:
                found[tp] = BrokerError(it.error_code, api="OffsetFetch", topic=name, partition=number)
            elif it.committed_offset >= 0:
                found[tp] = _offset((it.committed_offset, it.committed_leader_epoch, it.metadata or ""))
    return found
