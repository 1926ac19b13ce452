"""Plans carried out: what they assumed is looked at again, a snapshot is kept, and only then offsets are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcli.admin.groups.bounds import learn_topics
from kcli.admin.groups.patience import half_of
from kcli.admin.offsets.commit import commit_many
from kcli.admin.offsets.deletion import forget
from kcli.admin.offsets.inspection import check_cluster, check_commits, check_groups
from kcli.admin.offsets.snapshots import Change, Snapshot, SnapshotStore, new_id
from kcli.errors import KcliError, Refused
from kcli.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kcli.admin.offsets.plan import Plan, Row
    from kcli.client.consumer_network_client import ConsumerNetworkClient


class PlanRefused(Refused):
    """Some rows cannot be carried out, so none is. `rows` are those."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        first = self.rows[0]
        more = f" and {len(self.rows) - 1} more" if len(self.rows) > 1 else ""
        super().__init__(f"{first.tp} of group {first.group}{more} cannot be done as planned: {first.why}")


class Applied(NamedTuple):
    """What became of each row that was to be written: None: done; else why not, or why that is not known.

    `snapshot_id` leads back; None where there was nothing to write.
    """

    results: dict[tuple[str, TopicPartition], KcliError | None]
    snapshot_id: str | None

    @property
    def errors(self) -> dict[tuple[str, TopicPartition], KcliError]:
        """The rows that failed."""
        return {key: error for key, error in self.results.items() if error is not None}


def apply_plan(
    client: ConsumerNetworkClient,
    plan: Plan,
    snapshots: SnapshotStore,
    deadline_ms: float,
    *,
    announce: Callable[[Snapshot], object] = lambda _: None,
) -> Applied:
    """Write the plan's rows as an administrator, who is no member of the groups.

    Before anything is written: PlanRefused for a row that cannot be done, WrongCluster, GroupInUse for a group with
    members or of a type that has its own tools, PlanOutdated when a committed offset is no longer what the plan was
    made from, SnapshotError when the way back cannot be kept. `announce` hears of the snapshot before the first write.
    A partition that fails afterwards is a result beside the others.
    """
    if plan.refused:
        raise PlanRefused(plan.refused)
    check_cluster(client, plan.cluster_id, deadline_ms)
    topics = {row.tp.topic for row in plan.changes}
    learn_topics(client, topics, half_of(client, deadline_ms))  # the snapshot tells their ids
    check_groups(client, plan.groups, deadline_ms)
    check_commits(client, plan.rows, deadline_ms)
    if not plan.changes:
        return Applied({}, None)
    snapshot = _snapshot_of(client, plan)
    snapshots.write(snapshot)
    announce(snapshot)
    return Applied(_write(client, plan.changes, deadline_ms), snapshot.id)


def _snapshot_of(client: ConsumerNetworkClient, plan: Plan) -> Snapshot:
    now_ms, cluster = client.clock.wall_ms(), client.metadata.cluster
    changes = tuple(Change(row.group, row.tp, row.old, row.new) for row in plan.changes)
    known = (cluster.topics.get(topic) for topic in sorted({change.tp.topic for change in changes}))
    return Snapshot(
        new_id(now_ms),
        now_ms,
        plan.kind,
        cluster.cluster_id,
        client.config.bootstrap_servers,
        changes,
        {topic.name: str(topic.topic_id) for topic in known if topic is not None and topic.topic_id is not None},
    )


def _write(
    client: ConsumerNetworkClient, rows: list[Row], deadline_ms: float
) -> dict[tuple[str, TopicPartition], KcliError | None]:
    moves: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    gone: dict[str, dict[TopicPartition, None]] = {}
    for row in rows:
        if row.new is not None:
            moves.setdefault(row.group, {})[row.tp] = row.new
        else:
            gone.setdefault(row.group, {})[row.tp] = None
    outcomes = commit_many(client, moves, deadline_ms) | forget(client, gone, deadline_ms)
    return {(row.group, row.tp): outcomes[row.group, row.tp] for row in rows}
