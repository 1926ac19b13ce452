"""Application of plans: check the assumptions again, save a snapshot, then write the offsets.

The deletion of groups is here too, because it deletes their committed offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.group import SHARE
from kcli.admin.groups.removal import delete_groups
from kcli.admin.logs.log_bounds import learn_topics
from kcli.admin.offsets.checks import check_cluster, check_commits, check_groups
from kcli.admin.offsets.commits import commit_many, delete_many, delete_offsets
from kcli.admin.plan import Applied, write_saved
from kcli.admin.snapshots import OFFSETS, Change, Snapshot, SnapshotStore, new_snapshot
from kcli.client.requests import half_deadline
from kcli.errors import KcliError
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.offset_plan import OffsetPlan, OffsetRow
    from kcli.client.consumer_network_client import ConsumerNetworkClient


def apply_plan(
    client: ConsumerNetworkClient,
    plan: OffsetPlan,
    snapshots: SnapshotStore,
    deadline_ms: float,
) -> Applied:
    """Write the rows of the plan as an administrator, from outside the groups.

    Errors before anything is written: PlanRefused for a refused row, WrongCluster, GroupInUse for a group with members
    or of a type that has its own tools, PlanOutdated for a committed offset that has changed since, SnapshotError if
    the snapshot cannot be saved. A partition that fails afterwards is an error beside the other results.
    """
    plan.check()
    check_cluster(client, plan.cluster_id, deadline_ms)
    topics = {row.tp.topic for row in plan.changes}
    learn_topics(client, topics, half_deadline(client, deadline_ms))  # the snapshot has the topic ids
    check_groups(client, plan.groups, deadline_ms)
    check_commits(client, plan.rows, deadline_ms)
    if not plan.changes:
        return Applied({})
    snapshot = _snapshot_of(client, plan.kind, [Change(row.key, row.old, row.new) for row in plan.changes])
    keys = [row.key for row in plan.changes]
    return plan.outcome(*write_saved(snapshots, snapshot, keys, lambda: _write(client, plan.changes, deadline_ms)))


def _snapshot_of(client: ConsumerNetworkClient, kind: str, changes: list[Change]) -> Snapshot:
    topics = client.metadata.cluster.topics
    known = (topics.get(topic) for topic in sorted({tp.topic for _, tp in (change.key for change in changes)}))
    ids = {topic.name: str(topic.topic_id) for topic in known if topic is not None and topic.topic_id is not None}
    return new_snapshot(client, OFFSETS, kind, changes, ids)


def apply_group_deletion(
    client: ConsumerNetworkClient,
    groups: Collection[str],
    snapshots: SnapshotStore,
    deadline_ms: float,
) -> Applied:
    """Save the committed offsets of these groups, then delete the groups; errors as of `removal.delete_groups`.

    The offsets of a group with members are not saved, because the broker refuses to delete it, and neither are those of
    a share group, which undo could not restore. Errors before anything is deleted are raised: offsets that cannot be
    read, and SnapshotError.
    """
    described = describe_groups(client, dict.fromkeys(groups), half_deadline(client, deadline_ms))
    idle = [name for name, group in described.values.items() if not group.members and group.type != SHARE]
    snapshot = _committed(client, "group-delete", dict.fromkeys(idle), deadline_ms)
    errors, undo = write_saved(snapshots, snapshot, idle, lambda: delete_groups(client, groups, deadline_ms).errors)
    return Applied({name: errors.get(name) for name in groups}, undo)


def apply_offset_deletion(
    client: ConsumerNetworkClient,
    group: str,
    partitions: Collection[TopicPartition],
    snapshots: SnapshotStore,
    deadline_ms: float,
) -> Applied:
    """Save the committed offsets of a group in these partitions, then delete them; errors as of `delete_offsets`.

    Unlike a plan, it deletes the offsets of topics that no member of the group reads, and reports the others.
    """
    snapshot = _committed(client, "delete", {group: partitions}, deadline_ms)
    errors, undo = write_saved(
        snapshots, snapshot, partitions, lambda: delete_offsets(client, group, partitions, deadline_ms).errors
    )
    return Applied({tp: errors.get(tp) for tp in partitions}, undo)


def _committed(
    client: ConsumerNetworkClient,
    kind: str,
    partitions: Mapping[str, Collection[TopicPartition] | None],
    deadline_ms: float,
) -> Snapshot | None:
    """Return a snapshot of the committed offsets that a deletion removes, by group; None: all partitions of the group.

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
                changes.append(Change((group, tp), at, None))
    if not changes:
        return None
    learn_topics(client, {tp.topic for _, tp in (change.key for change in changes)}, half_deadline(client, deadline_ms))
    return _snapshot_of(client, kind, changes)


def _write(
    client: ConsumerNetworkClient, rows: list[OffsetRow], deadline_ms: float
) -> Mapping[tuple[str, TopicPartition], KcliError]:
    moves: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    deletions: dict[str, dict[TopicPartition, None]] = {}
    for row in rows:
        if row.new is not None:
            moves.setdefault(row.group, {})[row.tp] = row.new
        else:
            deletions.setdefault(row.group, {})[row.tp] = None
    outcomes = commit_many(client, moves, deadline_ms) | delete_many(client, deletions, deadline_ms)
    return {key: error for key, error in outcomes.items() if error is not None}
