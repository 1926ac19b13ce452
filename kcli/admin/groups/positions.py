"""Where groups are in each partition: what they have committed, or what share groups have done with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kcli.admin.groups.committed import committed_offsets
from kcli.admin.groups.model import SHARE
from kcli.admin.groups.share_offsets import ShareOffset, share_offsets
from kcli.client.requests import Results
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.groups.model import Group
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.routing import Coordinators

Position: TypeAlias = OffsetAndMetadata | ShareOffset | KcliError


def group_positions(
    client: ConsumerNetworkClient, groups: Iterable[Group], deadline_ms: float, coordinators: Coordinators
) -> Results[str, Mapping[TopicPartition, Position]]:
    """The positions of these groups by partition; {} for a group that has none. Share groups commit nothing."""
    kinds = {group.group: group.type for group in groups}
    shared = [name for name, kind in kinds.items() if kind == SHARE]
    others = [name for name, kind in kinds.items() if kind != SHARE]
    found = committed_offsets(client, others, deadline_ms, coordinators=coordinators)
    done_with = share_offsets(client, shared, deadline_ms, coordinators=coordinators)
    return Results({**found.values, **done_with.values}, {**found.errors, **done_with.errors})
