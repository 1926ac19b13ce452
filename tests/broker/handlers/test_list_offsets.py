"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch, as observed on Apache Kafka 4.3.1 without tiered storage."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.handlers.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kcli.broker.replication.isr import Follower
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kcli.structs import TopicPartition
from tests.broker.rig import Answer, Rig, batch

T0 = 1_500_000_000_000


@pytest.fixture
def rig() -> Rig:
    """Create a partition with offsets 0-5 at times T0, T0+1, T0+2, T0+100, T0+101, T0+50."""
    rig = Rig()
    rig.topic("t", partitions=2)
    for records in (batch("a", "b", "c"), batch("d", "e", now_ms=T0 + 100), batch("f", now_ms=T0 + 50)):
        rig.replica_manager.append_internal(TopicPartition("t", 0), records, T0)
    return rig


def list_offsets(rig: Rig, timestamp: int, version: int = 11, *, index: int = 0, **options: Any) -> tuple[int, ...]:
    """Return error, offset, timestamp and leader epoch."""
    fields = {"current_leader_epoch": options.pop("epoch")} if "epoch" in options else {}
    topic = options.pop("topic", "t")
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
    request = ListOffsetsRequest(
        **{"replica_id": -1, **options}, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    [topic_answer] = rig.ask(request, version).topics
    [one] = topic_answer.partitions
    return one.error_code, one.offset, one.timestamp, one.leader_epoch


def deletion(offset: int, topic: str = "t", index: int = 0) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=1000)


def result(response: DeleteRecordsResponse) -> tuple[int, int]:
    """Return error and low watermark of the only partition."""
    [one] = response.topics[0].partitions
    return one.error_code, one.low_watermark


def delete_records(rig: Rig, offset: int, topic: str = "t", index: int = 0) -> tuple[int, int]:
    """Return error and low watermark."""
    return result(rig.ask(deletion(offset, topic, index), 2))


