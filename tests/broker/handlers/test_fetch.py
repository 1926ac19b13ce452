"""Fetch: returned records, errors, divergence, delayed fetches, and sessions, as observed on Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from kcli.error_codes import ErrorCode
from kcli.network.file_slice import FileSlice
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kcli.protocol.records.batch import walk_batches
from kcli.structs import TopicPartition
from tests.broker.log.logs import Transactions
from tests.broker.rig import Answer, Rig, batch

ONE = batch("a")


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.topic("t", partitions=2)
    return rig


def write(rig: Rig, records: bytes = ONE, topic: str = "t", index: int = 0) -> None:
    """Append as a Produce does, which completes waiting fetches."""
    tp = TopicPartition(topic, index)
    outcomes = rig.replica_manager.append(
        {tp: memoryview(bytearray(records))},
        acks=1,
        timeout_ms=0,
        now_ms=rig.clock.now_ms(),
        now_wall_ms=rig.clock.wall_ms(),
    )
    assert not outcomes.value[tp].error


def fetch_request(
    *partitions: tuple[str | UUID, int, int] | tuple[str | UUID, int, int, dict[str, int]], **options: Any
) -> FetchRequest:
    """Build a Fetch of (topic or id, partition, offset, optional fields)."""
    topics = []
    for topic, index, offset, *more in partitions:
        fields = {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            **(more[0] if more else {}),
        }
        name = {"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic}
        topics.append(FetchTopic(partitions=[FetchPartition(**fields)], **name))
    return FetchRequest(topics=topics, **{"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, **options})


def rows(answer: Any) -> list[PartitionData]:
    assert answer.error_code == 0
    return [one for topic in answer.responses for one in topic.partitions]


def batches(row: PartitionData) -> list[int]:
    """Return the base offsets of the complete batches in a row; the last batch may be truncated."""
    data = bytes(row.records or b"")
    starts = walk_batches(data, 0, len(data)).starts
    assert len(starts) or not data, "a part of a batch is useless"
    return [int.from_bytes(data[at : at + 8], "big") for at in starts]


def fetch(rig: Rig, *partitions: Any, version: int = 12, **options: Any) -> PartitionData:
    """Return the only row of a Fetch that does not wait."""
    [row] = rows(rig.ask(fetch_request(*partitions, **options), version))
    return row


class TestReading:
    @pytest.mark.parametrize("version", range(4, 19))
    def test_every_version_returns_the_written_batches(self, rig: Rig, version: int) -> None:
        id = rig.topic("u")
        write(rig, topic="u")
        row = fetch(rig, (id if version >= 13 else "u", 0, 0), version=version)
        assert (row.high_watermark, row.last_stable_offset) == (1, 1)
        assert row.log_start_offset == (0 if version >= 5 else -1)
        assert (row.preferred_read_replica, row.aborted_transactions) == (-1, None)
        assert bytes(row.records or b"")[16:] == ONE[16:], "identical except for base offset and leader epoch"

    def test_batches_are_returned_unchanged(self, rig: Rig) -> None:
        write(rig)
        write(rig)
        answer = rig.send(fetch_request(("t", 0, 0)), 12)
        records = answer._given.responses[0].partitions[0].records
        assert isinstance(records, FileSlice)
        assert len(records) == 2 * len(ONE)

    def test_offset_inside_a_batch_returns_the_whole_batch(self, rig: Rig) -> None:
        write(rig, batch("a", "b", "c"))
        write(rig, batch("d", "e"))
        assert batches(fetch(rig, ("t", 0, 1))) == [0, 3]
        assert batches(fetch(rig, ("t", 0, 4))) == [3]

    @pytest.mark.parametrize("limit", [{"max_bytes": 1}, {"max_bytes": 0}, {"partition": 1}])
    def test_first_batch_is_whole_beyond_the_limit(self, rig: Rig, limit: dict[str, int]) -> None:
        write(rig)
        write(rig)
        options = {} if "partition" in limit else limit
        more = {"partition_max_bytes": 1} if "partition" in limit else {}
        assert batches(fetch(rig, ("t", 0, 0, more), **options)) == [0]

    def test_only_the_first_partition_with_records_exceeds_the_limits(self, rig: Rig) -> None:
        rig.topic("u", partitions=4)
        for index in (1, 2, 3):
            write(rig, topic="u", index=index)
            write(rig, topic="u", index=index)
        small = {"partition_max_bytes": len(ONE) - 1}
        partitions = [("u", 0, 0), ("u", 1, 0, small), ("u", 2, 0, small), ("u", 3, 0)]
        result = rows(rig.ask(fetch_request(*partitions), 12))
        assert [batches(row) for row in result] == [[], [0], [], [0, 1]]

    def test_max_bytes_is_spent_in_the_order_of_the_request(self, rig: Rig) -> None:
        for index in (0, 1, 1):
            write(rig, index=index)
        most = {"max_bytes": 2 * len(ONE)}
        assert [batches(row) for row in rows(rig.ask(fetch_request(("t", 1, 0), ("t", 0, 0), **most), 12))] == [
            [0, 1],
            [],
        ]
        assert [batches(row) for row in rows(rig.ask(fetch_request(("t", 0, 0), ("t", 1, 0), **most), 12))] == [
            [0],
            [0],
        ]

    def test_fetch_max_bytes_of_the_broker_applies(self) -> None:
        rig = Rig(fetch_max_bytes=1024)
        rig.topic("t", partitions=2)
        for index in (0, 1):
            write(rig, batch(b"x" * 1000), index=index)
        result = rows(rig.ask(fetch_request(("t", 0, 0), ("t", 1, 0)), 12))
        assert [batches(row) for row in result] == [[0], []]

    def test_fetch_ends_at_the_segment_boundary(self, rig: Rig) -> None:
        for _ in range(3):
            write(rig)
        rig.partition("t").log.roll(rig.clock.wall_ms())
        write(rig)
        assert batches(fetch(rig, ("t", 0, 0))) == [0, 1, 2]
        assert batches(fetch(rig, ("t", 0, 3))) == [3]

    def test_read_committed_has_an_empty_list_of_aborted_transactions(self, rig: Rig) -> None:
        write(rig)
        row = fetch(rig, ("t", 0, 0), isolation_level=1)
        assert (row.aborted_transactions, batches(row)) == ([], [0])

    def test_aborted_transactions_are_null_if_the_first_batch_exceeds_the_remaining_bytes(self, rig: Rig) -> None:
        write(rig)
        write(rig, index=1)
        small = {"partition_max_bytes": 1}
        request = fetch_request(("t", 0, 0, small), ("t", 1, 0, small), isolation_level=1)
        first, second = rows(rig.ask(request, 12))
        assert (first.aborted_transactions, batches(first)) == ([], [0])
        assert (second.aborted_transactions, batches(second)) == (None, [])  # as Kafka 4.3.1 answers

    def test_read_committed_lists_aborted_transactions_below_the_last_stable_offset(self, rig: Rig) -> None:
        story = Transactions(rig.partition("t").log)
        story.write(7, b"a")
        story.write(8, b"b")
        story.end(7, commit=False)
        story.end(8, commit=True)
        story.write(9, b"c")
        row = fetch(rig, ("t", 0, 0), isolation_level=1)
        assert (row.high_watermark, row.last_stable_offset, batches(row)) == (5, 4, [0, 1, 2, 3])
        assert row.aborted_transactions is not None
        assert [(one.producer_id, one.first_offset) for one in row.aborted_transactions] == [(7, 0)]
        assert fetch(rig, ("t", 0, 3), isolation_level=1).aborted_transactions == []
        uncommitted = fetch(rig, ("t", 0, 0))
        assert (uncommitted.aborted_transactions, batches(uncommitted)) == (None, [0, 1, 2, 3, 4])

    def test_adjacent_partitions_share_a_topic_entry_in_request_order(self, rig: Rig) -> None:
        rig.topic("u")
        answer = rig.ask(fetch_request(("t", 1, 0), ("t", 0, 0), ("u", 0, 0), ("t", 1, 0), max_wait_ms=0), 12)
        entries = [(topic.topic, [one.partition_index for one in topic.partitions]) for topic in answer.responses]
        assert entries == [("t", [1, 0]), ("u", [0]), ("t", [1])]


class TestErrors:
    @pytest.mark.parametrize("offset", [-1, 1, 4, 2**62])
    def test_offset_outside_the_log_is_out_of_range(self, rig: Rig, offset: int) -> None:
        for _ in range(3):
            write(rig)
        rig.replica_manager.delete_records({TopicPartition("t", 0): 2}, timeout_ms=0, now_ms=0)
        row = fetch(rig, ("t", 0, offset))
        assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (-1, -1, -1)
        assert (row.aborted_transactions, row.records) == (None, b"")

    @pytest.mark.parametrize(
        ("topic", "index", "version", "code"), [("nope", 0, 12, 3), ("t", 9, 12, 3), (uuid4(), 0, 13, 100)]
    )
    def test_unknown_topic_and_partition(
        self, rig: Rig, topic: str | UUID, index: int, version: int, code: int
    ) -> None:
        row = fetch(rig, (topic, index, 0), version=version)
        assert (row.partition_index, row.error_code, row.high_watermark) == (index, code, -1)
        assert (row.aborted_transactions, row.records) == ([], b"")

    def test_unknown_partition_of_a_known_topic_id(self, rig: Rig) -> None:
        assert fetch(rig, (rig.topic("u"), 5, 0), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_old_leader_epoch_is_fenced_and_new_one_unknown(self, rig: Rig) -> None:
        rig.partition("t").leader_epoch = 5
        epochs = {4: 74, 5: 0, 6: 75, -1: 0}
        for epoch, code in epochs.items():
            assert fetch(rig, ("t", 0, 0, {"current_leader_epoch": epoch}), max_wait_ms=0).error_code == code

    def test_fenced_reader_gets_the_current_leader_from_v16(self, rig: Rig) -> None:
        id = rig.topic("u")
        rig.partition("u").leader_epoch = 5
        for version, leader in ((15, (-1, -1)), (16, (1, 5))):
            row = fetch(rig, (id, 0, 0, {"current_leader_epoch": 4}), version=version)
            assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == leader

    def test_error_of_one_partition_completes_the_fetch_with_the_others(self, rig: Rig) -> None:
        result = rows(rig.ask(fetch_request(("t", 1, 99), ("t", 0, 0)), 12))
        assert [row.error_code for row in result] == [1, 0]

    def test_fetch_by_a_replica_is_refused(self, rig: Rig) -> None:
        assert fetch(rig, ("t", 0, 0), version=11, replica_id=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        id = rig.topic("u")
        assert (
            fetch(rig, (id, 0, 0), version=17, replica_state=ReplicaState(replica_id=2)).error_code
            == ErrorCode.NOT_LEADER_OR_FOLLOWER
        )


class TestDivergence:
    """The reader sends the epoch of its last record (KIP-320); a divergence is returned instead of records."""

    @pytest.fixture
    def rig(self) -> Rig:
        rig = Rig()
        rig.topic("t")
        for epoch in (0, 2, 5):
            rig.partition("t").leader_epoch = epoch
            write(rig)
            write(rig)
        return rig

    def ask(self, rig: Rig, offset: int, epoch: int) -> tuple[int, tuple[int, int], list[int]]:
        row = fetch(rig, ("t", 0, offset, {"last_fetched_epoch": epoch}), max_wait_ms=0)
        return row.error_code, (row.diverging_epoch.epoch, row.diverging_epoch.end_offset), batches(row)

    def test_reader_without_divergence_gets_records(self, rig: Rig) -> None:
        assert self.ask(rig, 2, 0) == (0, (-1, -1), [2, 3, 4, 5])
        assert self.ask(rig, 6, 5) == (0, (-1, -1), [])

    def test_reader_beyond_the_end_of_its_epoch_gets_that_end(self, rig: Rig) -> None:
        assert self.ask(rig, 3, 0) == (0, (0, 2), [])

    def test_reader_with_an_unknown_epoch_gets_the_previous_epoch(self, rig: Rig) -> None:
        assert self.ask(rig, 4, 3) == (0, (2, 4), [])

    def test_reader_with_a_future_epoch_is_out_of_range(self, rig: Rig) -> None:
        assert self.ask(rig, 6, 9)[0] == 1


class TestWaiting:
    """At the log end a Fetch waits for `min_bytes`, for an event that makes waiting pointless, or its deadline."""

    def park(self, rig: Rig, *partitions: Any, version: int = 12, **options: Any) -> Answer:
        answer = rig.send(fetch_request(*partitions, **options), version)
        assert not answer.is_there
        return answer

    def test_deadline_completes_the_fetch(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0))
        rig.wait(499)
        assert not answer.is_there
        rig.wait(1)
        [row] = rows(answer.value)
        assert (row.error_code, row.high_watermark, row.records) == (0, 0, b"")
        assert rig.replica_manager.fetches.delayed == 0

    @pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"min_bytes": 0}, {"max_wait_ms": -1}])
    def test_fetch_without_wait_or_min_bytes_returns_immediately(self, rig: Rig, options: dict[str, int]) -> None:
        assert fetch(rig, ("t", 0, 0), **options).records == b""

    def test_empty_fetch_returns_immediately(self, rig: Rig) -> None:
        assert rig.ask(fetch_request(), 12).responses == []

    def test_new_record_completes_the_fetch(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 1, 0), ("t", 0, 0))
        write(rig)
        assert [batches(row) for row in rows(answer.value)] == [[], [0]]
        assert (rig.replica_manager.fetches.delayed, rig.replica_manager.fetches.watched, len(rig.timer)) == (0, 0, 0)

    def test_records_of_other_partitions_do_not_complete_the_fetch(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0))
        write(rig, index=1)
        assert not answer.is_there

    def test_min_bytes_is_reached_by_two_appends(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0), ("t", 1, 0), min_bytes=2 * len(ONE))
        write(rig, index=0)
        assert not answer.is_there
        write(rig, index=1)
        assert [batches(row) for row in rows(answer.value)] == [[0], [0]]

    def test_deadline_below_min_bytes_returns_the_available_records(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0), min_bytes=1000)
        write(rig)
        write(rig)
        rig.wait(500)
        assert [batches(row) for row in rows(answer.value)] == [[0, 1]]

    def test_available_bytes_count_towards_min_bytes(self, rig: Rig) -> None:
        write(rig)
        answer = self.park(rig, ("t", 0, 0), min_bytes=2 * len(ONE))
        write(rig)
        assert [batches(row) for row in rows(answer.value)] == [[0, 1]]

    def test_partition_max_bytes_limits_the_bytes_that_count(self, rig: Rig) -> None:
        """Two batches exist, but with a limit of one byte per partition `min_bytes` is never reached."""
        answer = self.park(rig, ("t", 0, 0, {"partition_max_bytes": 1}), min_bytes=len(ONE) + 2)
        write(rig)
        write(rig)
        assert not answer.is_there
        rig.wait(500)
        assert [batches(row) for row in rows(answer.value)] == [[0]]

    @pytest.mark.parametrize("isolation_level", [0, 1])
    def test_fetch_above_the_readable_end_waits_only_within_the_first_batch_there(
        self, rig: Rig, isolation_level: int
    ) -> None:
        """As Apache Kafka 4.3.1. The end is the high watermark, or the last stable offset for read_committed."""
        write(rig)
        log = rig.partition("t").log
        story = Transactions(log)
        if isolation_level:
            story.write(7, b"open", b"b", b"c")
        else:
            rig.follower("t", end=1)
            write(rig, batch("a", "b", "c"))
        write(rig)
        reader = {"isolation_level": isolation_level}
        waiting = [self.park(rig, ("t", 0, offset), **reader) for offset in (1, 2, 3)]
        row = fetch(rig, ("t", 0, 4), **reader)
        assert (row.error_code, row.last_stable_offset, row.records) == (0, 1, b"")
        log.roll(rig.clock.wall_ms())
        assert fetch(rig, ("t", 0, 5), **reader).records == b""
        if isolation_level:
            story.end(7, commit=True)
        rig.without_follower("t")
        rig.replica_manager.advance_high_watermark(TopicPartition("t", 0))
        write(rig)
        assert [batches(rows(answer.value)[0]) for answer in waiting] == [[1, 4]] * 3

    def test_rolled_segment_completes_the_fetch(self, rig: Rig) -> None:
        write(rig)
        answer = self.park(rig, ("t", 0, 0), min_bytes=10_000)
        rig.partition("t").log.roll(rig.clock.wall_ms())
        write(rig)
        assert [batches(row) for row in rows(answer.value)] == [[0]], "the segment does not grow"

    def test_fetch_at_the_end_of_a_rolled_segment_keeps_waiting(self, rig: Rig) -> None:
        write(rig)
        rig.partition("t").log.roll(rig.clock.wall_ms())
        answer = self.park(rig, ("t", 0, 1))
        rig.replica_manager.fetches.check_and_complete(TopicPartition("t", 0))
        assert not answer.is_there
        write(rig)
        assert [batches(row) for row in rows(answer.value)] == [[1]]

    def test_topic_deletion_completes_the_fetch(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0), ("t", 1, 0))
        rig.replica_manager.delete_partition(TopicPartition("t", 0))
        assert [row.error_code for row in rows(answer.value)] == [3, 0]

    def test_topic_deletion_completes_the_fetch_by_id(self, rig: Rig) -> None:
        id = rig.topic("u")
        answer = self.park(rig, (id, 0, 0), version=13)
        rig.replica_manager.delete_partition(TopicPartition("u", 0))
        assert [row.error_code for row in rows(answer.value)] == [3]
        assert fetch(rig, (id, 0, 0), version=13).error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_lost_leadership_completes_the_fetch(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0))
        rig.partition("t").is_leader = False
        rig.replica_manager.fetches.check_and_complete(TopicPartition("t", 0))
        assert [row.error_code for row in rows(answer.value)] == [6]

    def test_new_leader_epoch_completes_the_fetch(self, rig: Rig) -> None:
        answer = self.park(rig, ("t", 0, 0, {"current_leader_epoch": 0}))
        rig.partition("t").leader_epoch = 1
        rig.replica_manager.fetches.check_and_complete(TopicPartition("t", 0))
        assert [row.error_code for row in rows(answer.value)] == [74]

    def test_partition_unknown_from_the_start_does_not_complete_the_fetch(self, rig: Rig) -> None:
        """Apache Kafka 4.3.1 answered after 1.02 s with a wait of 1 s."""
        answer = self.park(rig, ("nope", 0, 0), ("t", 0, 0))
        rig.wait(500)
        assert [row.error_code for row in rows(answer.value)] == [3, 0]
        assert fetch(rig, ("nope", 0, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (
            "no known partition, so no wait"
        )

    def test_bytes_above_the_high_watermark_do_not_count(self, rig: Rig) -> None:
        partition = rig.follower("t", end=0)
        answer = self.park(rig, ("t", 0, 0))
        write(rig)
        assert not answer.is_there, "no follower has the record"
        rig.follower("t", end=1)
        rig.replica_manager.advance_high_watermark(partition.tp)
        assert [batches(row) for row in rows(answer.value)] == [[0]]

    def test_one_record_completes_ten_thousand_fetches(self, rig: Rig) -> None:
        waiting = [self.park(rig, ("t", n % 2, 0)) for n in range(10_000)]
        write(rig)
        assert sum(one.is_there for one in waiting) == 5000
        assert rig.replica_manager.fetches.delayed == 5000
        rig.wait(500)
        assert all(one.is_there for one in waiting)
        assert (rig.replica_manager.fetches.delayed, len(rig.timer)) == (0, 0)


class TestSessions:
    def test_incremental_response_has_only_changed_partitions(self, rig: Rig) -> None:
        write(rig)
        first = rig.ask(fetch_request(("t", 0, 1), ("t", 1, 0), session_epoch=0, max_wait_ms=0), 12)
        assert first.session_id > 0
        assert [row.partition_index for row in rows(first)] == [0, 1]
        quiet = rig.ask(fetch_request(session_id=first.session_id, session_epoch=1, max_wait_ms=0), 12)
        assert (quiet.session_id, quiet.responses) == (first.session_id, [])
        waiting = rig.send(fetch_request(session_id=first.session_id, session_epoch=2), 12)
        write(rig, index=1)
        assert [(row.partition_index, batches(row)) for row in rows(waiting.value)] == [(1, [0])]

    def test_invalid_session_ids_and_epochs_are_refused(self, rig: Rig) -> None:
        id = rig.ask(fetch_request(("t", 0, 0), session_epoch=0, max_wait_ms=0), 12).session_id
        for options, version, code in (
            ({"session_id": id, "session_epoch": 5}, 12, 71),
            ({"session_id": id + 1, "session_epoch": 1}, 12, 70),
            ({"session_id": id, "session_epoch": 1}, 13, 106),
        ):
            answer = rig.ask(fetch_request(**options), version)
            assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])

    def test_partitions_are_forgotten_by_name_and_by_id(self, rig: Rig) -> None:
        topic_id = rig.topic("u", partitions=2)
        for name, version in (("u", 12), (topic_id, 13)):
            opened = rig.ask(fetch_request((name, 0, 0), (name, 1, 0), session_epoch=0, max_wait_ms=0), version)
            gone = ForgottenTopic(partitions=[0], **({"topic": name} if version == 12 else {"topic_id": name}))
            again = fetch_request(
                session_id=opened.session_id, session_epoch=1, max_wait_ms=0, forgotten_topics_data=[gone]
            )
            assert rig.ask(again, version).error_code == 0
            [session] = [
                one for one in rig.replica_manager.fetch_sessions.sessions.values() if one.id == opened.session_id
            ]
            assert [index for _, index in session.partitions] == [1]

    def test_recreated_topic_has_another_id(self, rig: Rig) -> None:
        old = rig.topic("u")
        opened = rig.ask(fetch_request((old, 0, 0), session_epoch=0, max_wait_ms=0), 13)
        rig.replica_manager.delete_partition(TopicPartition("u", 0))
        rig.topic("u")
        [row] = rows(rig.ask(fetch_request(session_id=opened.session_id, session_epoch=1), 13))
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
