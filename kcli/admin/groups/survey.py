"""Whole groups at one moment: described, then what they committed, then the ends of the logs, then the lag.

Requests grow with the brokers, not with the groups. Committed offsets are read before the ends, so a group that keeps
up is never shown ahead of its log, and only what was written between the two questions is lag too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from kcli.admin.groups.bounds import LogBounds, learn_topics, log_bounds
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.lag import PartitionLag, calculate_lag
from kcli.admin.groups.model import SHARE, STREAMS, Group, GroupMember
from kcli.admin.groups.patience import half_of
from kcli.admin.groups.positions import Position, group_positions
from kcli.admin.groups.share_offsets import ShareOffset
from kcli.client.requests import Results
from kcli.client.routing import Coordinators
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class GroupSurvey(NamedTuple):
    """A group and where it is in each partition; `error`: why its committed offsets could not be read.

    `committed_ms` and `ends_ms` are the moments (of the client's steady clock) when the committed offsets and the ends
    of the logs were there: what rates are made of.
    """

    group: Group
    partitions: list[PartitionLag]
    error: KcliError | None = None
    committed_ms: float = 0.0
    ends_ms: float = 0.0


def survey_groups(
    client: ConsumerNetworkClient,
    names: Mapping[str, str | None] | Iterable[str],
    deadline_ms: float,
    *,
    isolation_level: int = READ_UNCOMMITTED,
    time_lag: bool = False,
) -> Results[str, GroupSurvey]:
    """These groups (or name -> type as far as known) with the lag of every partition that they own or have committed.

    A group that cannot be described is an error under its name; what fails for a partition is an error in its row.
    With `isolation_level` 1 the end of a log is its last stable offset. The order is that of `names`.
    """
    kinds = names if isinstance(names, Mapping) else dict.fromkeys(names)
    coordinators = Coordinators(client)
    described = describe_groups(client, kinds, half_of(client, deadline_ms), coordinators=coordinators)
    positions = group_positions(client, described.values.values(), half_of(client, deadline_ms), coordinators)
    committed_ms = client.clock.now_ms()
    topics = {tp.topic for group in described.values.values() for member in group.members for tp in member.owned}
    committed = set().union(*positions.values.values())
    topics.update(tp.topic for tp in committed)
    learn_topics(client, topics, half_of(client, deadline_ms))
    groups = {name: _without_what_is_not_there(group, client) for name, group in described.values.items()}
    wanted = {tp for group in groups.values() for member in group.members for tp in member.owned}
    bounds = log_bounds(client, wanted | committed, half_of(client, deadline_ms), isolation_level=isolation_level)
    rows = {
        name: _calculate(group, positions.values.get(name, {}), bounds, time_lag=time_lag)
        for name, group in groups.items()
    }
    if time_lag:
        from kcli.admin.groups.time_lags import add_time_lags

        add_time_lags(client, rows.values(), deadline_ms)
    surveys = {
        name: GroupSurvey(group, rows[name], positions.errors.get(name), committed_ms, bounds.ends_ms)
        for name, group in groups.items()
    }
    return Results(surveys, described.errors)


def _calculate(
    group: Group, positions: Mapping[TopicPartition, Position], bounds: LogBounds, *, time_lag: bool
) -> list[PartitionLag]:
    committed = cast("Mapping[TopicPartition, OffsetAndMetadata | KcliError]", positions)
    lags: dict[TopicPartition, int | None] | None = None
    if group.type == SHARE:
        shared = {tp: it for tp, it in positions.items() if isinstance(it, ShareOffset)}
        lags = {tp: it.lag for tp, it in shared.items()}
        committed = {**committed, **{tp: OffsetAndMetadata(it.offset, it.leader_epoch) for tp, it in shared.items()}}
    return calculate_lag(group, committed, bounds.starts, bounds.ends, lags, timed=time_lag)


def _without_what_is_not_there(group: Group, client: ConsumerNetworkClient) -> Group:
    """Streams tasks are as many as the largest of their topics has partitions; smaller ones do not have them all."""
    if group.type != STREAMS:
        return group
    cluster = client.metadata.cluster
    return group._replace(members=tuple(_trimmed(member, cluster) for member in group.members))


def _trimmed(member: GroupMember, cluster: Cluster) -> GroupMember:
    def there(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp in partitions if _is_there(tp, cluster))

    return member._replace(owned=there(member.owned), target=there(member.target or ()))


def _is_there(tp: TopicPartition, cluster: Cluster) -> bool:
    """A topic that is not known, or is in error, is kept: its row will tell."""
    topic = cluster.topics.get(tp.topic)
    return topic is None or bool(topic.error) or tp.partition in topic.partitions
