"""Whole groups at one moment: described, committed, then the ends of the logs, then the lag. Requests grow with brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.lag import PartitionLag
from kcli.admin.groups.model import Group
from kcli.client.routing import Gathered
from kcli.errors import KcliError

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
    raise NotImplementedError
