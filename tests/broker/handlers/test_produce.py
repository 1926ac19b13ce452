"""Produce: accepted and refused batches, acks, idempotence, and replicas.

Codes, offsets and messages are those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from kcli.broker.serving.request_context import CloseConnection
from kcli.error_codes import ErrorCode
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.log.logs import values
from tests.broker.rig import Answer, Rig, batch


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.topic("t", partitions=2)
    return rig


def request(
    records: bytes | None,
    topic: str | UUID = "t",
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    data = TopicProduceData(partition_data=[PartitionProduceData(index=partition, records=records)])
    if isinstance(topic, UUID):
        data.topic_id = topic
    else:
        data.name = topic
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=2000, topic_data=[data])


def produce(rig: Rig, records: bytes | None, version: int = 9, **options: Any) -> Any:
    """Return the only partition of the response."""
    [topic] = rig.ask(request(records, **options), version).responses
    [partition] = topic.partition_responses
    return partition


def changed(records: bytes, **bytes_at: int) -> bytes:
    """Return a copy of the batch with changed bytes; `at16=3` sets byte 16 to 3."""
    data = bytearray(records)
    for place, value in bytes_at.items():
        data[int(place[2:])] = value
    return bytes(data)


GOOD = batch("a", "b", "c")


class TestAccepted:
    def test_batches_are_appended_at_the_log_end(self, rig: Rig) -> None:
        answers = [produce(rig, GOOD) for _ in range(3)]
        assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 3), (0, 6)]
        assert {(one.log_append_time_ms, one.log_start_offset) for one in answers} == {(-1, 0)}
        assert rig.partition("t").log.high_watermark == 9

    @pytest.mark.parametrize("version", range(3, 13))
    def test_every_version(self, rig: Rig, version: int) -> None:
        assert produce(rig, GOOD, version).error_code == 0

    def test_by_topic_id(self, rig: Rig) -> None:
        id = rig.topic("by-id")
        [topic] = rig.ask(request(GOOD, topic=id), 13).responses
        assert topic.topic_id == id
        assert topic.partition_responses[0].error_code == 0

    def test_log_append_time_is_returned(self, rig: Rig) -> None:
        rig.topic("stamped", message_timestamp_type="LogAppendTime")
        assert produce(rig, GOOD, topic="stamped").log_append_time_ms == rig.clock.wall_ms()

    def test_trailing_bytes_shorter_than_a_batch_are_ignored(self, rig: Rig) -> None:
        assert produce(rig, GOOD + b"xx").error_code == 0
        assert rig.partition("t").log.size_bytes == len(GOOD)

    @pytest.mark.parametrize("entries", [[[0, 0]], [[0], [0]], [[0, 1, 0]], [[0, 1], [0]]])
    def test_of_several_entries_for_a_partition_only_the_last_is_appended(
        self, rig: Rig, entries: list[list[int]]
    ) -> None:
        """As Apache Kafka 4.3.1, whose answer has one row, too."""
        counter = iter("abc")
        topics = [
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=index, records=batch(next(counter))) for index in indexes],
            )
            for indexes in entries
        ]
        answer = rig.ask(ProduceRequest(acks=-1, timeout_ms=2000, topic_data=topics), 9)
        rows = [row for topic in answer.responses for row in topic.partition_responses]
        flat = [index for indexes in entries for index in indexes]
        assert sorted((row.index, row.error_code, row.base_offset) for row in rows) == [(n, 0, 0) for n in set(flat)]
        assert values(rig.partition("t").log) == [b"abc"[len(flat) - 1 :][:1]]

    def test_response_is_in_the_order_of_the_request(self, rig: Rig) -> None:
        rig.topic("u")
        parts = [("t", 1, GOOD), ("gone", 0, GOOD), ("u", 0, GOOD[:-3]), ("t", 0, GOOD)]
        answer = rig.ask(
            ProduceRequest(
                acks=1,
                topic_data=[
                    TopicProduceData(name=name, partition_data=[PartitionProduceData(index=at, records=records)])
                    for name, at, records in parts
                ],
            ),
            9,
        )
        results = [(t.name, p.index, p.error_code) for t in answer.responses for p in t.partition_responses]
        assert results == [("t", 1, 0), ("gone", 0, 3), ("u", 0, 87), ("t", 0, 0)]


class TestRefused:
    @pytest.mark.parametrize(
        ("records", "code"),
        [
            pytest.param(changed(GOOD, at70=0xFF), 2, id="bad CRC"),
            pytest.param(changed(GOOD, at16=3), 2, id="magic 3"),
            pytest.param(changed(GOOD, at16=1), 87, id="magic 1"),
            pytest.param(changed(GOOD, at16=0), 87, id="magic 0"),
            pytest.param(GOOD + GOOD, 87, id="two batches"),
            pytest.param(b"", 87, id="no bytes"),
            pytest.param(None, 87, id="null"),
            pytest.param(GOOD[:-5], 87, id="cut"),
            pytest.param(changed(GOOD, at7=5), 87, id="base offset 5"),
            pytest.param(batch("a", control=True, producer_id=5, producer_epoch=0, base_sequence=0), 87, id="control"),
            pytest.param(
                batch("a", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0), 53, id="transactional"
            ),
            pytest.param(batch(b"x" * 1_100_000), 10, id="too large"),
        ],
    )
    def test_invalid_batch_is_refused(self, rig: Rig, records: bytes | None, code: int) -> None:
        answer = produce(rig, records)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (code, -1, -1)
        assert rig.partition("t").log.log_end_offset == 0, "nothing was written"

    def test_zstd_before_v7_is_refused(self, rig: Rig) -> None:
        zipped = batch("a", compression="zstd")
        assert produce(rig, zipped, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert produce(rig, zipped, 7).error_code == 0

    def test_null_key_in_a_compacted_topic_is_a_record_error(self, rig: Rig) -> None:
        rig.topic("compacted", cleanup_policy=frozenset({"compact"}))
        answer = produce(rig, batch("a", key=None), topic="compacted")
        assert (answer.error_code, answer.log_start_offset) == (87, 0)
        assert [one.batch_index for one in answer.record_errors] == [0]
        assert "key" in answer.record_errors[0].batch_index_error_message
        assert answer.error_message
        assert (
            produce(rig, batch("a", key=None), version=7, topic="compacted").error_code == ErrorCode.INVALID_RECORD
        ), "v7 has no messages"

    def test_future_timestamps_and_missing_timestamps(self, rig: Rig) -> None:
        late = batch("a", "b", now_ms=rig.clock.wall_ms() + 3_600_001)
        answer = produce(rig, late)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert answer.record_errors
        assert produce(rig, batch("a", now_ms=-1)).error_code == 0

    def test_unknown_topics_and_partitions_are_refused(self, rig: Rig) -> None:
        for options, version, code in (
            ({"topic": "nope"}, 9, 3),
            ({"partition": 9}, 9, 3),
            ({"topic": uuid4()}, 13, 100),
        ):
            answer = produce(rig, GOOD, version, **options)
            assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (code, -1, -1)

    def test_invalid_acks_are_refused(self, rig: Rig) -> None:
        assert produce(rig, GOOD, acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        assert rig.partition("t").log.log_end_offset == 0

    @pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
    def test_internal_topics_accept_only_admin_clients(self, rig: Rig, topic: str) -> None:
        rig.topic(topic)
        assert produce(rig, GOOD, topic=topic).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        answer = rig.ask(request(GOOD, topic=topic), 9, client_id="__admin_client")
        assert answer.responses[0].partition_responses[0].error_code == 0


class TestAcksZero:
    def test_success_has_no_answer(self, rig: Rig) -> None:
        assert rig.ask(request(GOOD, acks=0), 9) is None
        assert rig.partition("t").log.log_end_offset == 3

    def test_error_closes_the_connection(self, rig: Rig) -> None:
        with pytest.raises(CloseConnection, match="UNKNOWN_TOPIC_OR_PARTITION"):
            rig.send(request(GOOD, topic="nope", acks=0), 9)


class TestIdempotence:
    def send(self, rig: Rig, sequence: int, *, epoch: int = 0, id: int = 7, values: tuple = ("a", "b")) -> Any:
        return produce(rig, batch(*values, producer_id=id, producer_epoch=epoch, base_sequence=sequence))

    def test_duplicate_batch_returns_its_original_offset(self, rig: Rig) -> None:
        produce(rig, batch("x", "y"))
        first, again = self.send(rig, 0), self.send(rig, 0)
        assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 2, -1)
        assert (again.error_code, again.base_offset) == (0, 2)
        assert again.log_append_time_ms == 1_500_000_000_001, "the batch's largest timestamp"
        assert rig.partition("t").log.log_end_offset == 4

    def test_the_last_five_batches_are_deduplicated(self, rig: Rig) -> None:
        for n in range(6):
            assert self.send(rig, 2 * n).base_offset == 2 * n
        assert self.send(rig, 2).base_offset == 2
        assert self.send(rig, 0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_sequence_gaps_and_old_epochs_are_refused(self, rig: Rig) -> None:
        self.send(rig, 0, epoch=3)
        gap = self.send(rig, 9, epoch=3)
        assert (gap.error_code, gap.base_offset, gap.log_start_offset) == (45, -1, 0)
        assert self.send(rig, 2, epoch=2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert self.send(rig, 0, epoch=4).error_code == 0
        assert self.send(rig, 2, epoch=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_unknown_producer_may_start_at_any_sequence(self, rig: Rig) -> None:
        assert self.send(rig, 5, id=99).error_code == 0

    def test_producer_state_survives_a_restart(self, rig: Rig) -> None:
        for n in range(3):
            self.send(rig, 2 * n)
        rig.restart()
        assert self.send(rig, 4).base_offset == 4, "duplicate after the restart"
        assert self.send(rig, 8).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.send(rig, 6).base_offset == 6


class TestReplicas:
    """Writes with acks=all wait for a follower, whose position the tests set."""

    @pytest.fixture
    def waiting(self, rig: Rig) -> Answer:
        rig.follower("t", end=0)
        answer = rig.send(request(GOOD), 9)
        assert not answer.is_there
        assert rig.replica_manager.produces.delayed == 1
        return answer

    def outcome(self, answer: Answer) -> tuple[int, int]:
        one = answer.value.responses[0].partition_responses[0]
        return one.error_code, one.base_offset

    def follower_has(self, rig: Rig, offset: int) -> None:
        partition = rig.follower("t", end=offset)
        rig.replica_manager.advance_high_watermark(partition.tp)

    def test_acks_all_waits_for_every_replica(self, rig: Rig, waiting: Answer) -> None:
        self.follower_has(rig, 2)
        assert not waiting.is_there
        self.follower_has(rig, 3)
        assert self.outcome(waiting) == (0, 0)
        assert rig.replica_manager.produces.delayed == 0
        assert len(rig.timer) == 0

    def test_deadline_is_request_timed_out_and_the_records_remain(self, rig: Rig, waiting: Answer) -> None:
        rig.wait(1999)
        assert not waiting.is_there
        rig.wait(1)
        assert self.outcome(waiting) == (7, 0)
        assert rig.partition("t").log.log_end_offset == 3

    def test_acks_one_does_not_wait(self, rig: Rig) -> None:
        rig.follower("t", end=0)
        assert produce(rig, GOOD, acks=1).base_offset == 0

    def test_partition_deletion_ends_the_wait(self, rig: Rig, waiting: Answer) -> None:
        rig.replica_manager.delete_partition(rig.partition("t").tp)
        assert self.outcome(waiting) == (3, 0)

    def test_a_lost_leadership_ends_the_wait(self, rig: Rig, waiting: Answer) -> None:
        rig.partition("t").is_leader = False
        rig.replica_manager.produces.check_and_complete(rig.partition("t").tp)
        assert self.outcome(waiting) == (6, 0)
        assert produce(rig, GOOD).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_one_slow_partition_does_not_fail_the_others(self, rig: Rig) -> None:
        rig.follower("t", 1, end=0)
        data = [PartitionProduceData(index=at, records=GOOD) for at in (0, 1)]
        both = ProduceRequest(acks=-1, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=data)])
        answer = rig.send(both, 9)
        rig.wait(100)
        rows = answer.value.responses[0].partition_responses
        assert [(one.error_code, one.base_offset) for one in rows] == [(0, 0), (7, 0)]