class TestListOffsets:
    @pytest.mark.parametrize(
        ("timestamp", "version", "answer"),
        [
            (LATEST, 1, (0, 6, -1, -1)),
            (LATEST, 7, (0, 6, -1, 0)),
            (EARLIEST, 7, (0, 0, -1, 0)),
            (MAX_TIMESTAMP, 7, (0, 4, T0 + 101, 0)),
            (EARLIEST_LOCAL, 8, (0, 0, -1, 0)),
            (LATEST_TIERED, 9, (0, -1, -1, -1)),
            (EARLIEST_PENDING_UPLOAD, 11, (0, -1, -1, -1)),
            (MAX_TIMESTAMP, 6, (35, -1, -1, -1)),
            (EARLIEST_LOCAL, 7, (35, -1, -1, -1)),
            (LATEST_TIERED, 8, (35, -1, -1, -1)),
            (EARLIEST_PENDING_UPLOAD, 10, (35, -1, -1, -1)),
            (-7, 11, (35, -1, -1, -1)),
            (0, 7, (0, 0, T0, 0)),
            (T0 + 1, 7, (0, 1, T0 + 1, 0)),
            (T0 + 3, 7, (0, 3, T0 + 100, 0)),
            (T0 + 102, 7, (0, -1, -1, -1)),
        ],
    )
    def test_timestamps_and_special_values(
        self, rig: Rig, timestamp: int, version: int, answer: tuple[int, ...]
    ) -> None:
        assert list_offsets(rig, timestamp, version) == answer

    def test_empty_partition(self, rig: Rig) -> None:
        answers = {timestamp: list_offsets(rig, timestamp, index=1) for timestamp in (-1, -2, -3, -4, T0)}
        nothing, start = (0, -1, -1, -1), (0, 0, -1, 0)
        assert answers == {-1: start, -2: start, -3: nothing, -4: start, T0: nothing}

    def test_consumers_get_no_offset_above_the_high_watermark(self, rig: Rig) -> None:
        partition = rig.follower("t", end=6)
        rig.replica_manager.append_internal(partition.tp, batch("g", now_ms=T0 + 500), T0)
        assert list_offsets(rig, LATEST)[1] == 6
        assert list_offsets(rig, LATEST, isolation_level=1)[1] == 6
        assert list_offsets(rig, LATEST, replica_id=2)[1] == 7
        assert list_offsets(rig, LATEST, replica_id=-2)[1] == 7, "a debugging consumer reads like a replica"
        assert list_offsets(rig, T0 + 400) == (0, -1, -1, -1), "the record is not replicated yet"

    def test_unknown_partitions_and_wrong_leader_epochs_are_refused(self, rig: Rig) -> None:
        assert list_offsets(rig, LATEST, topic="nope")[0] == 3
        assert list_offsets(rig, LATEST, index=9)[0] == 3
        rig.partition("t").leader_epoch = 4
        assert [list_offsets(rig, LATEST, epoch=epoch)[0] for epoch in (3, 4, 5, -1)] == [74, 0, 75, 0]

    def test_duplicate_partition_is_refused(self, rig: Rig) -> None:
        both = [ListOffsetsPartition(timestamp=-1), ListOffsetsPartition(timestamp=-2)]
        other = ListOffsetsPartition(partition_index=1, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[*both, other])])
        assert [one.error_code for one in rig.ask(request, 7).topics[0].partitions] == [42, 42, 0]

    def test_leader_epoch_of_the_first_record(self, rig: Rig) -> None:
        partition = rig.partition("t")
        partition.leader_epoch = 3
        rig.replica_manager.append_internal(partition.tp, batch("g"), T0)
        assert list_offsets(rig, EARLIEST)[3] == 0
        delete_records(rig, 6)
        assert list_offsets(rig, EARLIEST) == (0, 6, -1, 3)

    def test_a_new_leader_does_not_know_which_records_are_replicated(self, rig: Rig) -> None:
        """Observed on a leader of Apache Kafka whose only live follower did not fetch since the election."""
        partition = rig.follower("t", end=6)
        rig.replica_manager.append_internal(partition.tp, batch("g", now_ms=T0 + 500), T0)
        partition.epoch_start = 7
        for timestamp in (LATEST, T0 + 400, T0 + 900):
            assert list_offsets(rig, timestamp) == list_offsets(rig, timestamp, 5) == (78, -1, -1, -1)
            assert list_offsets(rig, timestamp, 4)[0] == 5, "v4 has no OFFSET_NOT_AVAILABLE"
            assert list_offsets(rig, timestamp, replica_id=2)[0] == 0
        known = {LATEST_TIERED: (0, -1, -1, -1), EARLIEST: (0, 0, -1, 0), T0 + 2: (0, 2, T0 + 2, 0)}
        assert {timestamp: list_offsets(rig, timestamp) for timestamp in known} == known


class TestDeleteRecords:
    def test_log_start_offset_only_increases(self, rig: Rig) -> None:
        assert delete_records(rig, 3) == (0, 3)
        assert delete_records(rig, 1) == (0, 3)
        assert list_offsets(rig, EARLIEST)[1] == 3
        assert list_offsets(rig, 0)[1] == 3, "deleted records are not found by timestamp"

    def test_minus_one_deletes_up_to_the_high_watermark(self, rig: Rig) -> None:
        assert delete_records(rig, -1) == (0, 6)
        assert list_offsets(rig, LATEST)[1] == list_offsets(rig, EARLIEST)[1] == 6

    def test_deleted_records_do_not_return_after_a_restart(self, rig: Rig) -> None:
        delete_records(rig, 4)
        rig.restart()
        assert list_offsets(rig, EARLIEST)[1] == 4

    @pytest.mark.parametrize("offset", [7, -2])
    def test_offset_above_the_high_watermark_is_refused(self, rig: Rig, offset: int) -> None:
        assert delete_records(rig, offset) == (1, -1)

    def test_delete_records_is_refused_without_delete_policy_and_for_internal_topics(self, rig: Rig) -> None:
        rig.topic("compacted", cleanup_policy=frozenset({"compact"}))
        rig.topic("both", cleanup_policy=frozenset({"compact", "delete"}))
        for internal in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
            rig.topic(internal)
            assert delete_records(rig, 0, internal) == (17, -1)
        assert delete_records(rig, 0, "compacted") == (44, -1)
        assert delete_records(rig, 0, "both") == (0, 0)
        assert delete_records(rig, 0, "nope") == (3, -1)


