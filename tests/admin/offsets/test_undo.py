"""Plans to undo a change that was applied completely or in part."""

from __future__ import annotations

from uuid import UUID

from kcli.admin.groups.group import Group
from kcli.admin.offsets.offset_plan import WHOLE_TOPIC, PartitionFacts, Plan
from kcli.admin.offsets.reset import GroupFacts
from kcli.admin.offsets.undo import undo_plan
from kcli.admin.snapshots import OFFSETS, Change, Snapshot
from kcli.client.metadata import Cluster, TopicInfo
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.structs import Node, OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BEFORE = OffsetAndMetadata(40, 3, "by the app")
AFTER = OffsetAndMetadata(10, -1, "by the app")
ID = UUID(int=1)
CLUSTER = Cluster("a", topics={"t": TopicInfo("t", ID)})
EMPTY = Group("g", "classic", "Empty", Node(1, "h", 9092))


def snapshot(*changes: Change) -> Snapshot:
    return Snapshot("id", 1_706_695_200_123, OFFSETS, "reset", "a", "h:9092", changes, {"t": str(ID)})


def undone(
    *facts: PartitionFacts,
    before: OffsetAndMetadata | None = BEFORE,
    cluster: Cluster = CLUSTER,
    errors: dict[str, KcliError] | None = None,
) -> Plan:
    changes = [Change(("g", tp), before, AFTER) for tp in (T0,)]
    found = Results({} if errors else {"g": GroupFacts(EMPTY, list(facts))}, errors)
    return undo_plan(snapshot(*changes), found, cluster, 1_706_695_300_000)


def summary(plan: Plan) -> list[tuple[object, ...]]:
    return [(row.tp, row.old, row.new, row.action, row.why) for row in plan.rows]


def at(committed: OffsetAndMetadata | None, start: int = 0, end: int = 100) -> PartitionFacts:
    return PartitionFacts(T0, committed, start, end)


WHEN = "before the reset of 2024-01-31T10:00:00.123Z"


def test_a_moved_offset_is_restored_with_leader_epoch_and_metadata() -> None:
    plan = undone(at(AFTER))
    assert summary(plan) == [(T0, AFTER, BEFORE, "move", f"as {WHEN}")]
    assert (plan.rows[0].reread, plan.rows[0].skipped) == (0, 30)
    assert (plan.kind, plan.cluster_id, dict(plan.states)) == ("undo", "a", {"g": "Empty"})


def test_an_offset_that_was_not_changed_before_a_crash_is_kept() -> None:
    assert summary(undone(at(BEFORE))) == [(T0, BEFORE, BEFORE, "keep", f"as {WHEN}")]
    assert summary(undone(at(None), before=None)) == [(T0, None, None, "keep", f"as {WHEN}")]


def test_a_different_leader_epoch_or_metadata_is_restored() -> None:
    for now in (BEFORE._replace(leader_epoch=-1), BEFORE._replace(metadata="")):
        assert [row.action for row in undone(at(now)).rows] == ["move"]


def test_an_offset_that_did_not_exist_before_is_deleted() -> None:
    plan = undone(at(AFTER), before=None)
    assert summary(plan) == [(T0, AFTER, None, "delete", f"no committed offset {WHEN}")]


def test_a_later_commit_of_another_client_is_stated() -> None:
    since = OffsetAndMetadata(90, 4)
    plan = undone(at(since))
    assert summary(plan) == [(T0, since, BEFORE, "move", f"as {WHEN}; another client has committed since")]
    assert (plan.rows[0].reread, plan.rows[0].skipped) == (50, 0)


def test_a_deleted_offset_is_committed_again() -> None:
    change = Change(("g", T0), BEFORE, None)
    found = Results({"g": GroupFacts(None, [at(None)])})
    (row,) = undo_plan(snapshot(change), found, CLUSTER, 0).rows
    assert (row.old, row.new, row.action, row.why) == (None, BEFORE, "move", f"as {WHEN}")


def test_an_offset_outside_the_log_is_restored_with_a_remark() -> None:
    assert undone(at(AFTER, start=50)).rows[0].why == f"as {WHEN}; the log starts at 50 now"
    assert undone(at(AFTER, end=30)).rows[0].why == f"as {WHEN}; the log ends at 30 now"


def test_unknown_log_bounds_do_not_prevent_an_undo() -> None:
    leaderless = PartitionFacts(T0, AFTER, error=TimeoutExpired("t-0 has no leader"))
    assert [(row.action, row.reread, row.skipped) for row in undone(leaderless).rows] == [("move", 0, 0)]


def test_a_deleted_or_recreated_topic_is_skipped() -> None:
    """Kafka deletes offsets with their topic. An old offset has no meaning in a new log."""
    error = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for gone in (PartitionFacts(T0, error=error), PartitionFacts(TopicPartition("t", WHOLE_TOPIC), error=error)):
        assert summary(undone(gone)) == [(T0, None, None, "skip", "the topic or partition does not exist any more")]
    other = Cluster("a", topics={"t": TopicInfo("t", UUID(int=2))})
    (row,) = undone(at(None), cluster=other).rows
    assert (row.action, row.why) == ("skip", "the topic was deleted and recreated since")


def test_without_topic_ids_a_topic_is_assumed_to_be_the_same() -> None:
    old = Cluster("a", topics={"t": TopicInfo("t")})
    assert [row.action for row in undone(at(AFTER), cluster=old).rows] == ["move"]


def test_an_unreadable_group_is_refused() -> None:
    error = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, group="g")
    plan = undone(errors={"g": error})
    assert [(row.action, row.error) for row in plan.rows] == [("refuse", error)]
    assert plan.refused


def test_other_partitions_are_not_in_the_plan() -> None:
    plan = undone(at(AFTER), PartitionFacts(T1, BEFORE, 0, 100))
    assert [row.tp for row in plan.rows] == [T0]
