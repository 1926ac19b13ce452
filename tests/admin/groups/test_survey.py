"""Surveys of groups in a cluster of three brokers: number and order of requests, older brokers, and failures."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.admin.groups.committed_offsets import committed_offsets
from kcli.admin.groups.describe import describe_groups
from kcli.admin.groups.listing import list_groups
from kcli.admin.groups.survey import survey_groups
from kcli.admin.logs.record_times import RecordTime, record_times
from kcli.client.requests import Results
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, TimeoutExpired, UnsupportedVersion
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.records.builder import NewRecord, build_batch
from kcli.protocol.registry import ApiKey
from kcli.structs import OffsetAndMetadata, TopicPartition
from tests.admin.groups.group_cluster import CONSUMER, FakeGroup, GroupCluster, at, partitions

T0, T1, T2 = partitions(0, 1, 2)
GROUP_APIS = (ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.OFFSET_FETCH)


def codes(found: Results[Any, Any]) -> dict[Any, ErrorCode]:
    return {key: error.code for key, error in found.errors.items() if isinstance(error, BrokerError)}


# Number of requests


def test_the_number_of_requests_depends_on_brokers_not_on_groups() -> None:
    groups = {f"g{n}": FakeGroup(1 + n % 3, partitions(n % 3), at(40, (0, 1, 2))) for n in range(60)}
    cluster = GroupCluster(groups)
    found = survey_groups(cluster.client(), dict.fromkeys(groups, "classic"), 10_000)
    assert not found.errors
    assert list(found.values) == list(groups)
    assert all([row.lag for row in survey.partitions] == [60, 60, 60] for survey in found.values.values())
    assert cluster.count(ApiKey.FIND_COORDINATOR) == 1
    assert cluster.count(ApiKey.DESCRIBE_GROUPS) == 3
    assert cluster.count(ApiKey.OFFSET_FETCH) == 3
    assert cluster.count(ApiKey.LIST_OFFSETS) == 6
    assert cluster.count(ApiKey.METADATA) <= 2
    assert not cluster.requests(ApiKey.CONSUMER_GROUP_DESCRIBE)


def test_committed_offsets_are_requested_before_end_offsets() -> None:
    """Otherwise a group that keeps up would have committed offsets beyond the end offsets."""
    cluster = GroupCluster({"g": FakeGroup(2, (T0,), at(100, [0]))})
    (survey,) = survey_groups(cluster.client(), ["g"], 10_000).values.values()
    asked = [it.request.API_KEY for it in cluster.asked]
    assert max(i for i, key in enumerate(asked) if key == ApiKey.OFFSET_FETCH) < asked.index(ApiKey.LIST_OFFSETS)
    assert survey.partitions[0].lag == 0
    assert survey.committed_ms <= survey.ends_ms


def test_a_described_group_has_its_coordinator() -> None:
    cluster = GroupCluster({"g": FakeGroup(3)})
    found = describe_groups(cluster.client(), {"g": None}, 10_000)
    assert found.values["g"].coordinator == cluster.nodes[3]


# Types


def test_an_unknown_type_is_found_at_the_coordinator_of_the_group() -> None:
    cluster = GroupCluster({"new": FakeGroup(1, kind=CONSUMER), "old": FakeGroup(2)})
    found = describe_groups(cluster.client(), {"old": None, "new": None, "none": None}, 10_000)
    assert {name: group.type for name, group in found.values.items()} == {"old": "classic", "new": "consumer"}
    assert list(found.values) == ["old", "new"]
    assert codes(found) == {"none": ErrorCode.GROUP_ID_NOT_FOUND}
    assert cluster.count(ApiKey.LIST_GROUPS) == 0


def test_a_group_of_known_type_takes_one_request() -> None:
    cluster = GroupCluster({"new": FakeGroup(1, kind=CONSUMER), "old": FakeGroup(2)})
    describe_groups(cluster.client(), {"old": "classic", "new": "consumer"}, 10_000)
    assert cluster.count(*GROUP_APIS) == 2


def test_a_group_that_changed_its_type_after_the_listing_is_described() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, kind=CONSUMER)})
    assert describe_groups(cluster.client(), {"g": "classic"}, 10_000).values["g"].type == "consumer"


def test_an_unsupported_group_type_is_not_reported_as_a_missing_group() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, kind="swarm")})
    error = describe_groups(cluster.client(), {"g": "swarm"}, 10_000).errors["g"]
    assert isinstance(error, UnsupportedVersion)
    assert "swarm" in str(error)


def test_an_authorization_error_is_returned_without_trying_another_api() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, kind=CONSUMER)})
    cluster.errors[ApiKey.CONSUMER_GROUP_DESCRIBE, "g"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert codes(describe_groups(cluster.client(), {"g": None}, 10_000)) == {"g": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    assert not cluster.requests(ApiKey.DESCRIBE_GROUPS)


# Older brokers


def test_a_broker_of_2_3_gets_one_request_for_each_group_in_its_versions() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, (T0,), at(40, [0, 1])), "h": FakeGroup(2, (), at(50, [2]))})
    del cluster.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
    cluster.versions |= {
        ApiKey.FIND_COORDINATOR: (0, 2),
        ApiKey.DESCRIBE_GROUPS: (0, 4),
        ApiKey.OFFSET_FETCH: (0, 5),
        ApiKey.LIST_GROUPS: (0, 2),
    }
    client = cluster.client()
    found = survey_groups(client, ["g", "h", "none"], 10_000)
    assert {name: [row.lag for row in it.partitions] for name, it in found.values.items()} == {"g": [60, 60], "h": [50]}
    assert codes(found) == {"none": ErrorCode.GROUP_ID_NOT_FOUND}  # an old broker returns the state Dead
    listed = list_groups(client, 10_000, types=["Classic"])
    assert [group.group for groups in listed.values.values() for group in groups] == ["g", "h"]


def test_a_top_level_error_of_an_old_offset_fetch_belongs_to_the_group() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    cluster.versions[ApiKey.OFFSET_FETCH] = (0, 7)
    cluster.errors[ApiKey.OFFSET_FETCH, "g"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    found = committed_offsets(cluster.client(), ["g"], 10_000)
    assert codes(found) == {"g": ErrorCode.GROUP_AUTHORIZATION_FAILED}


# Listing


def test_groups_are_listed_by_broker_in_order_and_filters_ignore_case() -> None:
    groups = {"z": FakeGroup(1), "a": FakeGroup(1, kind=CONSUMER), "m": FakeGroup(3, state="Empty")}
    cluster = GroupCluster(groups)
    client = cluster.client()
    assert [[group.group for group in it] for it in list_groups(client, 10_000).values.values()] == [
        ["a", "z"],
        [],
        ["m"],
    ]
    only = list_groups(client, 10_000, states=["EMPTY"], types=["Classic"])
    assert [group.group for it in only.values.values() for group in it] == ["m"]
    request = cluster.requests(ApiKey.LIST_GROUPS)[-1].request
    assert request == ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"])


def test_an_unreachable_broker_is_an_error_under_its_node_and_the_others_list_their_groups() -> None:
    cluster = GroupCluster({"a": FakeGroup(1), "b": FakeGroup(2)})
    cluster.selector.refuse("b:9092")
    found = list_groups(cluster.connect("a:9092"), 10_000)
    assert [group.group for it in found.values.values() for group in it] == ["a"]
    assert list(found.errors) == [cluster.nodes[2]]
    assert cluster.clock.now_ms() <= 5_000  # half of the time remains for other requests


def test_a_filter_of_states_needs_brokers_that_return_states() -> None:
    cluster = GroupCluster({"a": FakeGroup(1)})
    cluster.versions[ApiKey.LIST_GROUPS] = (0, 3)
    found = list_groups(cluster.client(), 10_000, states=["Stable"])
    assert not found.values
    assert {type(error) for error in found.errors.values()} == {UnsupportedVersion}


# Failures


def test_a_moved_coordinator_is_looked_up_again_for_its_groups_only() -> None:
    cluster = GroupCluster({"stays": FakeGroup(1), "moves": FakeGroup(2)})
    describe = cluster.answers[ApiKey.DESCRIBE_GROUPS]

    def move(peer: Any, request: Any, version: int) -> Any:
        cluster.groups["moves"] = FakeGroup(3)
        return describe(peer, request, version)

    cluster.answers[ApiKey.DESCRIBE_GROUPS] = move
    found = describe_groups(cluster.client(), {"stays": "classic", "moves": "classic"}, 10_000)
    assert found.values["moves"].coordinator == cluster.nodes[3]
    assert [asked.request.coordinator_keys for asked in cluster.requests(ApiKey.FIND_COORDINATOR)] == [
        ["stays", "moves"],
        ["moves"],
    ]


def test_an_unreachable_broker_affects_only_its_groups_and_partitions() -> None:
    cluster = GroupCluster({"lives": FakeGroup(1, (T0, T1, T2), at(40, [0, 1])), "dies": FakeGroup(2, (T0,))})
    cluster.selector.refuse("b:9092")
    found = survey_groups(cluster.connect("a:9092"), {"lives": "classic", "dies": "classic"}, 20_000)
    assert list(found.errors) == ["dies"]
    assert isinstance(found.errors["dies"], TimeoutExpired)
    rows = found.values["lives"].partitions
    assert [(row.tp, row.lag, row.error is None) for row in rows] == [
        (T0, 60, True),
        (T1, None, False),
        (T2, None, True),
    ]
    assert [row.start for row in rows] == [10, None, 10]
    assert cluster.clock.now_ms() <= 20_000


def test_a_partition_without_a_leader_is_an_error_in_its_row_after_a_short_wait() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, (), at(40, [0, 1]))})
    cluster.topics["t"][1] = (-1, 6)
    (survey,) = survey_groups(cluster.client(), ["g"], 30_000).values.values()
    assert [row.lag for row in survey.partitions] == [60, None]
    error = survey.partitions[1].error
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.LEADER_NOT_AVAILABLE
    assert cluster.clock.now_ms() <= 2_000


def test_a_leader_that_is_not_ready_is_asked_until_the_deadline() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, partitions(0, 1), at(40, (0, 1)))})
    cluster.errors[ApiKey.LIST_OFFSETS, T1] = ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.selector.at(9_000, cluster.errors.clear)
    survey = survey_groups(cluster.client(), ["g"], 10_000).values["g"]
    assert [(row.end, row.error) for row in survey.partitions] == [(100, None)] * 2


def test_a_deleted_topic_is_an_error_in_the_rows_of_its_partitions() -> None:
    gone = TopicPartition("gone", 0)
    cluster = GroupCluster({"g": FakeGroup(1, (), {gone: 3, T0: 40})})
    (survey,) = survey_groups(cluster.client(), ["g"], 30_000).values.values()
    by_partition = {row.tp: row for row in survey.partitions}
    assert by_partition[T0].lag == 60
    error = by_partition[gone].error
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_partition[gone].committed == OffsetAndMetadata(3, 3)
    assert cluster.clock.now_ms() < 1_000  # one wait of half a second, because brokers learn of a new topic late


def test_unreadable_committed_offsets_are_the_error_of_the_survey() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, (T0,)), "h": FakeGroup(1, (), at(40, [1]))})
    cluster.errors[ApiKey.OFFSET_FETCH, "g"] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    cluster.errors[ApiKey.OFFSET_FETCH, T1] = ErrorCode.UNSTABLE_OFFSET_COMMIT
    found = survey_groups(cluster.client(), ["g", "h"], 10_000).values
    error = found["g"].error
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [row.tp for row in found["g"].partitions] == [T0]
    assert found["h"].error is None
    row_error = found["h"].partitions[0].error
    assert isinstance(row_error, BrokerError)
    assert row_error.code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_no_reachable_broker_raises() -> None:
    cluster = GroupCluster({})
    for address in ("a:9092", "b:9092", "c:9092"):
        cluster.selector.refuse(address)
    with pytest.raises(TimeoutExpired):
        survey_groups(cluster.client(), ["g"], 5_000)


def test_the_isolation_level_applies_to_end_offsets_only() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, (T0,))})
    survey_groups(cluster.client(), ["g"], 10_000, isolation_level=1)
    asked: list[ListOffsetsRequest] = [it.request for it in cluster.requests(ApiKey.LIST_OFFSETS)]
    assert [(it.topics[0].partitions[0].timestamp, it.isolation_level) for it in asked] == [(-1, 1), (-2, 0)]


def test_a_loading_coordinator_is_retried() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    cluster.errors[ApiKey.DESCRIBE_GROUPS, "g"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.selector.at(1_500, lambda: cluster.errors.clear())
    assert describe_groups(cluster.client(), {"g": "classic"}, 10_000).values["g"].state == "Stable"


@pytest.mark.parametrize("api", [ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH])
def test_a_survey_asks_a_loading_coordinator_until_the_deadline(api: ApiKey) -> None:
    cluster = GroupCluster({"h": FakeGroup(2, (T1,), at(40, (1,))), "g": FakeGroup(1, (T0,), at(40, (0,)))})
    cluster.errors[api, "h"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.selector.at(9_000, cluster.errors.clear)
    found = survey_groups(cluster.client(), ["h", "g"], 10_000)
    assert not found.errors
    assert {name: (it.error, it.partitions[0].lag) for name, it in found.values.items()} == {
        "h": (None, 60),
        "g": (None, 60),
    }
    assert list(found.values) == ["h", "g"]


# Times of records


def batch(base: int, *times_ms: int, value: bytes = b"") -> bytes:
    return build_batch([NewRecord(timestamp_ms=ms, key=None, value=value) for ms in times_ms], base_offset=base)


def test_record_times_take_one_fetch_for_each_leader() -> None:
    cluster = GroupCluster({})
    cluster.records = {T0: batch(40, 1, 2, 3), T1: batch(40, 4), T2: batch(38, 5, 6, 7)}
    found = record_times(cluster.client(), {T0: [41], T1: [40], T2: [40]}, 10_000)
    assert found.values == {(T0, 41): RecordTime(41, 2), (T1, 40): RecordTime(40, 4), (T2, 40): RecordTime(40, 7)}
    assert cluster.count(ApiKey.FETCH) == 3


def test_a_large_batch_is_fetched_again_with_a_larger_limit() -> None:
    cluster = GroupCluster({})
    cluster.topics["t"] = dict.fromkeys(range(3), (1, 5))
    cluster.records = {
        tp: batch(40, 1, value=bytes(size)) for tp, size in ((T0, 9_000), (T1, 300_000), (T2, 5_000_000))
    }
    found = record_times(cluster.client(), {T0: [40], T1: [40], T2: [40]}, 10_000)
    assert found.values == dict.fromkeys([(tp, 40) for tp in (T0, T1, T2)], RecordTime(40, 1))
    assert cluster.count(ApiKey.FETCH) <= 3


def test_a_survey_requests_times_only_for_partitions_with_lag() -> None:
    cluster = GroupCluster({"g": FakeGroup(1, (T2,), {T0: 100, T1: 40}), "h": FakeGroup(2, (), {T1: 41})})
    cluster.records[T1] = batch(40, cluster.clock.wall_ms() - 5_000, cluster.clock.wall_ms() - 3_000)
    found = survey_groups(cluster.client(), ["g", "h"], 10_000, time_lag=True).values
    assert [(row.tp, row.time_lag_ms) for row in found["g"].partitions] == [(T0, 0), (T1, 5_000), (T2, None)]
    assert [(row.tp, row.time_lag_ms) for row in found["h"].partitions] == [(T1, 3_000)]
    fetched = [it.request.topics[0].partitions for it in cluster.requests(ApiKey.FETCH)]
    assert sorted((p.partition, p.fetch_offset) for parts in fetched for p in parts) == [(1, 40)]


def test_offsets_in_one_response_are_not_requested_again() -> None:
    cluster = GroupCluster({})
    cluster.topics["t"] = dict.fromkeys(range(3), (1, 5))
    large = batch(60, 6, value=bytes(9_000))
    cluster.records = {
        T0: batch(40, 1, 2, 3) + batch(43, 4) + batch(50, 5),
        T1: batch(38, 7, 8, 9) + large,
    }
    found = record_times(cluster.client(), {T0: [43, 40, 42, 45], T1: [39, 60, 55]}, 10_000)
    assert found.values == {
        (T0, 40): RecordTime(40, 1),
        (T0, 42): RecordTime(42, 3),
        (T0, 43): RecordTime(43, 4),
        (T0, 45): RecordTime(50, 5),
        (T1, 39): RecordTime(39, 8),
        (T1, 55): RecordTime(60, 6),
        (T1, 60): RecordTime(60, 6),
    }
    assert not found.errors
    fetched = [p.fetch_offset for it in cluster.requests(ApiKey.FETCH) for p in it.request.topics[0].partitions]
    assert fetched == [40, 39, 39]  # the large batch needs a larger limit


def test_a_repeated_group_name_is_requested_once() -> None:
    cluster = GroupCluster({"g": FakeGroup(1)})
    survey_groups(cluster.client(), ["g", "g"], 10_000)
    found: list[FindCoordinatorRequest] = [it.request for it in cluster.requests(ApiKey.FIND_COORDINATOR)]
    assert [it.coordinator_keys for it in found] == [["g"]]
