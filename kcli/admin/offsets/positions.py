"""Committed offsets of groups, in scope and complete: the source of an export, a copy and a deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.group import SHARE
from kcli.admin.offsets.offset_plan import ABSENT
from kcli.errors import KcliError, NotFound, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import group_text

if TYPE_CHECKING:
    from kcli.admin.groups.listing import SelectedGroups
    from kcli.admin.offsets.offset_plan import Scope
    from kcli.admin.offsets.plan_files import Positions
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class GroupPositions(NamedTuple):
    """Committed offsets of a group in scope, and the state of the group."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    state: str


def read_positions(
    client: ConsumerNetworkClient, groups: Mapping[str, str | None], scope: Scope, deadline_ms: float
) -> dict[str, GroupPositions]:
    """Return all committed offsets in scope of these groups (name -> type, None: unknown).

    Any failure is raised, because a file with a part missing would look complete. Refused for a share group.
    """
    from kcli.admin.groups.committed_offsets import committed_offsets
    from kcli.admin.groups.describe import describe_groups
    from kcli.admin.groups.listing import with_suggestions
    from kcli.client.routing import Coordinators

    coordinators = Coordinators(client)
    described = describe_groups(client, groups, deadline_ms, coordinators=coordinators)
    for error in with_suggestions(client, described.errors, deadline_ms).values():
        raise error
    for name, group in described.values.items():
        if group.type == SHARE:
            raise Refused(f"{group_text(name)} is a share group, which has no committed offsets")
    committed = committed_offsets(client, groups, deadline_ms, coordinators=coordinators)
    for error in committed.errors.values():
        raise error
    return {
        name: GroupPositions(_in_scope(committed.values[name], scope), group.state or ABSENT)
        for name, group in described.values.items()
    }


def _in_scope(
    committed: Mapping[TopicPartition, OffsetAndMetadata | KcliError], scope: Scope
) -> dict[TopicPartition, OffsetAndMetadata]:
    offsets = {}
    for tp, at in sorted(committed.items()):
        if not is_in_scope(tp, scope):
            continue
        if isinstance(at, KcliError):
            raise at
        offsets[tp] = at
    return offsets


def is_in_scope(tp: TopicPartition, scope: Scope) -> bool:
    """Return True for a partition in scope; None is all partitions."""
    if scope is None:
        return True
    numbers: Iterable[int] | None = scope.get(tp.topic, ())
    return numbers is None or tp.partition in numbers


def check_scope(offsets: Iterable[TopicPartition], scope: Scope, owner: str) -> None:
    """Raise NotFound, naming the `owner`, unless there is an offset for each topic and partition in scope."""
    present = set(offsets)
    topics = {tp.topic for tp in present}
    for topic, numbers in (scope or {}).items():
        missing = [str(number) for number in numbers or () if TopicPartition(topic, number) not in present]
        if missing:
            raise NotFound(f"{owner} has no committed offsets in {topic}:{','.join(missing)}")
        if topic not in topics:
            raise NotFound(f"{owner} has no committed offsets in {topic}")


class Export(NamedTuple):
    """Committed offsets of several groups: `positions` for a file, and the same by group with each group's state."""

    positions: Positions
    groups: dict[str, GroupPositions]


def export_offsets(client: ConsumerNetworkClient, selected: SelectedGroups, scope: Scope, deadline_ms: float) -> Export:
    """Read all committed offsets in scope of the selected groups; share groups of a list are left out.

    Any failure is raised. NotFound if no group is selected, or if a part of the scope has no committed offsets.
    """
    from kcli.admin.offsets.checks import check_cluster
    from kcli.admin.offsets.plan_files import Positions

    for error in selected.failed_brokers.values():
        raise error
    kinds = {name: kind for name, kind in selected.groups.items() if kind != SHARE}
    if not kinds:
        raise NotFound("no group was selected")
    groups = read_positions(client, kinds, scope, deadline_ms)
    check_cluster(client, None, deadline_ms)  # requests the cluster id, for the file
    check_scope((tp for found in groups.values() for tp in found.offsets), scope, "the selection")
    offsets: dict[tuple[str | None, TopicPartition], OffsetAndMetadata] = {
        (name, tp): at for name, found in groups.items() for tp, at in found.offsets.items()
    }
    if not offsets:
        raise NotFound("the selected groups have no committed offsets")
    cluster_id = client.metadata.cluster.cluster_id
    return Export(Positions(offsets, True, cluster_id, client.clock.wall_ms()), groups)
