"""Plans that delete the oldest records, from literals; the deletion on a broker that answers from a script."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from kcli.admin.plan import Plan
from kcli.admin.topic_changes.truncation import (
    GroupPositions,
    Truncation,
    apply_truncation,
    delete_records,
    plan_row,
)
from kcli.admin.topics import Bounds
from kcli.client.config import ClientConfig
from kcli.client.connect import connect
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, OutcomeUnknown, Refused, TimeoutExpired
from kcli.log_place import LOG_END, Place
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.registry import ApiKey
from kcli.structs import TopicPartition
from tests.cli.loopback import loopback_broker
from tests.client.fake_cluster import FakeCluster
from tests.network.memory import MemoryPeer

TP = TopicPartition("t", 0)
NOBODY = GroupPositions({})


@pytest.mark.parametrize(
    ("cut", "at_time", "before"),
    [
        (Place.offset(40), None, 40),
        (Place.offset(5), None, 5),
        (Place.after_start(3), None, 13),
        (Place.after_start(1000), None, 50),
        (LOG_END, None, 50),
        (Place.before_end(8), None, 42),
        (Place.before_end(1000), None, 10),
        (Place.time(1_700_000_000_000), 30, 30),
        (Place.time(1_700_000_000_000), -1, 50),
    ],
)
def test_the_first_record_to_keep(cut: Place, at_time: int | None, before: int) -> None:
    row = plan_row(TP, Bounds(10, 50), cut, at_time, NOBODY)
    assert (row.new, row.records, row.error) == (before, max(0, before - 10), None)


def test_an_offset_after_the_end_is_refused() -> None:
    row = plan_row(TP, Bounds(10, 50), Place.offset(51), None, NOBODY)
    assert isinstance(row.error, Refused)
    assert "t-0 ends at offset 50, before 51" in row.error.message
    assert row.records is None


@pytest.mark.parametrize(("committed", "unread"), [(0, 30), (10, 30), (25, 15), (40, None), (50, None)])
def test_groups_that_have_not_read_the_deleted_records(committed: int, unread: int | None) -> None:
    groups = GroupPositions({"billing": {TP: committed}, "elsewhere": {TopicPartition("t", 1): 0}})
    row = plan_row(TP, Bounds(10, 50), Place.offset(40), None, groups)
    assert row.unread == ({} if unread is None else {"billing": unread})


def test_a_partition_that_loses_nothing_has_no_unread_records() -> None:
    row = plan_row(TP, Bounds(10, 50), Place.offset(10), None, GroupPositions({"billing": {TP: 3}}))
    assert (row.records, row.unread) == (0, {})
    assert Plan("truncate", (row,)).changes == []


def test_unknown_groups_are_not_shown_as_none() -> None:
    groups = GroupPositions({}, (TimeoutExpired("no answer"),))
    assert plan_row(TP, Bounds(10, 50), Place.offset(40), None, groups).unread is None


def test_a_refused_row_prevents_the_whole_plan() -> None:
    refused = Truncation(TP, error=Refused("no"))
    plan = Plan("truncate", (Truncation(TopicPartition("t", 1), 0, 5, end=9), refused))
    with loopback_broker(topics={"t": 2}) as broker:
        config = ClientConfig.from_properties({"bootstrap.servers": broker.address})
        with closing(connect(config)) as client, pytest.raises(Refused, match="no"):
            apply_truncation(client, plan, client.clock.now_ms() + 5_000)
    assert broker.requests == []


def test_the_leader_is_asked_for_each_partition_and_an_error_is_its_row() -> None:
    def answer(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        DeleteRecordsPartitionResult(
                            partition_index=it.partition_index,
                            low_watermark=it.offset if it.partition_index == 0 else -1,
                            error_code=0 if it.partition_index == 0 else ErrorCode.POLICY_VIOLATION,
                        )
                        for it in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    before = {TP: 7, TopicPartition("t", 1): 9}
    with loopback_broker({DeleteRecordsRequest: answer}, topics={"t": 2}) as broker:
        config = ClientConfig.from_properties({"bootstrap.servers": broker.address})
        with closing(connect(config)) as client:
            client.topics_metadata(["t"], client.clock.now_ms() + 5_000)
            results = delete_records(client, before, client.clock.now_ms() + 5_000)
    assert results.values == {TP: 7}
    (error,) = results.errors.values()
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.POLICY_VIOLATION
    (sent,) = [request for request in broker.requests if isinstance(request, DeleteRecordsRequest)]
    assert 0 < sent.timeout_ms < 5_000


def test_a_deletion_whose_response_is_lost_is_looked_up_at_the_leader() -> None:
    cluster = FakeCluster("a:9092")
    cluster.topics["t"] = {0: (1, 0)}

    def cut(peer: MemoryPeer, _request: Any, _version: int) -> None:
        peer.reset()

    def starts(_peer: MemoryPeer, _request: Any, _version: int) -> ListOffsetsResponse:
        found = ListOffsetsPartitionResponse(partition_index=0, offset=8)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    cluster.answers |= {ApiKey.DELETE_RECORDS: cut, ApiKey.LIST_OFFSETS: starts}
    with cluster.connect("a:9092") as client:
        client.topics_metadata(["t"], 10_000)
        done = delete_records(client, {TP: 7}, 10_000)
        unknown = delete_records(client, {TP: 9}, client.clock.now_ms() + 10_000)
    assert (done.values, done.errors) == ({TP: 8}, {})
    assert isinstance(unknown.errors[TP], OutcomeUnknown)