class TestLeaderEpochs:
    def ask(self, rig: Rig, epoch: int, current: int = -1, topic: str = "t", index: int = 0) -> tuple[int, int, int]:
        """Return error, epoch and end offset."""
        partition = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])])
        [topic_answer] = rig.ask(request, 4).topics
        [one] = topic_answer.partitions
        return one.error_code, one.leader_epoch, one.end_offset

    def test_end_offset_of_each_epoch(self, rig: Rig) -> None:
        partition = rig.partition("t")
        partition.leader_epoch = 2
        rig.replica_manager.append_internal(partition.tp, batch("g"), T0)
        assert [self.ask(rig, epoch) for epoch in (-1, 0, 1, 2, 3)] == [
            (0, -1, -1),
            (0, 0, 6),
            (0, 0, 6),
            (0, 2, 7),
            (0, -1, -1),
        ]

    def test_empty_partition_returns_its_own_epoch(self, rig: Rig) -> None:
        assert self.ask(rig, 0, index=1) == (0, 0, 0)

    def test_unknown_partitions_and_wrong_leader_epochs_are_refused(self, rig: Rig) -> None:
        rig.partition("t").leader_epoch = 4
        assert [self.ask(rig, 0, current)[0] for current in (3, 4, 5)] == [74, 0, 75]
        assert self.ask(rig, 0, topic="nope") == (3, -1, -1)

    def test_leader_epoch_increases_at_a_restart_after_writes(self, rig: Rig) -> None:
        assert rig.partition("t").leader_epoch == 0
        rig.restart()
        assert (rig.partition("t").leader_epoch, rig.partition("t", 1).leader_epoch) == (1, 0)
        rig.restart()
        assert rig.partition("t").leader_epoch == 1, "nothing was written in the epoch"
        rig.replica_manager.append_internal(TopicPartition("t", 0), batch("g"), T0)
        rig.restart()
        assert rig.partition("t").leader_epoch == 2
        assert [self.ask(rig, epoch)[1:] for epoch in (0, 1, 2)] == [(0, 6), (1, 7), (2, 7)]


class TestDeleteRecordsOfReplicas:
    """The answer waits until a follower, whose log start the tests set, has deleted the records, too."""

    @pytest.fixture
    def follower(self, rig: Rig) -> Follower:
        follower = rig.follower("t", end=6).followers[2]
        follower.log_start = 1
        return follower

    @pytest.fixture
    def waiting(self, rig: Rig, follower: Follower) -> Answer:
        answer = rig.send(deletion(4), 2)
        assert not answer.is_there
        return answer

    def test_the_answer_is_the_low_watermark_when_the_follower_has_deleted_them(
        self, rig: Rig, follower: Follower, waiting: Answer
    ) -> None:
        for start in (3, 5):
            assert not waiting.is_there
            follower.log_start = start
            rig.replica_manager.deletes.check_and_complete(rig.partition("t").tp)
        assert result(waiting.value) == (0, 4)

    def test_the_deadline_is_request_timed_out_with_the_first_low_watermark(
        self, rig: Rig, follower: Follower, waiting: Answer
    ) -> None:
        follower.log_start = 3
        rig.replica_manager.deletes.check_and_complete(rig.partition("t").tp)
        rig.wait(1000)
        assert result(waiting.value) == (7, 1)

    def test_a_lost_leadership_ends_the_wait(self, rig: Rig, waiting: Answer) -> None:
        rig.partition("t").is_leader = False
        rig.replica_manager.deletes.check_and_complete(rig.partition("t").tp)
        assert result(waiting.value) == (6, -1)
