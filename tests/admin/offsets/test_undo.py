"""The way back, from wherever an execute has got to: literals in, rows out."""

from __future__ import annotations

from uuid import UUID

from kcli.admin.groups.group import Group
from kcli.admin.offsets.offset_plan import WHOLE_TOPIC, PartitionFacts, Plan
from kcli.admin.offsets.reset import GroupFacts
from kcli.admin.offsets.snapshots import Change, Snapshot
from kcli.admin.offsets.undo import undo_plan
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
    return Snapshot("id", 1_706_695_200_123, "reset", "a", "h:9092", changes, {"t": str(ID)})


def undone(
    *facts: PartitionFacts,
    before: OffsetAndMetadata | None = BEFORE,
    cluster: Cluster = CLUSTER,
    errors: dict[str, KcliError] | None = None,
) -> Plan:
    changes = [Change("g", tp, before, AFTER) for tp in (T0,)]
    found = Results({} if errors else {"g": GroupFacts(EMPTY, list(facts))}, errors)
    return undo_plan(snapshot(*changes), found, cluster, 1_706_695_300_000)


def told(plan: Plan) -> list[tuple[object, ...]]:
    return [(row.tp, row.old, row.new, row.action, row.why) for row in plan.rows]


def at(committed: OffsetAndMetadata | None, start: int = 0, end: int = 100) -> PartitionFacts:
    return PartitionFacts(T0, committed, start, end)


WHEN = "before the reset of 2024-01-31T10:00:00.123Z"


def test_what_was_moved_comes_back_with_its_epoch_and_note() -> None:
    plan = undone(at(AFTER))
    assert told(plan) == [(T0, AFTER, BEFORE, "move", f"as {WHEN}")]
    assert (plan.rows[0].reread, plan.rows[0].skipped) == (0, 30)
    assert (plan.kind, plan.cluster_id, dict(plan.states)) == ("undo", "a", {"g": "Empty"})


def test_what_was_not_reached_before_a_crash_is_kept() -> None:
    assert told(undone(at(BEFORE))) == [(T0, BEFORE, BEFORE, "keep", f"as {WHEN}")]
    assert told(undone(at(None), before=None)) == [(T0, None, None, "keep", f"as {WHEN}")]


def test_an_offset_that_is_the_same_but_for_its_epoch_or_note_is_not_yet_as_it_was() -> None:
    for now in (BEFORE._replace(leader_epoch=-1), BEFORE._replace(metadata="")):
        assert [row.action for row in undone(at(now)).rows] == ["move"]


def test_what_had_no_commit_has_none_again() -> None:
    plan = undone(at(AFTER), before=None)
    assert told(plan) == [(T0, AFTER, None, "delete", f"no committed offset {WHEN}")]


def test_what_others_committed_since_is_said() -> None:
    since = OffsetAndMetadata(90, 4)
    plan = undone(at(since))
    assert told(plan) == [(T0, since, BEFORE, "move", f"as {WHEN}; another client has committed since")]
    assert (plan.rows[0].reread, plan.rows[0].skipped) == (50, 0)


def test_what_was_deleted_is_committed_again() -> None:
    change = Change("g", T0, BEFORE, None)
    found = Results({"g": GroupFacts(None, [at(None)])})
    (row,) = undo_plan(snapshot(change), found, CLUSTER, 0).rows
    assert (row.old, row.new, row.action, row.why) == (None, BEFORE, "move", f"as {WHEN}")


def test_an_offset_that_has_left_the_log_comes_back_all_the_same_and_that_is_said() -> None:
    assert undone(at(AFTER, start=50)).rows[0].why == f"as {WHEN}; the log starts at 50 now"
    assert undone(at(AFTER, end=30)).rows[0].why == f"as {WHEN}; the log ends at 30 now"


def test_bounds_that_are_not_known_keep_nobody_from_going_back() -> None:
    leaderless = PartitionFacts(T0, AFTER, error=TimeoutExpired("t-0 has no leader"))
    assert [(row.action, row.reread, row.skipped) for row in undone(leaderless).rows] == [("move", 0, 0)]


def test_a_topic_that_is_gone_or_was_made_anew_is_left_alone() -> None:
    """Offsets go with their topic: to commit an old one in a new log would lose a position, not bring one back."""
    error = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for gone in (PartitionFacts(T0, error=error), PartitionFacts(TopicPartition("t", WHOLE_TOPIC), error=error)):
        assert told(undone(gone)) == [(T0, None, None, "skip", "the topic or partition does not exist any more")]
    other = Cluster("a", topics={"t": TopicInfo("t", UUID(int=2))})
    (row,) = undone(at(None), cluster=other).rows
    assert (row.action, row.why) == ("skip", "the topic was deleted and recreated since")


def test_a_cluster_that_tells_no_topic_ids_is_believed() -> None:
    old = Cluster("a", topics={"t": TopicInfo("t")})
    assert [row.action for row in undone(at(AFTER), cluster=old).rows] == ["move"]


def test_a_group_that_cannot_be_looked_at_is_refused() -> None:
    error = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, group="g")
    plan = undone(errors={"g": error})
    assert [(row.action, row.error) for row in plan.rows] == [("refuse", error)]
    assert plan.refused


def test_facts_of_other_partitions_do_not_matter() -> None:
    plan = undone(at(AFTER), PartitionFacts(T1, BEFORE, 0, 100))
    assert [row.tp for row in plan.rows] == [T0]
