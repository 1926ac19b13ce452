"""Checks before a plan is applied: cluster, groups, committed offsets, and the bounds of the logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import SHARE, STREAMS, is_absent
from kcli.admin.logs.log_bounds import settled_bounds
from kcli.admin.offsets.offset_plan import where_outside
from kcli.errors import KcliError, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition
from kcli.text import format_count, group_text

if TYPE_CHECKING:
    from kcli.admin.groups.group import Group
    from kcli.admin.logs.log_bounds import LogBounds
    from kcli.admin.offsets.offset_plan import OffsetPlan, OffsetRow
    from kcli.client.consumer_network_client import ConsumerNetworkClient


_IDLE_STATES = {"Empty", "Dead"}
_TOOLS = {STREAMS: "kafka-streams-groups.sh", SHARE: "kafka-share-groups.sh"}


class WrongCluster(Refused):
    """The plan or file was made for another cluster."""


class GroupInUse(Refused):
    """Groups with members, or of a type that has its own tools. `groups`: name -> reason."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self.groups = dict(groups)
        super().__init__("; ".join(f"group {group_text(name)} {why}" for name, why in self.groups.items()))


class Difference(NamedTuple):
    """A committed offset that differs from the plan.

    `found` is None if there is none, an error if it is about to change or cannot be read.
    """

    group: str
    tp: TopicPartition
    planned: OffsetAndMetadata | None
    found: OffsetAndMetadata | KcliError | None


class PlanOutdated(Refused):
    """Committed offsets have changed since the plan was made. `differences` has the changed ones."""

    def __init__(self, differences: Iterable[Difference]) -> None:
        self.differences = tuple(differences)
        first = self.differences[0]
        more = f", and {len(self.differences) - 1} more" if len(self.differences) > 1 else ""
        where = f"{first.tp} of group {first.group}"
        super().__init__(f"the plan is out of date: {where} {_change_of(first)}{more}")


def check_cluster(client: ConsumerNetworkClient, cluster_id: str | None, deadline_ms: float) -> None:
    """Raise WrongCluster unless the client is connected to this cluster; None: any. Request an unknown cluster id."""
    if client.metadata.cluster.cluster_id is None:
        client.ensure_fresh_metadata(deadline_ms)
    found = client.metadata.cluster.cluster_id
    if cluster_id is not None and found is not None and cluster_id != found:
        raise WrongCluster(f"the plan or file is of cluster {cluster_id}, but the brokers belong to cluster {found}")


def check_groups(client: ConsumerNetworkClient, groups: Iterable[str], deadline_ms: float) -> None:
    """Raise GroupInUse unless all groups are empty or do not exist now."""
    described = describe_groups(client, dict.fromkeys(groups), deadline_ms)
    for error in described.errors.values():
        if not is_absent(error):
            raise error
    reasons = {name: in_use_reason(group) for name, group in described.values.items()}
    if in_use := {name: reason for name, reason in reasons.items() if reason is not None}:
        raise GroupInUse(in_use)


def in_use_reason(group: Group) -> str | None:
    """Return the reason why only the group may change its offsets, as the end of a sentence; None without a reason."""
    if group.type in _TOOLS:
        return f"is a {group.type} group; change its offsets with {_TOOLS[group.type]}"
    if group.state in _IDLE_STATES:
        return None
    members = len(group.members)
    return f"is {group.state} with {format_count(members, 'member')}; stop them first"


def check_commits(client: ConsumerNetworkClient, rows: Iterable[OffsetRow], deadline_ms: float) -> None:
    """Raise PlanOutdated unless the committed offsets are those of the rows, and no open transaction may change them.

    Unchanged ("keep") rows count too, because the user has agreed to them; skipped rows do not.
    """
    rows = [row for row in rows if row.action != "skip"]
    committed = committed_offsets(client, sorted({row.group for row in rows}), deadline_ms, require_stable=True)
    for error in committed.errors.values():
        raise error
    now = ((row, committed.values[row.group].get(row.tp)) for row in rows)
    if differences := [Difference(row.group, row.tp, row.old, at) for row, at in now if at != row.old]:
        raise PlanOutdated(differences)


def _change_of(difference: Difference) -> str:
    planned, found = difference.planned, difference.found
    if isinstance(found, KcliError):
        return f"may change: {found.message}"
    if planned is None or found is None or planned.offset != found.offset:
        before, now = (str(at.offset) if at is not None else "no offset" for at in (planned, found))
    else:
        before, now = (f"{at.offset} (epoch {at.leader_epoch}, {at.metadata!r})" for at in (planned, found))
    return f"had {before} when the plan was made, and has {now} now"


def refuse_unreachable(client: ConsumerNetworkClient, plan: OffsetPlan, deadline_ms: float) -> OffsetPlan:
    """Return the plan with moves refused whose new offset is outside the log now, or whose log bounds are unknown.

    A plan of kind "undo" is not checked, because an undo restores any offset.
    """
    moved = {row.tp for row in plan.rows if row.action == "move"}
    if plan.kind == "undo" or not moved:
        return plan
    bounds = settled_bounds(client, moved, deadline_ms)
    return replace(plan, rows=tuple(_in_bounds(row, bounds) for row in plan.rows))


def _in_bounds(row: OffsetRow, bounds: LogBounds) -> OffsetRow:
    if row.action != "move" or row.new is None:
        return row
    start, end = bounds.starts.get(row.tp), bounds.ends.get(row.tp)
    for error in (end, start):
        if isinstance(error, KcliError):
            return replace(row, new=None, action="refuse", why=error.message, error=error)
    if isinstance(start, int) and isinstance(end, int) and not start <= row.new.offset <= end:
        why = f"{where_outside(row.new.offset, start, end)} now"
        return replace(row, new=None, action="refuse", why=why)
    return row
