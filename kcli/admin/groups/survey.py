"""Whole groups at one moment: described, then what they committed, then the ends of the logs, then the lag.

Requests grow with the brokers, not with the groups. Committed offsets are read before the ends, so a group that keeps
up is never shown ahead of its log, and only what was written between the two questions is lag too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.bounds import log_bounds
from kcli.admin.groups.committed import committed_offsets
from kcli.admin.groups.coordinators import Coordinators
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.lag import PartitionLag, calculate_lag
from kcli.admin.groups.model import Group
from kcli.admin.groups.patience import half_of
from kcli.client.routing import Gathered
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.client.consumer_network_client import ConsumerNetworkClient

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class GroupSurvey(NamedTuple):
    """A group and where it is in each partition; `error`: why its committed offsets could not be read."""

    group: Group
    partitions: list[PartitionLag]
    error: KcliError | None = None


def survey_groups(
    client: ConsumerNetworkClient,
    names: Mapping[str, str | None] | Iterable[str],
    deadline_ms: float,
    *,
    isolation_level: int = READ_UNCOMMITTED,
    time_lag: bool = False,
) -> Gathered[str, GroupSurvey]:
    """These groups (or name -> type as far as known) with the lag of every partition that they own or have committed.

    A group that cannot be described is an error under its name; what fails for a partition is an error in its row.
    """
    kinds = names if isinstance(names, Mapping) else dict.fromkeys(names)
    coordinators = Coordinators(client)
    described = describe_groups(client, kinds, half_of(client, deadline_ms), coordinators=coordinators)
    groups = described.values
    committed = committed_offsets(client, groups, half_of(client, deadline_ms), coordinators=coordinators)
    partitions = _partitions(groups.values(), committed.values.values())
    bounds = log_bounds(client, partitions, deadline_ms, isolation_level=isolation_level)
    surveys = {}
    for name, group in groups.items():
        rows = calculate_lag(group, committed.values.get(name, {}), bounds.starts, bounds.ends)
        surveys[name] = GroupSurvey(group, rows, committed.errors.get(name))
    return Gathered(surveys, described.errors)


def _partitions(
    groups: Iterable[Group], committed: Iterable[Mapping[TopicPartition, OffsetAndMetadata | KcliError]]
) -> set[TopicPartition]:
    found = {tp for group in groups for member in group.members for tp in member.owned}
    for offsets in committed:
        found.update(offsets)
    return found
