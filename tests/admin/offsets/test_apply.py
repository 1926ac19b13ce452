"""Plans applied in a cluster of three brokers: checks before the first write, refusals, and results by partition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.admin.groups.group import Group
from kcli.admin.offsets.apply import apply_plan
from kcli.admin.offsets.checks import GroupInUse, PlanOutdated, WrongCluster, in_use_reason
from kcli.admin.offsets.commits import batches, delete_offsets
from kcli.admin.offsets.offset_plan import OffsetPlan, OffsetRow, make_plan
from kcli.admin.plan import Applied, PlanRefused
from kcli.admin.snapshots import Snapshot, SnapshotError, SnapshotStore
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, IncompleteResponse, KcliError, OutcomeUnknown, Refused, TimeoutExpired
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kcli.protocol.registry import ApiKey
from kcli.structs import Node, OffsetAndMetadata, TopicPartition
from tests.admin.groups.group_cluster import CONSUMER, partitions
from tests.admin.offsets.offset_cluster import OffsetCluster
from tests.network.memory import MemoryPeer

T0, T1, T2 = partitions(0, 1, 2)
OLD = OffsetAndMetadata(40, 3, "by the app, caf\u00e9 \u0000\u2028")
NEW = OffsetAndMetadata(10, -1, OLD.metadata)


def move(group: str, tp: TopicPartition, old: OffsetAndMetadata | None = OLD) -> OffsetRow:
    return OffsetRow((group, tp), old, NEW, "move", "log start")


def plan_of(*rows: OffsetRow, cluster_id: str | None = "fake") -> OffsetPlan:
    return make_plan("reset", rows, 1_500_000_000_000, {row.group: "Empty" for row in rows}, cluster_id)


def cluster_of(*groups: str) -> OffsetCluster:
    return OffsetCluster({name: dict.fromkeys(partitions(0, 1, 2), OLD) for name in groups})


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "state" / "kcli" / "snapshots")


def apply(cluster: OffsetCluster, plan: OffsetPlan, store: SnapshotStore, deadline_ms: float = 10_000) -> Applied:
    with cluster.client() as client:
        return apply_plan(client, plan, store, deadline_ms)


def refusal(cluster: OffsetCluster, plan: OffsetPlan, store: SnapshotStore) -> KcliError:
    """Return the error, after asserting that nothing was written to a broker or to the disk."""
    before = {group: dict(offsets) for group, offsets in cluster.stored.items()}
    with pytest.raises(KcliError) as caught:
        apply(cluster, plan, store)
    assert cluster.writes == 0
    assert cluster.stored == before
    assert not store.ids()
    return caught.value


def codes(applied: Applied) -> dict[tuple[str, TopicPartition], ErrorCode]:
    return {key: error.code for key, error in applied.errors.items() if isinstance(error, BrokerError)}


# Writes


def test_a_plan_is_written_with_one_commit_per_group_after_its_snapshot(store: SnapshotStore) -> None:
    cluster = cluster_of("a", "b", "c", "d")
    seen: list[list[str]] = []
    cluster.before_write = lambda: seen.append(store.ids())
    applied = apply(cluster, plan_of(*(move(g, tp) for g in "abcd" for tp in (T0, T1, T2))), store)
    assert not applied.errors
    assert set(applied.results) == {(g, tp) for g in "abcd" for tp in (T0, T1, T2)}
    assert all(offsets == dict.fromkeys((T0, T1, T2), NEW) for offsets in cluster.stored.values())
    assert cluster.writes == 4
    assert seen == [[applied.snapshot_id]] * 4  # on the disk before the first commit
    assert cluster.count(ApiKey.FIND_COORDINATOR) <= 3  # to describe, to read again and to write; one request each


def test_rows_to_keep_or_skip_are_not_written_and_need_no_snapshot(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    rows = [OffsetRow(("g", T0), OLD, OLD, "keep"), OffsetRow(("g", T1), OLD, OLD, "skip")]
    assert apply(cluster, plan_of(*rows), store) == Applied({}, None)
    applied = apply(cluster, plan_of(*rows, move("g", T2)), store)
    assert list(applied.results) == [("g", T2)]
    assert cluster.stored["g"] == {T0: OLD, T1: OLD, T2: NEW}
    assert [change.key[1] for change in store.load(applied.snapshot_id or "").changes] == [T2]


def test_a_row_to_delete_removes_the_committed_offset(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    applied = apply(cluster, plan_of(OffsetRow(("g", T0), OLD, None, "delete"), move("g", T1)), store)
    assert applied.results == {("g", T0): None, ("g", T1): None}
    assert cluster.stored["g"] == {T1: NEW, T2: OLD}


def test_a_commit_creates_a_missing_group(store: SnapshotStore) -> None:
    cluster = cluster_of()
    assert not apply(cluster, plan_of(move("new", T0, None)), store).errors
    assert cluster.stored == {"new": {T0: NEW}}


def test_the_snapshot_is_reported_before_the_first_write(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    reported: list[tuple[str, int]] = []
    with cluster.client() as client:
        plan = plan_of(move("g", T0))
        store.on_write = lambda snapshot: reported.append((snapshot.id, cluster.writes))
        apply_plan(client, plan, store, 10_000)
    assert reported == [(store.ids()[0], 0)]


# Refused plans


def test_one_refused_row_refuses_the_plan(store: SnapshotStore) -> None:
    bad = OffsetRow(("g", T1), OLD, None, "refuse", "900 is after the log end 100")
    error = refusal(cluster_of("g"), plan_of(move("g", T0), bad, replace(bad, key=("g", T2))), store)
    assert isinstance(error, PlanRefused)
    assert isinstance(error, Refused)
    assert [row.tp for row in error.rows] == [T1, T2]
    assert "t-1 of group g and 1 more cannot be changed: 900 is after the log end 100" in str(error)


@pytest.mark.parametrize("kind", ["classic", CONSUMER])
@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"])
def test_a_group_in_use_is_refused_for_each_type(store: SnapshotStore, kind: str, state: str) -> None:
    """DescribeGroups returns the state Dead for a KIP-848 group, which tools may take for an idle group."""
    stored = {"idle": {T0: OLD}, "live": {T0: OLD}}
    cluster = OffsetCluster(stored)
    cluster.groups["live"] = cluster.groups["live"]._replace(state=state, kind=kind)
    error = refusal(cluster, plan_of(move("idle", T0), move("live", T0)), store)
    assert isinstance(error, GroupInUse)
    assert list(error.groups) == ["live"]
    assert f"group live is {state}" in str(error)


@pytest.mark.parametrize(("kind", "tool"), [("share", "kafka-share-groups.sh"), ("streams", "kafka-streams-groups.sh")])
def test_share_and_streams_groups_are_refused_even_when_empty(kind: str, tool: str) -> None:
    assert tool in (in_use_reason(Group("g", kind, "Empty", Node(1, "a", 9092))) or "")


@pytest.mark.parametrize("kind", ["classic", CONSUMER])
def test_an_empty_group_is_changed_for_each_type(store: SnapshotStore, kind: str) -> None:
    cluster = OffsetCluster({"g": {T0: OLD}}, kind=kind)
    assert not apply(cluster, plan_of(move("g", T0)), store).errors


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(OLD._replace(offset=41), id="offset"),
        pytest.param(OLD._replace(leader_epoch=4), id="epoch"),
        pytest.param(OLD._replace(metadata="by the app"), id="metadata"),
        pytest.param(None, id="gone"),
    ],
)
def test_a_commit_after_the_plan_refuses_it(store: SnapshotStore, now: OffsetAndMetadata | None) -> None:
    cluster = cluster_of("g")
    if now is None:
        del cluster.stored["g"][T1]
    else:
        cluster.stored["g"][T1] = now
    error = refusal(cluster, plan_of(move("g", T0), move("g", T1), OffsetRow(("g", T2), OLD, OLD, "keep")), store)
    assert isinstance(error, PlanOutdated)
    assert [(it.tp, it.planned, it.found) for it in error.differences] == [(T1, OLD, now)]
    assert "the plan is out of date: t-1 of group g had " in str(error)


def test_a_first_commit_and_a_commit_in_a_row_to_keep_refuse_the_plan(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    rows = [move("g", T0, None), OffsetRow(("g", T1), NEW, NEW, "keep"), OffsetRow(("g", T2), NEW, NEW, "skip")]
    error = refusal(cluster, plan_of(*rows), store)
    assert isinstance(error, PlanOutdated)
    assert [(it.tp, it.planned, it.found) for it in error.differences] == [(T0, None, OLD), (T1, NEW, OLD)]


def test_a_pending_transactional_offset_refuses_the_plan(store: SnapshotStore) -> None:
    """After the commit of the transaction, its offset replaces the one of the plan (KIP-447)."""
    cluster = cluster_of("g")
    cluster.pending = {T1}
    error = refusal(cluster, plan_of(move("g", T0), move("g", T1)), store)
    assert isinstance(error, PlanOutdated)
    assert "may change: UNSTABLE_OFFSET_COMMIT" in str(error)


def test_a_plan_for_another_cluster_is_refused(store: SnapshotStore) -> None:
    error = refusal(cluster_of("g"), plan_of(move("g", T0), cluster_id="elsewhere"), store)
    assert isinstance(error, WrongCluster)


@pytest.mark.parametrize("api", [ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH])
def test_an_unreadable_group_refuses_the_plan(store: SnapshotStore, api: ApiKey) -> None:
    cluster = cluster_of("g")
    cluster.errors[api, "g"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    error = refusal(cluster, plan_of(move("g", T0)), store)
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_without_a_snapshot_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "kcli").write_text("a file where the folder should be")
    error = refusal(cluster_of("g"), plan_of(move("g", T0)), SnapshotStore(tmp_path / "kcli" / "snapshots"))
    assert isinstance(error, SnapshotError)


# Failures during writes


def test_a_failed_partition_is_a_result_beside_the_others(store: SnapshotStore) -> None:
    cluster = cluster_of("a", "b")
    cluster.refusals = {T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    applied = apply(cluster, plan_of(*(move(g, tp) for g in "ab" for tp in (T0, T1))), store)
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(applied) == {("a", T1): gone, ("b", T1): gone}
    assert applied.results["a", T0] is applied.results["b", T0] is None
    assert applied.snapshot_id is not None


def test_members_that_joined_after_the_check_are_reported(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    cluster.faults.append(int(ErrorCode.UNKNOWN_MEMBER_ID))
    (error,) = apply(cluster, plan_of(move("g", T0)), store).errors.values()
    assert "UNKNOWN_MEMBER_ID: the group has members now" in str(error)


@pytest.mark.parametrize("fault", ["lost", 14, 15, 16, 7])
def test_a_write_is_retried_after_a_lost_request_or_a_moved_coordinator(store: SnapshotStore, fault: int | str) -> None:
    cluster = cluster_of("g")
    cluster.faults.append(fault)
    applied = apply(cluster, plan_of(move("g", T0), OffsetRow(("g", T1), OLD, None, "delete")), store)
    assert not applied.errors
    assert cluster.stored["g"] == {T0: NEW, T2: OLD}
    assert cluster.count(ApiKey.OFFSET_COMMIT) == 2


@pytest.mark.parametrize("fault", ["unanswered", "silent", "garbage"])
def test_a_lost_response_is_replaced_by_a_look_at_the_committed_offsets(store: SnapshotStore, fault: str) -> None:
    """All responses to changes are lost, all other responses arrive: every offset is written, and reported so."""
    cluster = cluster_of("a", "b", "c")
    cluster.last_fault = fault
    rows = [move(g, tp) for g in "abc" for tp in (T0, T1)] + [OffsetRow(("a", T2), OLD, None, "delete")]
    applied = apply(cluster, plan_of(*rows), store)
    assert not applied.errors
    assert cluster.stored == {
        "a": {T0: NEW, T1: NEW},
        "b": {T0: NEW, T1: NEW, T2: OLD},
        "c": {T0: NEW, T1: NEW, T2: OLD},
    }
    assert cluster.writes == 4  # none is repeated


def test_a_commit_that_is_neither_answered_nor_visible_has_an_unknown_outcome(store: SnapshotStore) -> None:
    """The request may wait somewhere on its way and be carried out later."""
    cluster = cluster_of("a", "b")
    cluster.answers[ApiKey.OFFSET_COMMIT] = lambda peer, request, version: (
        None if request.group_id == "a" else cluster._commit(peer, request, version)
    )
    applied = apply(cluster, plan_of(move("a", T0), move("b", T0)), store)
    assert isinstance(applied.results["a", T0], OutcomeUnknown)
    assert "the change was not visible, but may still be made" in str(applied.results["a", T0])
    assert applied.results["b", T0] is None
    assert applied.snapshot_id is not None
    assert cluster.clock.now_ms() == 10_000


@pytest.mark.parametrize("code", [7, 15])
def test_a_write_that_the_replicas_do_not_confirm_has_an_unknown_outcome(store: SnapshotStore, code: int) -> None:
    """The coordinator has appended the offsets, and shows them only when its replicas have them."""
    cluster = cluster_of("g")
    cluster.last_fault = code
    (error,) = apply(cluster, plan_of(move("g", T0)), store).errors.values()
    assert isinstance(error, OutcomeUnknown)
    assert ErrorCode(code).name in str(error)


def test_after_a_lost_response_and_without_a_look_the_outcome_is_unknown(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    cluster.last_fault = "unanswered"

    def answers_no_more() -> None:
        cluster.answers[ApiKey.OFFSET_FETCH] = lambda peer, *_: peer.reset()

    cluster.before_write = answers_no_more
    (error,) = apply(cluster, plan_of(move("g", T0)), store).errors.values()
    assert isinstance(error, OutcomeUnknown)
    assert "no look was possible: " in str(error)
    assert cluster.stored["g"][T0] == NEW


def test_a_request_that_was_not_sent_has_failed_for_certain(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    client = cluster.client()

    def unreachable(snapshot: Snapshot) -> None:
        for address in ("a:9092", "b:9092", "c:9092"):
            cluster.selector.refuse(address)
        for node in client.metadata.cluster.nodes.values():
            client.disconnect(node)

    with client:
        store.on_write = unreachable
        applied = apply_plan(client, plan_of(move("g", T0)), store, 10_000)
    assert isinstance(applied.results["g", T0], TimeoutExpired)
    assert cluster.writes == 0


def find_no_coordinator(cluster: OffsetCluster, *, is_complete: bool = True) -> None:
    """Let no later FindCoordinator succeed: COORDINATOR_NOT_AVAILABLE, or responses without the group."""

    def respond(_peer: MemoryPeer, request: Any, _version: int) -> FindCoordinatorResponse:
        keys = request.coordinator_keys if is_complete else []
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        found = [Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in keys]
        return FindCoordinatorResponse(coordinators=found)

    cluster.answers[ApiKey.FIND_COORDINATOR] = respond


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_group_whose_coordinator_is_not_found_has_failed_for_certain(
    store: SnapshotStore, *, is_complete: bool
) -> None:
    """No commit was sent, whatever the response to FindCoordinator was."""
    cluster = cluster_of("g")
    with cluster.client() as client:
        store.on_write = lambda _: find_no_coordinator(cluster, is_complete=is_complete)
        applied = apply_plan(client, plan_of(move("g", T0)), store, 10_000)
    assert type(applied.results["g", T0]) is (BrokerError if is_complete else IncompleteResponse)
    assert cluster.writes == 0
    assert cluster.clock.now_ms() == 10_000


def test_a_write_without_confirmation_is_unknown_although_the_coordinator_is_not_found_again(
    store: SnapshotStore,
) -> None:
    cluster = cluster_of("g")
    cluster.last_fault = int(ErrorCode.REQUEST_TIMED_OUT)
    cluster.before_write = lambda: find_no_coordinator(cluster)
    (error,) = apply(cluster, plan_of(move("g", T0)), store).errors.values()
    assert isinstance(error, OutcomeUnknown)
    assert "REQUEST_TIMED_OUT" in str(error)


def test_a_commit_that_is_too_large_is_halved_until_it_fits(
    store: SnapshotStore,
) -> None:
    many = partitions(*range(11))
    cluster = OffsetCluster({"g": dict.fromkeys(many, OLD)})
    cluster.max_partitions = 3
    assert not apply(cluster, plan_of(*(move("g", tp) for tp in many)), store).errors
    assert cluster.stored["g"] == dict.fromkeys(many, NEW)


def test_a_single_offset_that_is_too_large_is_an_error(store: SnapshotStore) -> None:
    cluster = cluster_of("g")
    cluster.max_partitions = 0
    applied = apply(cluster, plan_of(move("g", T0), move("g", T1)), store)
    assert codes(applied) == dict.fromkeys([("g", T0), ("g", T1)], ErrorCode.INVALID_COMMIT_OFFSET_SIZE)


def test_an_unknown_server_error_halves_large_commits_only(
    store: SnapshotStore,
) -> None:
    """Kafka 4.3.1 returns UNKNOWN_SERVER_ERROR for a commit of 300 offsets with 4 KiB of metadata; 250 are accepted."""
    noted = OLD._replace(metadata="n" * 4096)
    many = partitions(*range(20))
    cluster = OffsetCluster({"large": dict.fromkeys(many, noted), "small": dict.fromkeys(many, OLD)})
    cluster.max_partitions, cluster.too_large = 10, int(ErrorCode.UNKNOWN_SERVER_ERROR)
    rows = [replace(move("large", tp, noted), new=noted._replace(offset=0)) for tp in many]
    rows += [move("small", tp) for tp in many]
    applied = apply(cluster, plan_of(*rows), store)
    assert codes(applied) == {("small", tp): ErrorCode.UNKNOWN_SERVER_ERROR for tp in many}
    assert cluster.writes == 4


# The size of requests


def test_requests_are_divided_by_the_size_of_metadata() -> None:
    keys = [("group", tp) for tp in partitions(*range(1000))]
    assert list(batches(keys, dict.fromkeys(keys, OffsetAndMetadata(1)))) == [keys]
    divided = list(batches(keys, dict.fromkeys(keys, OffsetAndMetadata(1, metadata="n" * 4096))))
    assert len(divided) == 8
    assert [key for batch in divided for key in batch] == keys
    assert list(batches([], {})) == []


def test_requests_are_limited_to_a_number_of_partitions() -> None:
    keys = [("group", tp) for tp in partitions(*range(7))]
    changes = dict.fromkeys(keys, OffsetAndMetadata(1))
    assert [len(batch) for batch in batches(keys, changes, dict.fromkeys(keys, 3))] == [3, 3, 1]


# Deletion


def test_a_deletion_has_an_error_for_each_refused_partition() -> None:
    cluster = cluster_of("g")
    cluster.refusals = {T1: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    with cluster.client() as client:
        found = delete_offsets(client, "g", [T0, T1], 10_000)
    assert found.values == {T0: None}
    assert str(found.errors[T1]).startswith("GROUP_SUBSCRIBED_TO_TOPIC")
    assert cluster.stored["g"] == {T1: OLD, T2: OLD}


def test_a_deletion_in_a_missing_group_is_an_error_except_at_a_retry() -> None:
    cluster = OffsetCluster({"g": {T0: OLD}})
    cluster.faults.append("unanswered")
    with cluster.client() as client:
        assert delete_offsets(client, "g", [T0], 10_000).values == {T0: None}  # the first request deleted it
        error = delete_offsets(client, "g", [T0], 20_000).errors[T0]
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
