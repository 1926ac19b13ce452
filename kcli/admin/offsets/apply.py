"""Application of plans: check the assumptions again, save a snapshot, then write the offsets.

The deletion of groups is here too, because it deletes their committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import SHARE
from kcli.admin.groups.removal import delete_groups
from kcli.admin.logs.log_bounds import learn_topics
from kcli.admin.offsets.checks import check_cluster, check_commits, check_groups
from kcli.admin.offsets.commits import commit_many, delete_many, delete_offsets
from kcli.admin.offsets.snapshots import Change, Snapshot, SnapshotStore
from kcli.admin.state_files import new_id
from kcli.client.requests import half_deadline
from kcli.errors import KcliError, OutcomeUnknown, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import Plan, Row
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.client.requests import Results


class PlanRefused(Refused):
    """The plan has refused rows, so nothing is written. `rows` are the refused ones."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        first = self.rows[0]
        more = f" and {len(self.rows) - 1} more" if len(self.rows) > 1 else ""
        super().__init__(f"{first.tp} of group {first.group}{more} cannot be changed: {first.why}")


class Applied(NamedTuple):
    """Outcome of each row to write: None if it is written, else its error; OutcomeUnknown if it may be written.

    `snapshot_id` is the id for an undo, None if nothing was written.
    """

    results: dict[tuple[str, TopicPartition], KcliError | None]
    snapshot_id: str | None

    @property
    def errors(self) -> dict[tuple[str, TopicPartition], KcliError]:
        """Errors of the rows that failed."""
        return {key: error for key, error in self.results.items() if error is not None}


def apply_plan(
    client: ConsumerNetworkClient,
    plan: Plan,
    snapshots: SnapshotStore,
    deadline_ms: float,
    *,
    on_snapshot: Callable[[Snapshot], object] = lambda _: None,
) -> Applied:
    """Write the rows of the plan as an administrator, from outside the groups.

    Errors before anything is written: PlanRefused for a refused row, WrongCluster, GroupInUse for a group with members
    or of a type that has its own tools, PlanOutdated for a committed offset that has changed since, SnapshotError if
    the snapshot cannot be saved. `on_snapshot` is called with the snapshot before the first write. A partition that
    fails afterwards is an error beside the other results.
    """
    if plan.refused:
        raise PlanRefused(plan.refused)
    check_cluster(client, plan.cluster_id, deadline_ms)
    topics = {row.tp.topic for row in plan.changes}
    learn_topics(client, topics, half_deadline(client, deadline_ms))  # the snapshot has the topic ids
    check_groups(client, plan.groups, deadline_ms)
    check_commits(client, plan.rows, deadline_ms)
    if not plan.changes:
        return Applied({}, None)
    snapshot = _snapshot_of(client, plan.kind, [Change(row.group, row.tp, row.old, row.new) for row in plan.changes])
    snapshots.write(snapshot)
    on_snapshot(snapshot)
    results = _write(client, plan.changes, deadline_ms)
    return Applied(results, None if _discard_if_unused(snapshots, snapshot, results) else snapshot.id)


def _snapshot_of(client: ConsumerNetworkClient, kind: str, changes: Iterable[Change]) -> Snapshot:
    now_ms, cluster = client.clock.wall_ms(), client.metadata.cluster
    changes = tuple(changes)
    known = (cluster.topics.get(topic) for topic in sorted({change.tp.topic for change in changes}))
    return Snapshot(
        new_id(now_ms),
        now_ms,
        kind,
        cluster.cluster_id,
        client.config.bootstrap_servers,
        changes,
        {topic.name: str(topic.topic_id) for topic in known if topic is not None and topic.topic_id is not None},
    )


def apply_group_deletion(
    client: ConsumerNetworkClient,
    groups: Collection[str],
    snapshots: SnapshotStore,
    deadline_ms: float,
    *,
    on_snapshot: Callable[[Snapshot], object] = lambda _: None,
) -> Results[str, None]:
    """Save the committed offsets of these groups, then delete the groups; results as of `removal.delete_groups`.

    The offsets of a group with members are not saved, because the broker refuses to delete it, and neither are those of
    a share group, which undo could not restore. Errors before anything is deleted are raised: offsets that cannot be
    read, and SnapshotError.
    """
    described = describe_groups(client, dict.fromkeys(groups), half_deadline(client, deadline_ms))
    idle = [name for name, group in described.values.items() if not group.members and group.type != SHARE]
    snapshot = _save(client, "group-delete", dict.fromkeys(idle), snapshots, deadline_ms, on_snapshot)
    results = delete_groups(client, groups, deadline_ms)
    _discard_if_unused(snapshots, snapshot, {name: results.errors.get(name) for name in idle})
    return results


def apply_offset_deletion(
    client: ConsumerNetworkClient,
    group: str,
    partitions: Collection[TopicPartition],
    snapshots: SnapshotStore,
    deadline_ms: float,
    *,
    on_snapshot: Callable[[Snapshot], object] = lambda _: None,
) -> Results[TopicPartition, None]:
    """Save the committed offsets of a group in these partitions, then delete them; results as of `delete_offsets`.

    Unlike a plan, it deletes the offsets of topics that no member of the group reads, and reports the others.
    """
    snapshot = _save(client, "delete", {group: partitions}, snapshots, deadline_ms, on_snapshot)
    results = delete_offsets(client, group, partitions, deadline_ms)
    _discard_if_unused(snapshots, snapshot, {tp: results.errors.get(tp) for tp in partitions})
    return results


def _discard_if_unused(
    snapshots: SnapshotStore, snapshot: Snapshot | None, outcomes: Mapping[Any, KcliError | None]
) -> bool:
    """Remove the snapshot and return True if certainly nothing was changed: an undo would have nothing to restore."""
    if snapshot is None or not all(e is not None and not isinstance(e, OutcomeUnknown) for e in outcomes.values()):
        return False
    snapshots.discard(snapshot.id)
    return True


def _save(
    client: ConsumerNetworkClient,
    kind: str,
    partitions: Mapping[str, Collection[TopicPartition] | None],
    snapshots: SnapshotStore,
    deadline_ms: float,
    on_snapshot: Callable[[Snapshot], object],
) -> Snapshot | None:
    """Save a snapshot of the committed offsets that a deletion removes, by group; None: all of the group's partitions.

    Without committed offsets there is no snapshot. An offset that cannot be read is raised.
    """
    committed = committed_offsets(client, partitions, half_deadline(client, deadline_ms))
    for error in committed.errors.values():
        raise error
    changes = []
    for group, chosen in partitions.items():
        for tp, at in sorted(committed.values[group].items()):
            if chosen is None or tp in chosen:
                if isinstance(at, KcliError):
                    raise at
                changes.append(Change(group, tp, at, None))
    if not changes:
        return None
    learn_topics(client, {change.tp.topic for change in changes}, half_deadline(client, deadline_ms))
    snapshot = _snapshot_of(client, kind, changes)
    snapshots.write(snapshot)
    on_snapshot(snapshot)
    return snapshot


def _write(
    client: ConsumerNetworkClient, rows: list[Row], deadline_ms: float
) -> dict[tuple[str, TopicPartition], KcliError | None]:
    moves: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    deletions: dict[str, dict[TopicPartition, None]] = {}
    for row in rows:
        if row.new is not None:
            moves.setdefault(row.group, {})[row.tp] = row.new
        else:
            deletions.setdefault(row.group, {})[row.tp] = None
    outcomes = commit_many(client, moves, deadline_ms) | delete_many(client, deletions, deadline_ms)
    return {(row.group, row.tp): outcomes[row.group, row.tp] for row in rows}
