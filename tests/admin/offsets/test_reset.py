"""Facts for plans in a cluster of three brokers: number of requests, scopes, failures, and previews."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcli.admin.offsets.offset_plan import (
    ABSENT,
    WHOLE_TOPIC,
    FromOffsets,
    OffsetRow,
    PartitionFacts,
    Scope,
    Target,
    ToCurrent,
)
from kcli.admin.offsets.preview import preview
from kcli.admin.offsets.reset import GroupFacts, gather_facts
from kcli.cli.exit_status import INCOMPLETE, status_of
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, KcliError, TimeoutExpired
from kcli.log_place import LOG_START, Place
from kcli.protocol.messages import describe_log_dirs
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.registry import ApiKey
from kcli.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from tests.admin.groups.group_cluster import FakeGroup, GroupCluster, at, partitions

T0, T1, T2 = partitions(0, 1, 2)


def gathered(
    cluster: GroupCluster, *groups: str, scope: Scope = None, target: Target | None = None
) -> Results[str, GroupFacts]:
    return gather_facts(cluster.client(), groups, scope, target or LOG_START, 10_000)


def facts_of(cluster: GroupCluster, **how: Any) -> list[PartitionFacts]:
    found = gathered(cluster, "g", **how)
    assert not found.errors
    return found.values["g"].partitions


def code(error: KcliError | None) -> ErrorCode:
    assert isinstance(error, BrokerError), error
    return error.code


def idle(node: int = 1, committed: dict[TopicPartition, int] | None = None) -> FakeGroup:
    return FakeGroup(node, committed=committed or {}, state="Empty")


# Number of requests


def test_the_number_of_requests_depends_on_brokers_only() -> None:
    cluster = GroupCluster({f"g{n}": idle(1 + n % 3, at(40, range(90))) for n in range(30)})
    cluster.topics["t"] = {number: (1 + number % 3, 5) for number in range(90)}
    found = gathered(cluster, *cluster.groups, target=Place.time(1_000))
    assert not found.errors
    assert list(found.values) == list(cluster.groups)
    assert all(len(it.partitions) == 90 for it in found.values.values())
    assert cluster.count(ApiKey.LIST_OFFSETS) == 9  # ends, starts, and the time
    assert cluster.count(ApiKey.OFFSET_FETCH) == 3
    assert cluster.count(ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE) <= 6
    assert cluster.count(ApiKey.FIND_COORDINATOR) == 1
    assert cluster.count(ApiKey.METADATA) <= 2


def test_committed_offsets_are_requested_before_log_bounds() -> None:
    cluster = GroupCluster({"g": idle(2, {T0: 40})})
    facts_of(cluster)
    asked = [it.request.API_KEY for it in cluster.asked]
    assert asked.index(ApiKey.OFFSET_FETCH) < asked.index(ApiKey.LIST_OFFSETS)


# Scopes


def test_the_default_scope_is_every_partition_of_the_committed_topics() -> None:
    cluster = GroupCluster({"g": idle(1, {T1: 40})})
    cluster.topics["other"] = {0: (1, 5)}
    assert facts_of(cluster) == [
        PartitionFacts(T0, None, 10, 100),
        PartitionFacts(T1, OffsetAndMetadata(40, 3), 10, 100),
        PartitionFacts(T2, None, 10, 100),
    ]


def test_a_scope_includes_partitions_without_committed_offsets() -> None:
    cluster = GroupCluster({"g": idle(1, {T1: 40})})
    cluster.topics["other"] = {0: (1, 5), 1: (2, 5)}
    found = facts_of(cluster, scope={"other": None, "t": [2, 0]})
    assert [fact.tp for fact in found] == [TopicPartition("other", 0), TopicPartition("other", 1), T0, T2]
    assert not any(fact.committed or fact.error for fact in found)


def test_given_offsets_are_the_scope_of_each_group() -> None:
    cluster = GroupCluster({"g": idle(1, {T0: 40}), "h": idle(2)})
    given = OffsetAndMetadata(50)
    target = FromOffsets({("g", T2): given, ("h", T1): given})
    found = gathered(cluster, "g", "h", target=target).values
    assert {name: [fact.tp for fact in it.partitions] for name, it in found.items()} == {"g": [T2], "h": [T1]}
    narrowed = facts_of(GroupCluster({"g": idle(1, {T0: 40})}), scope={"t": [0]}, target=target)
    assert narrowed == [PartitionFacts(T0, OffsetAndMetadata(40, 3), 10, 100)]


def test_offsets_for_times_are_requested_for_time_targets_only() -> None:
    (fact,) = facts_of(GroupCluster({"g": idle(1, {T0: 40})}), scope={"t": [0]}, target=Place.time(1_000))
    assert fact.at_time == OffsetAndTimestamp(10)
    cluster = GroupCluster({"g": idle(1, {T0: 40})})
    (fact,) = facts_of(cluster, scope={"t": [0]}, target=ToCurrent())
    assert fact.at_time is None
    assert cluster.count(ApiKey.LIST_OFFSETS) == 2


# States


def test_facts_have_the_group_state_and_a_missing_group_is_not_an_error() -> None:
    cluster = GroupCluster({"live": FakeGroup(1, (T0,), {T0: 40}), "idle": idle(2, {T0: 41})})
    found = gathered(cluster, "idle", "new", "live", scope={"t": [0]})
    assert not found.errors
    assert {name: it.state for name, it in found.values.items()} == {"idle": "Empty", "new": ABSENT, "live": "Stable"}
    assert list(found.values) == ["idle", "new", "live"]
    assert found.values["new"].group is None
    assert found.values["new"].partitions == [PartitionFacts(T0, None, 10, 100)]


@pytest.mark.parametrize("api", [ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH])
def test_an_unreadable_group_is_an_error_beside_the_others(api: ApiKey) -> None:
    cluster = GroupCluster({"g": idle(1, {T0: 40}), "h": idle(1, {T0: 41})})
    cluster.errors[api, "g"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    found = gathered(cluster, "g", "h")
    assert list(found.values) == ["h"]
    assert code(found.errors["g"]) == ErrorCode.GROUP_AUTHORIZATION_FAILED


# Failures of partitions


def test_a_missing_topic_is_one_fact_with_an_error() -> None:
    cluster = GroupCluster({"g": idle(1, {T0: 40})})
    found = facts_of(cluster, scope={"gone": None, "t": [0]})
    assert [fact.tp for fact in found] == [TopicPartition("gone", WHOLE_TOPIC), T0]
    assert [fact.error and code(fact.error) for fact in found] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None]


def test_a_committed_offset_of_a_deleted_topic_is_a_fact_with_an_error() -> None:
    lost = TopicPartition("gone", 3)
    cluster = GroupCluster({"g": idle(1, {lost: 40, T0: 40})})
    first, *others = facts_of(cluster)
    assert (first.tp, first.committed, first.end) == (lost, OffsetAndMetadata(40, 3), None)
    assert code(first.error) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not any(fact.error for fact in others)


def test_the_error_of_a_missing_partition_has_the_partition_count() -> None:
    cluster = GroupCluster({"g": idle(1)})
    first, second = facts_of(cluster, scope={"t": [1, 7]})
    assert first.error is None
    assert code(second.error) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "t has 3 partitions" in str(second.error)


def test_a_partition_without_a_leader_is_an_error_after_a_short_wait() -> None:
    cluster = GroupCluster({"g": idle(1, at(40, (0, 1)))})
    cluster.topics["t"][1] = (-1, 5)
    began_ms = cluster.clock.now_ms()
    found = facts_of(cluster, target=Place.time(1_000))
    assert cluster.clock.now_ms() - began_ms < 2_000
    assert code(found[1].error) == ErrorCode.LEADER_NOT_AVAILABLE
    assert found[1].committed == OffsetAndMetadata(40, 3)
    assert [fact.at_time is not None for fact in found] == [True, False, True]


def test_an_unstable_committed_offset_is_an_error_of_its_partition() -> None:
    cluster = GroupCluster({"g": idle(1, at(40, (0, 1)))})
    cluster.errors[ApiKey.OFFSET_FETCH, T1] = ErrorCode.UNSTABLE_OFFSET_COMMIT
    found = facts_of(cluster)
    assert [fact.error and code(fact.error) for fact in found] == [None, ErrorCode.UNSTABLE_OFFSET_COMMIT, None]
    assert found[1].committed is None


@pytest.mark.parametrize("target", [LOG_START, Place.time(1_000)])
def test_a_leader_that_is_not_ready_is_asked_until_the_deadline(target: Target) -> None:
    """OFFSET_NOT_AVAILABLE after a leader change ended a reset with status 4 after 11 of 30 s."""
    cluster = GroupCluster({"g": idle(1, at(40, (0, 1, 2)))})
    cluster.errors[ApiKey.LIST_OFFSETS, T1] = ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.selector.at(9_000, cluster.errors.clear)
    found = facts_of(cluster, target=target)
    assert [(fact.start, fact.end, fact.error) for fact in found] == [(10, 100, None)] * 3
    assert 9_000 <= cluster.clock.now_ms() < 10_000


def test_a_retriable_error_at_the_deadline_is_the_error_of_its_partition_only() -> None:
    cluster = GroupCluster({"g": idle(1, at(40, (0, 1, 2))), "h": idle(2, at(40, (0,)))})
    cluster.errors[ApiKey.LIST_OFFSETS, T1] = ErrorCode.OFFSET_NOT_AVAILABLE
    found = gathered(cluster, "g", "h")
    assert 9_900 <= cluster.clock.now_ms() <= 10_000
    first, second, third = found.values["g"].partitions
    assert (first.error, code(second.error), third.error) == (None, ErrorCode.OFFSET_NOT_AVAILABLE, None)
    assert status_of(BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE)) == INCOMPLETE


@pytest.mark.parametrize("api", [ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH])
def test_a_loading_coordinator_is_asked_until_the_deadline(api: ApiKey) -> None:
    cluster = GroupCluster({"g": idle(1, {T0: 40}), "h": idle(2, {T0: 41})})
    cluster.errors[api, "g"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.selector.at(9_000, cluster.errors.clear)
    found = gathered(cluster, "g", "h")
    assert not found.errors
    assert list(found.values) == ["g", "h"]


# Previews


def moves(to: int, numbers: Any = (0, 1, 2), group: str = "g", skipped: int = 20) -> list[OffsetRow]:
    new = OffsetAndMetadata(to)
    return [OffsetRow((group, tp), OffsetAndMetadata(20), new, "move", skipped=skipped) for tp in partitions(*numbers)]


def sizes(cluster: GroupCluster, size: int) -> None:
    def answer(_peer: Any, request: Any, _version: int) -> Any:
        topics = [
            describe_log_dirs.DescribeLogDirsTopic(
                name=topic.topic,
                partitions=[
                    describe_log_dirs.DescribeLogDirsPartition(partition_index=number, partition_size=size)
                    for number in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return describe_log_dirs.DescribeLogDirsResponse(
            results=[describe_log_dirs.DescribeLogDirsResult(log_dir="/data", topics=topics)]
        )

    cluster.answers[ApiKey.DESCRIBE_LOG_DIRS] = answer


def batch(base: int, value: bytes = b"v", count: int = 3) -> bytes:
    return build_batch([NewRecord(timestamp_ms=base, key=b"k", value=value)] * count, base_offset=base)


def test_a_preview_takes_one_fetch_and_one_size_request_for_each_leader() -> None:
    cluster = GroupCluster({})
    cluster.records = {tp: batch(40) for tp in (T0, T1, T2)}
    sizes(cluster, 9_000)
    shown = preview(cluster.client(), moves(40), 10_000)
    assert not shown.errors
    assert [row.first and row.first.offset for row in shown.rows] == [40, 40, 40]
    assert [row.bytes for row in shown.rows] == [2_000] * 3  # 20 of the 90 offsets
    assert [replace(row, first=None, bytes=None) for row in shown.rows] == moves(40)
    assert cluster.count(ApiKey.FETCH) == 3
    assert cluster.count(ApiKey.DESCRIBE_LOG_DIRS) == 3


def test_equal_target_offsets_are_fetched_once_and_others_in_turn() -> None:
    cluster = GroupCluster({})
    cluster.records = {T0: batch(40) + batch(43)}
    sizes(cluster, 9_000)
    rows = [*moves(40, [0]), *moves(40, [0], "h"), *moves(44, [0], "i")]
    shown = preview(cluster.client(), rows, 10_000)
    assert [row.first and row.first.offset for row in shown.rows] == [40, 40, 44]
    assert cluster.count(ApiKey.FETCH) == 2


def test_a_refused_row_has_no_preview_and_the_log_end_has_no_record() -> None:
    cluster = GroupCluster({})
    sizes(cluster, 9_000)
    refused = OffsetRow(("g", T1), OffsetAndMetadata(20), None, "refuse", "900 is after the log end 100")
    shown = preview(cluster.client(), [*moves(100, [0], skipped=80), refused], 10_000)
    assert not shown.errors
    assert shown.rows[0].first is None
    assert shown.rows[0].bytes == 8_000
    assert shown.rows[1] == refused
    assert [p.partition for it in cluster.requests(ApiKey.FETCH) for p in it.request.topics[0].partitions] == [0]


def test_without_authorization_for_sizes_bytes_are_estimated_from_the_batch() -> None:
    cluster = GroupCluster({})
    cluster.records = {T0: batch(40)}
    cluster.answers[ApiKey.DESCRIBE_LOG_DIRS] = lambda *_: describe_log_dirs.DescribeLogDirsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    (row,) = preview(cluster.client(), moves(40, [0]), 10_000).rows
    assert row.bytes == round(len(batch(40)) * 20 / 3)


def test_a_preview_of_large_batches_ends_after_a_few_fetches() -> None:
    """A response has only one batch above its limit, so a preview of many partitions would take many fetches."""
    cluster = GroupCluster({})
    cluster.topics["t"] = dict.fromkeys(range(12), (1, 5))
    tps = partitions(*range(12))
    cluster.records = dict.fromkeys(tps, batch(40, value=bytes(2_200_000), count=1))
    sizes(cluster, 9_000)
    shown = preview(cluster.client(), moves(40, range(12)), 10_000)
    assert cluster.count(ApiKey.FETCH) == 6
    assert sum(row.first is not None for row in shown.rows) == 6
    assert len(shown.errors) == 6
    assert all(isinstance(error, TimeoutExpired) and "6 requests" in str(error) for error in shown.errors.values())


def test_a_damaged_batch_is_an_error_of_its_partition() -> None:
    cluster = GroupCluster({})
    damaged = bytearray(batch(40))
    damaged[61:] = b"\xff" * (len(damaged) - 61)
    cluster.records = {T0: bytes(damaged), T1: batch(40)}
    sizes(cluster, 9_000)
    shown = preview(cluster.client(), moves(40, [0, 1]), 10_000)
    assert [row.first is not None for row in shown.rows] == [False, True]
    assert list(shown.errors) == [T0]


def test_a_preview_does_not_wait_for_a_leader() -> None:
    cluster = GroupCluster({})
    cluster.records = {T0: batch(40)}
    cluster.topics["t"][1] = (-1, 5)
    sizes(cluster, 9_000)
    began_ms = cluster.clock.now_ms()
    shown = preview(cluster.client(), moves(40, [0, 1]), 10_000)
    assert cluster.clock.now_ms() - began_ms < 500
    assert [(row.first is not None, row.bytes) for row in shown.rows] == [(True, 2_000), (False, None)]
