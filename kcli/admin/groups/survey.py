"""Surveys of groups: descriptions, then committed offsets, then end offsets, then the lag.

The number of requests grows with the brokers, not with the groups. Committed offsets are read before end offsets, so
that a group is never ahead of its log; the lag is too large by the records written between the two requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from kcli.admin.groups.committed_offsets import GroupOffset, ShareOffset, group_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import SHARE, STREAMS, Group, GroupMember
from kcli.admin.groups.lag import PartitionLag, calculate_lag, time_offset, with_time_lag
from kcli.admin.logs.log_bounds import LogBounds, learn_topics, log_bounds, may_pass
from kcli.client.requests import Results, half_deadline
from kcli.client.routing import Coordinators
from kcli.errors import BrokerError, KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.metadata import Cluster

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class GroupSurvey(NamedTuple):
    """A group and its lag in each partition. `error`: the committed offsets could not be read.

    `committed_ms` and `ends_ms` are the times (of the client's steady clock) when the committed offsets and the end
    offsets were received, from which rates are calculated.
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
    """Return these groups (or name -> type, None: unknown) with the lag of each partition owned or committed.

    A group that cannot be described is an error under its name; the failure of a partition is an error in its row.
    With `isolation_level` 1 the end of a log is its last stable offset. `time_lag` also reads the record at each
    committed offset. The order is that of `names`. A group whose coordinator is not ready, for example because it is
    loading, is asked for again until the deadline.
    """
    kinds = names if isinstance(names, Mapping) else dict.fromkeys(names)
    surveys: Results[str, GroupSurvey] = Results()
    pending = kinds
    for _ in client.attempts(deadline_ms):
        latest = _survey_once(client, pending, deadline_ms, isolation_level, time_lag=time_lag)
        surveys.values.update(latest.values)
        surveys.errors.update(latest.errors)
        pending = {name: kind for name, kind in pending.items() if _is_not_ready(latest, name)}
        if not pending:
            break
    values = {name: surveys.values[name] for name in kinds if name in surveys.values}
    return Results(values, {name: error for name, error in surveys.errors.items() if name not in values})


def _is_not_ready(surveys: Results[str, GroupSurvey], name: str) -> bool:
    """True for the retriable error code of a coordinator. A lost connection has used up its part of the time."""
    error = surveys.values[name].error if name in surveys.values else surveys.errors.get(name)
    return isinstance(error, BrokerError) and may_pass(error)


def _survey_once(
    client: ConsumerNetworkClient,
    kinds: Mapping[str, str | None],
    deadline_ms: float,
    isolation_level: int,
    *,
    time_lag: bool,
) -> Results[str, GroupSurvey]:
    coordinators = Coordinators(client)
    described = describe_groups(client, kinds, half_deadline(client, deadline_ms), coordinators=coordinators)
    offsets = group_offsets(client, described.values.values(), half_deadline(client, deadline_ms), coordinators)
    committed_ms = client.clock.now_ms()
    topics = {tp.topic for group in described.values.values() for member in group.members for tp in member.owned}
    committed = set().union(*offsets.values.values())
    topics.update(tp.topic for tp in committed)
    learn_topics(client, topics, half_deadline(client, deadline_ms))
    groups = {name: _existing_partitions(group, client) for name, group in described.values.items()}
    wanted = {tp for group in groups.values() for member in group.members for tp in member.owned}
    until_ms = half_deadline(client, deadline_ms) if time_lag else deadline_ms
    bounds = log_bounds(client, wanted | committed, until_ms, isolation_level=isolation_level)
    ends = _high_watermarks(client, offsets.values.values(), bounds, until_ms) if isolation_level else {}
    rows = {
        name: _calculate(group, offsets.values.get(name, {}), bounds, ends, time_lag=time_lag)
        for name, group in groups.items()
    }
    if time_lag:
        add_time_lags(client, rows.values(), deadline_ms)
    surveys = {
        name: GroupSurvey(group, rows[name], offsets.errors.get(name), committed_ms, bounds.ends_ms)
        for name, group in groups.items()
    }
    return Results(surveys, described.errors)


def _high_watermarks(
    client: ConsumerNetworkClient,
    offsets: Iterable[Mapping[TopicPartition, GroupOffset]],
    bounds: LogBounds,
    deadline_ms: float,
) -> dict[TopicPartition, int | KcliError]:
    """Return the log ends where an offset is committed after the last stable offset, as under read_uncommitted."""
    committed = [
        (tp, at.offset) for of_group in offsets for tp, at in of_group.items() if not isinstance(at, KcliError)
    ]
    last_stable = bounds.ends
    after = {tp for tp, offset in committed if isinstance(end := last_stable.get(tp), int) and offset > end}
    return log_bounds(client, after, deadline_ms).ends if after else {}


def _calculate(
    group: Group,
    offsets: Mapping[TopicPartition, GroupOffset],
    bounds: LogBounds,
    high_watermarks: Mapping[TopicPartition, int | KcliError],
    *,
    time_lag: bool,
) -> list[PartitionLag]:
    committed = cast("Mapping[TopicPartition, OffsetAndMetadata | KcliError]", offsets)
    lags: dict[TopicPartition, int | None] | None = None
    if group.type == SHARE:
        starts = {tp: found for tp, found in offsets.items() if isinstance(found, ShareOffset)}
        lags = {tp: start.lag for tp, start in starts.items()}
        committed = {
            **committed,
            **{tp: OffsetAndMetadata(start.offset, start.leader_epoch) for tp, start in starts.items()},
        }
    return calculate_lag(
        group, committed, bounds.starts, bounds.ends, lags, high_watermarks=high_watermarks, timed=time_lag
    )


def _existing_partitions(group: Group, client: ConsumerNetworkClient) -> Group:
    """Remove partitions that do not exist: a streams group has as many tasks as its largest topic has partitions."""
    if group.type != STREAMS:
        return group
    cluster = client.metadata.cluster
    return group._replace(members=tuple(_existing_in(member, cluster) for member in group.members))


def _existing_in(member: GroupMember, cluster: Cluster) -> GroupMember:
    def existing(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp in partitions if _exists(tp, cluster))

    return member._replace(owned=existing(member.owned), target=existing(member.target or ()))


def _exists(tp: TopicPartition, cluster: Cluster) -> bool:
    """Return False for a missing partition of a known topic. An unknown topic, or one in error, gets an error row."""
    topic = cluster.topics.get(tp.topic)
    return topic is None or bool(topic.error) or tp.partition in topic.partitions


def add_time_lags(client: ConsumerNetworkClient, rows: Iterable[list[PartitionLag]], deadline_ms: float) -> None:
    """Add the current time lags to the rows of each group; each record is read only once."""
    from kcli.admin.logs.record_times import record_times

    lagging: list[tuple[list[PartitionLag], int, int]] = []  # rows of a group, index of the row, offset of the record
    offsets: dict[TopicPartition, set[int]] = {}
    for group_rows in rows:
        for index, row in enumerate(group_rows):
            offset = time_offset(row) if row.lag else None
            if offset is not None:
                lagging.append((group_rows, index, offset))
                offsets.setdefault(row.tp, set()).add(offset)
    times = record_times(client, offsets, deadline_ms)
    wall_ms = client.clock.wall_ms()
    for group_rows, index, offset in lagging:
        row = group_rows[index]
        key = (row.tp, offset)
        group_rows[index] = with_time_lag(row, times.values.get(key) or times.errors[key], wall_ms)
