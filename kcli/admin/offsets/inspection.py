"""What must hold when a plan is carried out: the cluster, the groups and their offsets are those it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.committed import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.model import SHARE, STREAMS
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import format_count

if TYPE_CHECKING:
    from kcli.admin.groups.model import Group
    from kcli.admin.offsets.plan import Row
    from kcli.client.consumer_network_client import ConsumerNetworkClient

_IDLE = {"Empty", "Dead"}
_TOOLS = {STREAMS: "kafka-streams-groups.sh", SHARE: "kafka-share-groups.sh"}


class WrongCluster(Refused):
    """Offsets of one cluster mean nothing in another."""


class GroupInUse(Refused):
    """Groups whose offsets are not ours to move: they have members, or tools of their own. `groups`: name -> why."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self.groups = dict(groups)
        super().__init__("; ".join(f"group {name} {why}" for name, why in self.groups.items()))


class Difference(NamedTuple):
    """A committed offset that is not what the plan says; `found` None: none any more, an error: it is about to change
    or cannot be read."""

    group: str
    tp: TopicPartition
    planned: OffsetAndMetadata | None
    found: OffsetAndMetadata | KcliError | None


class PlanOutdated(Refused):
    """Committed offsets have changed since the plan was made. `differences` says which, and how."""

    def __init__(self, differences: Iterable[Difference]) -> None:
        self.differences = tuple(differences)
        first = self.differences[0]
        more = f", and {len(self.differences) - 1} more" if len(self.differences) > 1 else ""
        where = f"{first.tp} of group {first.group}"
        super().__init__(f"the plan is out of date: {where} {_change_of(first)}{more}")


def check_cluster(client: ConsumerNetworkClient, cluster_id: str | None, deadline_ms: float) -> None:
    """WrongCluster unless the client is connected to this cluster; None is any."""
    if client.metadata.cluster.cluster_id is None:
        client.ensure_fresh_metadata(deadline_ms)
    found = client.metadata.cluster.cluster_id
    if cluster_id is not None and found is not None and cluster_id != found:
        raise WrongCluster(f"this was made for cluster {cluster_id}, but the brokers here belong to cluster {found}")


def check_groups(client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float) -> None:
    """GroupInUse unless all are idle or not there, by what their coordinators say now."""
    described = describe_groups(client, dict.fromkeys(groups), deadline_ms)
    for error in described.errors.values():
        if not (isinstance(error, BrokerError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND):
            raise error
    objections = {name: objection_to(group) for name, group in described.values.items()}
    if blocked := {name: why for name, why in objections.items() if why is not None}:
        raise GroupInUse(blocked)


def objection_to(group: Group) -> str | None:
    """Why the offsets of this group must not be moved from outside, as the rest of a sentence; None if they may."""
    if group.type in _TOOLS:
        return f"is a {group.type} group: its positions are moved by {_TOOLS[group.type]}"
    if group.state in _IDLE:
        return None
    members = len(group.members)
    return f"is {group.state} with {format_count(members, 'member')}: stop them first"


def check_commits(client: ConsumerNetworkClient, rows: Iterable[Row], deadline_ms: float) -> None:
    """PlanOutdated unless all that is committed is what these rows say, and no open transaction is about to change it.

    Rows that are left as they are count too: who agreed to the plan has seen them. Skipped ones do not.
    """
    rows = [row for row in rows if row.action != "skip"]
    found = committed_offsets(client, sorted({row.group for row in rows}), deadline_ms, require_stable=True)
    for error in found.errors.values():
        raise error
    now = ((row, found.values[row.group].get(row.tp)) for row in rows)
    if differences := [Difference(row.group, row.tp, row.old, it) for row, it in now if it != row.old]:
        raise PlanOutdated(differences)


def _change_of(it: Difference) -> str:
    if isinstance(it.found, KcliError):
        return f"may change: {it.found.message}"
    if it.planned is None or it.found is None or it.planned.offset != it.found.offset:
        before, now = (str(one.offset) if one is not None else "nothing" for one in (it.planned, it.found))
    else:
        before, now = (f"{one.offset} (epoch {one.leader_epoch}, {one.metadata!r})" for one in (it.planned, it.found))
    return f"had committed {before} then and {now} now"
